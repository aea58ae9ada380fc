"""The flat state x = (q, v, act, warm) and the values made of it: a point, and a trajectory.

Below the public surface a state is one row of numbers; q, v, act and warm are views of it. What
callers pass in as q, v, act, warm and u is checked and put together here, once for all calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from featherback._typing import Params, Real
from featherback.errors import ParameterError, ShapeError
from featherback.sim.checkpoints import Schedule
from featherback.sim.inputs import (
    as_real,
    broadcast_worlds,
    check_steps,
    require_finite,
    rows,
    same_worlds,
)
from featherback.sim.memory import refuse_too_large

if TYPE_CHECKING:
    from featherback.sim.bridge import Bridge

# arrays of NumPy or of a framework
A = TypeVar("A", bound=Any)
# without these there is nothing to compute; what else is None is zero
REQUIRED = ("q", "v", "a", "tau")
# what may be zero but must not be missing
FILLED = ("act", "u", "warm", "drive")
# what a status tells of if it is not finite; anything else must be
FOLLOWED = (*REQUIRED, "act", "u", "drive")


@dataclass(frozen=True)
class StateLayout:
    """Where q, v, act and warm lie in a flat state x = (q, v, act, warm).

    Attributes:
        model: name of the model, for messages.
        nq: length of q.
        nv: length of v.
        na: length of act.
        nu: length of a control.
        dtype: number type of all arrays.
        quaternions: entries of q at which a quaternion starts.
        nwarm: accelerations that a state carries for the next solve to start at: nv or none.
        lengths: of inputs by their names, such as q, dq, q_bar, u or tau; drive: act and u in one.
    """

    model: str
    nq: int
    nv: int
    na: int
    nu: int
    dtype: np.dtype[Any]
    quaternions: tuple[int, ...] = ()
    nwarm: int = 0
    lengths: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Note all lengths."""
        own = {"q": self.nq, "v": self.nv, "act": self.na, "u": self.nu}
        own |= {"a": self.nv, "tau": self.nv, "drive": self.na + self.nu}
        lengths = {name: n for k, n in own.items() for name in (k, f"d{k}", f"{k}_bar")}
        # nothing is differentiated by where a solve starts
        lengths["warm"] = self.nwarm
        object.__setattr__(self, "lengths", lengths)

    @property
    def nx(self) -> int:
        """Length of a state."""
        return self.nq + self.nv + self.na + self.nwarm

    def q(self, x: A) -> A:
        """Return the configurations of states, a view."""
        return x[..., : self.nq]

    def v(self, x: A) -> A:
        """Return the velocities of states, a view."""
        return x[..., self.nq : self.nq + self.nv]

    def act(self, x: A) -> A:
        """Return the activations of states, a view."""
        return x[..., self.nq + self.nv : self.nq + self.nv + self.na]

    def warm(self, x: A) -> A:
        """Return the accelerations that states carry, a view."""
        return x[..., self.nq + self.nv + self.na :]

    def rest(self, x: A) -> A:
        """Return the activations of states and the accelerations that they carry, a view."""
        return x[..., self.nq + self.nv :]

    def parts(self, x: A) -> tuple[A, ...]:
        """Return q and v, and act where the model has activations; views."""
        return (self.q(x), self.v(x), self.act(x)) if self.na else (self.q(x), self.v(x))

    def join(self, lead: tuple[int, ...], *parts: Real | None, warm: Real | None = None) -> Real:
        """Return flat states of this leading shape from q, v, act and warm; None is zero."""
        x = np.zeros((*lead, self.nx), self.dtype)
        for view, part in zip(self.parts(x), parts, strict=False):
            if part is not None:
                view[...] = part
        if warm is not None:
            self.warm(x)[...] = warm
        return x


class Arguments(NamedTuple):
    """Named inputs of a call, checked.

    Attributes:
        rows: each real[worlds, n], by name; one that was None is missing, unless it must be there.
        batched: whether any of them had a world axis.
    """

    rows: dict[str, Real]
    batched: bool


