"""Scenes that are hard for a contact solver, for bench/contact_solve.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

import featherback as fb
from featherback.models.laikago import laikago_xml

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Scene:
    """A model and how it is moved.

    Attributes:
        name: what it is.
        xml: text or path of an MJCF file.
        steps: how many.
        noise: standard deviation of the velocities at the start [m/s, rad/s].
        controls: standard deviation of the controls, drawn anew in every step.
        hold: whether the controls are those of the first keyframe.
    """

    name: str
    xml: str
    steps: int
    noise: float = 0.05
    controls: float = 0.0
    hold: bool = False

    def load(self) -> fb.Model:
        """Return the model; what is not supported is left out."""
        return fb.load(self.xml, on_unsupported="drop")


def world(bodies: str, friction: float = 0.6) -> str:
    """Return a file with bodies over a floor."""
    return (
        f'<mujoco><option timestep="0.002"/><default><geom friction="{friction:g}"/></default>'
        f'<worldbody><geom type="plane" size="9 9 1"/>{bodies}</worldbody></mujoco>'
    )


def body(position: tuple[float, ...], size: Vector | list[float], mass: float, kind: str) -> str:
    """Return a free body of one shape."""
    numbers = " ".join(f"{x:.4g}" for x in size)
    place = " ".join(f"{x:.6g}" for x in position)
    return (
        f'<body pos="{place}"><freejoint/>'
        f'<geom type="{kind}" size="{numbers}" mass="{mass:.4g}"/></body>'
    )


def stack(masses: Vector) -> str:
    """Return boxes on top of each other, each a little beside the other."""
    rng = np.random.default_rng(3)
    return world(
        "".join(
            body((*rng.uniform(-0.01, 0.01, 2), 0.2 * i + 0.1 + 1e-4 * i), [0.1] * 3, m, "box")
            for i, m in enumerate(masses)
        )
    )


def feet(count: int, hinges: bool) -> str:
    """Return a plate on many feet, each on a hinge or fixed."""
    side = int(np.ceil(np.sqrt(count)))
    joint = '<joint axis="1 0 0" damping="0.1" stiffness="5"/>' if hinges else ""
    legs = "".join(
        f'<body pos="{0.2 * (i % side):g} {0.2 * (i // side):g} 0">{joint}'
        f'<geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2" mass="0.1"/></body>'
        for i in range(count)
    )
    middle, half = 0.1 * (side - 1), 0.1 * side
    return world(
        f'<body pos="0 0 0.221"><freejoint/><geom type="box" size="{half} {half} 0.02" '
        f'pos="{middle} {middle} 0.05" mass="5"/>{legs}</body>'
    )


def pile(count: int) -> str:
    """Return boxes, balls and capsules that fall on each other."""
    rng = np.random.default_rng(1)
    sizes = {"box": 3, "sphere": 1, "capsule": 2}
    parts: list[str] = []
    for i in range(count):
        kind = str(rng.choice(list(sizes)))
        at = (0.22 * (i % 3) - 0.2, 0.22 * (i // 3 % 3) - 0.1, 0.1 + 0.17 * (i // 9))
        size = rng.uniform(0.05, 0.1, sizes[kind])
        parts.append(body(at, size, 10 ** rng.uniform(-1, 1), kind))
    return world("".join(parts), 0.7)


def chains(count: int, links: int) -> str:
    """Return chains with dry friction that fall on each other."""
    parts: list[str] = []
    for i in range(count):
        inner = ""
        for k in range(links - 1, -1, -1):
            place = f"{0.03 * i} {0.05 * i} {0.1 + 0.06 * i}" if k == 0 else "0.1 0 0"
            joint = (
                "<freejoint/>"
                if k == 0
                else f'<joint axis="0 {k % 2} {1 - k % 2}" frictionloss="0.01" damping="0.002"/>'
            )
            inner = (
                f'<body pos="{place}">{joint}<geom type="capsule" size="0.02" '
                f'fromto="0 0 0 0.08 0 0" mass="0.1"/>{inner}</body>'
            )
        parts.append(inner)
    return world("".join(parts))


def dry_laikago(loss: float) -> str:
    """Return the Laikago with dry friction on its joints [N m]."""
    spec = mujoco.MjSpec.from_string(laikago_xml())
    for joint in spec.joints:
        if joint.type != mujoco.mjtJoint.mjJNT_FREE:
            joint.frictionloss = loss
    spec.compile()
    return spec.to_xml()


WEDGE = world(
    '<geom type="box" size="1 .02 1" pos="0 .15 .8" euler="-10 0 0"/>'
    '<geom type="box" size="1 .02 1" pos="0 -.15 .8" euler="10 0 0"/>'
    + body((0, 0, 0.6), [0.14], 1.0, "sphere")
    + body((0, 0, 1.0), [0.1] * 3, 100.0, "box"),
    0.8,
)


def gymnasium_robots() -> Iterator[Scene]:
    """Yield robots of Gymnasium, if it is installed."""
    try:
        import gymnasium
    except ImportError:
        return
    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    for name in ("hopper", "walker2d_v5", "half_cheetah", "ant", "humanoid", "humanoidstandup"):
        yield Scene(name, str(folder / f"{name}.xml"), 1000, 0.1, controls=1.0)


def scenes() -> Iterator[Scene]:
    """Yield all scenes."""
    for loss in (0.01, 0.1, 1.0, 10.0):
        yield Scene(f"laikago, dry friction {loss:g}", dry_laikago(loss), 1000, hold=True)
    yield from gymnasium_robots()
    made: dict[str, tuple[Callable[[], str], int]] = {
        "stack of 10": (lambda: stack(np.ones(10)), 300),
        "stack of 20": (lambda: stack(np.ones(20)), 100),
        "stack, masses 1 to 1e4": (lambda: stack(10.0 ** np.linspace(0, 4, 5)), 300),
        "16 feet on hinges": (lambda: feet(16, True), 300),
        "64 feet on hinges": (lambda: feet(64, True), 100),
        "64 feet": (lambda: feet(64, False), 200),
        "pile of 12": (lambda: pile(12), 500),
        "pile of 30": (lambda: pile(30), 300),
        "4 chains of 12 links": (lambda: chains(4, 12), 400),
        "wedge, masses 1 and 100": (lambda: WEDGE, 600),
    }
    for name, (make, steps) in made.items():
        yield Scene(name, make(), steps)
