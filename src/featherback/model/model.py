"""The model a simulator runs: a compiled MuJoCo model, which parts of it act, and notices."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from featherback._checks import is_integer
from featherback._typing import Array, Bools
from featherback.errors import ParameterError
from featherback.model.pairs import Pairs
from featherback.model.report import LAWS, Notice, UnsupportedFeature, format_report
from featherback.model.settings import with_round_friction

if TYPE_CHECKING:
    import mujoco

    from featherback.model.structure import Structure


@dataclass(frozen=True)
class Parsed:
    """What reading a model file yields; the engine's structure is built from it.

    Attributes:
        mujoco: the compiled model; what is dropped has no effect in it either.
        pairs: pairs of geoms that may touch.
        keep_equality: bool[neq], which equality constraints act.
        keep_actuator: bool[nu], which actuators act.
        keep_tendon: bool[ntendon], which tendons are there.
        notices: what was ignored, dropped, approximated or repaired.
        name: name of the model.
        filename: the file it was read from, or None.
        refused: what one of the contact laws does not have and is not to be dropped.
    """

    mujoco: mujoco.MjModel
    pairs: Pairs
    keep_equality: Bools
    keep_actuator: Bools
    keep_tendon: Bools
    notices: tuple[Notice, ...]
    name: str
    filename: str | None
    refused: tuple[UnsupportedFeature, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A robot, or several, ready to be simulated. Made by `featherback.load`; never changes.

    Attributes:
        parsed: what was read from the file.
        structure: the arrays the engine runs on.
        nq: length of a configuration q.
        nv: length of a velocity v.
        nu: length of a control u.
        na: length of an activation act.
        nbody: number of bodies, the world included.
        njnt: number of joints.
        ngeom: number of geoms.
        nsite: number of sites.
    """

    parsed: Parsed
    structure: Structure
    nq: int = field(init=False)
    nv: int = field(init=False)
    nu: int = field(init=False)
    na: int = field(init=False)
    nbody: int = field(init=False)
    njnt: int = field(init=False)
    ngeom: int = field(init=False)
    nsite: int = field(init=False)

    def __post_init__(self) -> None:
        """Note the sizes."""
        for size in ("nq", "nv", "nu", "na", "nbody", "njnt", "ngeom", "nsite"):
            object.__setattr__(self, size, int(getattr(self.mujoco, size)))

    def __repr__(self) -> str:
        """Return name and sizes."""
        return (
            f'Model("{self.name}", nq={self.nq}, nv={self.nv}, nu={self.nu}, na={self.na}, '
            f"nbody={self.nbody}, ngeom={self.ngeom})"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Travel as what it was made from."""
        return {"parsed": self.parsed, "structure": self.structure}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled, read-only as it was; arrays such as q0 are made again."""
        self.__dict__.update(state)
        self.__post_init__()
        parsed = self.parsed
        parsed.pairs.frozen()
        for mask in (parsed.keep_equality, parsed.keep_actuator, parsed.keep_tendon):
            mask.setflags(write=False)

    @property
    def mujoco(self) -> mujoco.MjModel:
        """The compiled MuJoCo model behind this one; what was dropped has no effect in it."""
        return self.parsed.mujoco

    def mujoco_for(self, contact: Literal["hard", "mujoco"]) -> mujoco.MjModel:
        """Return the MuJoCo model that a Simulator with a contact law is to be compared with.

        Args:
            contact: the contact law. "mujoco" has all that `Model.mujoco` has. For "hard" the
                model is a copy in which contacts have what that law has: friction that is the
                same in all directions.

        Raises:
            ParameterError: if there is no such law.
        """
        # a list or an array is no law either
        if not isinstance(contact, str) or contact not in LAWS:  # pyright: ignore[reportUnnecessaryIsInstance]
            allowed = " or ".join(f'"{law}"' for law in LAWS)
            raise ParameterError(f"mujoco_for(): contact is {contact!r}; it must be {allowed}.")
        return self.mujoco if contact == "mujoco" else with_round_friction(self.mujoco)

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.parsed.name

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What loading ignored, dropped, approximated or repaired."""
        return self.parsed.notices

    @cached_property
    def q0(self) -> Array:
        """float64[nq], the configuration in which the file is written."""
        return _frozen(self.mujoco.qpos0)

    @cached_property
    def v0(self) -> Array:
        """float64[nv], zero."""
        return _frozen(np.zeros(self.nv))

    @cached_property
    def act0(self) -> Array:
        """float64[na], zero."""
        return _frozen(np.zeros(self.na))

    @cached_property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies, the world first; "" where there is none."""
        return tuple(self.mujoco.body(i).name for i in range(self.nbody))

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints; "" where there is none."""
        return tuple(self.mujoco.joint(i).name for i in range(self.njnt))

    @cached_property
    def geom_names(self) -> tuple[str, ...]:
        """Names of the geoms; "" where there is none."""
        return tuple(self.mujoco.geom(i).name for i in range(self.ngeom))

    @cached_property
    def site_names(self) -> tuple[str, ...]:
        """Names of the sites; "" where there is none."""
        return tuple(self.mujoco.site(i).name for i in range(self.nsite))

    @cached_property
    def actuator_names(self) -> tuple[str, ...]:
        """Names of the actuators; "" where there is none."""
        return tuple(self.mujoco.actuator(i).name for i in range(self.nu))

    @cached_property
    def keyframe_names(self) -> tuple[str | int, ...]:
        """What `keyframe` takes: the names of the keyframes; the number of one without a name."""
        return tuple(self.mujoco.key(i).name or i for i in range(int(self.mujoco.nkey)))

    @property
    def params(self) -> Mapping[str, Array]:
        """Physical parameters by MuJoCo's field names, read-only; change them in a Simulator."""
        return self.structure.params

    def keyframe(self, which: str | int) -> tuple[Array, ...]:
        """Return the state of a keyframe.

        Args:
            which: its name or its number, from 0; negative numbers count from the end.

        Returns:
            q float64[nq] and v float64[nv], read-only; and act float64[na] where na > 0.

        Raises:
            ParameterError: if there is no such keyframe.
        """
        number = self._keyframe_number(which)
        state = _frozen(self.mujoco.key_qpos[number]), _frozen(self.mujoco.key_qvel[number])
        return (*state, _frozen(self.mujoco.key_act[number])) if self.na else state

    def _keyframe_number(self, which: str | int) -> int:
        """Return the number of a keyframe; raise ParameterError if there is none."""
        names = self.keyframe_names
        start = f'keyframe(): model "{self.name}"'
        if not names:
            raise ParameterError(f"{start} has no keyframes; add a <key> to the file or use q0.")
        if isinstance(which, str) and which in names:
            return names.index(which)
        if isinstance(which, str):
            near = difflib.get_close_matches(which, [n for n in names if isinstance(n, str)], 1)
            listed = ", ".join(f'"{n}"' if isinstance(n, str) else str(n) for n in names[:10])
            hint = f'did you mean "{near[0]}"?' if near else f"there are: {listed}."
            raise ParameterError(f'{start} has no keyframe "{which}"; {hint}')
        if not is_integer(which) or not -len(names) <= which < len(names):
            raise ParameterError(
                f"{start} has no keyframe {which!r}; there are {len(names)}, numbered from 0."
            )
        return int(which)

    def report(self) -> str:
        """Return, as text, what loading ignored, dropped, approximated or repaired."""
        return format_report(f'model "{self.name}":', self.notices)


def _frozen(values: NDArray[Any]) -> Array:
    """Return a read-only float64 copy."""
    copy = np.array(values, np.float64)
    copy.flags.writeable = False
    return copy