def read_rows(
    where: str, layout: StateLayout, given: Mapping[str, Any], *, finite: bool = False
) -> Arguments:
    """Check named inputs, each (n,) or (worlds, n), and give all of them the same worlds.

    None is zero for u, act and warm; a direction or cotangent that is None is left out, others must
    be finite. With `finite`, states and controls must be too, and quaternions must have a length.
    """
    named: dict[str, tuple[Real, bool]] = {}
    for name, value in given.items():
        if value is None and name not in REQUIRED:
            continue
        n = layout.lengths[name]
        array = as_real(where, name, value, layout.dtype)
        if name == "warm":
            check_carried(where, layout, array.shape[-1:])
        named[name] = rows(where, name, array, n, layout.model)
        if finite or name not in FOLLOWED:
            require_usable(where, layout, name, array)
    found, batched = broadcast_worlds(where, named)
    for name in FILLED:
        if name in given and name not in found:
            found[name] = np.zeros((len(found["q"]), layout.lengths[name]), layout.dtype)
    return Arguments(found, batched)


def check_carried(where: str, layout: StateLayout, length: tuple[int, ...]) -> None:
    """Refuse accelerations for a simulator that carries none."""
    if not layout.nwarm and length != (0,):
        raise ParameterError(
            f"{where}: warm is given and this Simulator carries no warm start; leave it out, or "
            'make a Simulator with contact="mujoco" and warmstart=1.'
        )


def require_usable(where: str, layout: StateLayout, name: str, array: Real) -> None:
    """Refuse an input with a NaN or infinity, or a quaternion without a length."""
    require_finite(where, name, array)
    if name == "q":
        _check_quaternions(where, layout, array)


def _check_quaternions(where: str, layout: StateLayout, q: Real) -> None:
    """Refuse quaternions that cannot be normalized in the number type of the engine."""
    limits = np.finfo(layout.dtype)
    for first in layout.quaternions:
        four = q[..., first : first + 4]
        with np.errstate(over="ignore", under="ignore"):
            square = np.square(four).sum(axis=-1)
        bad = (square < limits.tiny) | (square > limits.max)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            length = np.linalg.norm(four[index].astype(np.longdouble))
            entry = ", ".join([*map(str, index), f"{first}:{first + 4}"])
            raise ParameterError(
                f"{where}: q[{entry}] is a quaternion of length {length:.3g}; give it a length of "
                "about 1."
            )


@dataclass(frozen=True, eq=False)
class Point:
    """Where one step starts, or an output is evaluated: a state of each world.

    Attributes:
        layout: of the states.
        x: real[worlds, nx].
        u: real[worlds, nu], or None for a model without controls.
        theta: real[(worlds,) ntheta], or None for the simulator's own parameters.
        given: shapes of the parameters that the caller gave.
        batched: whether the caller's arrays had a world axis.
    """

    layout: StateLayout
    x: Real
    u: Real | None
    theta: Real | None = None
    given: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    batched: bool = True

    @property
    def worlds(self) -> int:
        """Number of worlds."""
        return len(self.x)

    @property
    def one(self) -> Any:
        """Index that takes the world axis off results where the caller gave none."""
        return ... if self.batched else 0

    def trajectory(self, first_step: int = 0) -> Trajectory:
        """Return the one step from here, to be differentiated.

        Its second state is a stand-in, since derivatives compute the next state themselves.
        """
        return Trajectory(
            layout=self.layout,
            x=np.repeat(self.x[:, None], 2, axis=1),
            u=None if self.u is None else self.u[:, None],
            schedule=Schedule.all(1),
            theta=self.theta,
            given=self.given,
            batched=self.batched,
            first_step=first_step,
        )


def read_point(
    where: str,
    bridge: Bridge,
    state: Mapping[str, Any],
    params: Params | None,
    more: Mapping[str, Any] | None = None,
    *,
    finite: bool = False,
) -> tuple[Point, dict[str, Real]]:
    """Check a step; return where it starts, and the directions or cotangents in `more`."""
    layout = bridge.layout
    named, batched = read_rows(where, layout, {**state, **(more or {})}, finite=finite)
    worlds = len(named["q"])
    theta, given = bridge.read_params(where, params, worlds if batched else None)
    x = _state(layout, worlds, named)
    u = named["u"] if layout.nu else None
    rest = {name: array for name, array in named.items() if name in (more or {})}
    return Point(layout, x, u, theta, given, batched), rest


def _state(layout: StateLayout, worlds: int, named: Mapping[str, Real]) -> Real:
    """Return the flat states of checked inputs."""
    own = (named["q"], named["v"], named["act"])
    return layout.join((worlds,), *own, warm=named.get("warm"))


def check_step_controls(where: str, shape: tuple[int, ...], ranks: Iterable[int]) -> None:
    """Refuse controls of many worlds, or of many steps, where all of a state has rank 1."""
    if len(shape) > 1 and max(ranks) < 2:
        raise ShapeError(
            f"{where}: u has shape {shape} and the state has no world axis; give one control, a "
            "state of each world, or call rollout() for many steps."
        )


def read_start(
    where: str,
    bridge: Bridge,
    state: Mapping[str, Any],
    controls: tuple[Any, int | None],
    params: Params | None,
) -> tuple[Point, Real]:
    """Check the inputs of a rollout; return where it starts, and its controls."""
    layout = bridge.layout
    named, batched = read_rows(where, layout, state)
    u = _read_controls(where, layout, *controls, len(named["q"]) if batched else None)
    # controls of each world give each its own copy of the one state
    worlds = len(u) if u.ndim == 3 and not batched else len(named["q"])
    batched = batched or u.ndim == 3
    theta, given = bridge.read_params(where, params, worlds if batched else None)
    x = _state(layout, worlds, named)
    return Point(layout, x, None, theta, given, batched), u


def _read_controls(
    where: str, layout: StateLayout, u: Any, steps: int | None, worlds: int | None
) -> Real:
    """Check the controls of a rollout; return real[(worlds,) steps, nu]."""
    given = None if u is None else as_real(where, "u", u, layout.dtype)
    shape = None if given is None else given.shape
    held = check_controls(where, layout, shape, steps, layout.dtype.itemsize)
    same_worlds(where, {"q": worlds, "u": shape[0] if shape and len(shape) == 3 else None})
    if held is None:
        # a copy, since the rollout keeps it
        return np.array(given, order="C")
    if given is None:
        # the system hands out zeros page by page as they are written, so these take no memory
        return np.zeros((held, layout.nu), layout.dtype)
    return np.array(np.broadcast_to(given, (held, layout.nu)))


def check_controls(
    where: str,
    layout: StateLayout,
    shape: tuple[int, ...] | None,
    steps: Any,
    itemsize: int,
) -> int | None:
    """Check steps and the shape of controls; return for how many steps one, or zero, is held."""
    nu = layout.nu
    steps = check_steps(where, steps, shape is not None)
    if steps is not None:
        refuse_too_large(where, "controls", steps * nu * itemsize, advice="")
    if shape is None or (shape == (nu,) and steps is not None):
        return steps
    if len(shape) not in (2, 3) or shape[-1] != nu:
        raise ShapeError(
            f"{where}: u has shape {shape}; expected (steps, {nu}), (worlds, steps, {nu}) or, with "
            f'steps=, ({nu},) for model "{layout.model}".'
        )
    if steps is not None and shape[-2] != steps:
        raise ShapeError(f"{where}: u has {shape[-2]} steps and steps is {steps}.")
    return None


@dataclass(frozen=True, eq=False)
class Trajectory:
    """States of a rollout as the engine sees them, with the controls and parameters they had.

    Attributes:
        layout: of the states.
        x: real[worlds, rows, nx], the states that are kept.
        u: real[(worlds,) steps, nu], or None for a model without controls.
        schedule: says which states are kept.
        theta: real[(worlds,) ntheta], or None for the simulator's own parameters.
        given: shapes of the parameters that the caller gave.
        batched: whether the caller's arrays had a world axis.
        first_step: number of the first step, for messages.
    """

    layout: StateLayout
    x: Real
    u: Real | None
    schedule: Schedule
    theta: Real | None = None
    given: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    batched: bool = True
    first_step: int = 0

    @property
    def worlds(self) -> int:
        """Number of worlds."""
        return len(self.x)

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.schedule.steps

    @property
    def one(self) -> Any:
        """Index that takes the world axis off results where the caller gave none."""
        return ... if self.batched else 0

    @property
    def q(self) -> Real:
        """real[(worlds,) rows, nq], as the caller sees it; a view."""
        return self.layout.q(self.x[self.one])

    @property
    def v(self) -> Real:
        """real[(worlds,) rows, nv]; a view."""
        return self.layout.v(self.x[self.one])

    @property
    def act(self) -> Real:
        """real[(worlds,) rows, na]; a view."""
        return self.layout.act(self.x[self.one])

    @property
    def warm(self) -> Real:
        """real[(worlds,) rows, nwarm]; a view."""
        return self.layout.warm(self.x[self.one])

    def lead(self, *last: int) -> tuple[int, ...]:
        """Return the shape of an array of the caller that ends in `last`."""
        return (self.worlds, *last) if self.batched else last
