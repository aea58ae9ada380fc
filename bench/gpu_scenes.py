"""The scenes that bench/gpu.py measures: robots, an arm with convex meshes, a pile of boxes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import featherback as fb

SEED = 7
# a mesh of 12 corners, an icosahedron, scaled by the bodies that have it
_GOLDEN = (1 + 5**0.5) / 2
_CORNERS = [
    corner
    for a in (-1.0, 1.0)
    for b in (-_GOLDEN, _GOLDEN)
    for corner in ((0.0, a, b), (a, b, 0.0), (b, 0.0, a))
]


@dataclass(frozen=True)
class Scene:
    """A model, and how it is driven.

    Attributes:
        name: of the row.
        model: what is stepped.
        contacts: room for contacts of a world.
        spread: of the controls around `pose`.
        pose: what the controls are drawn around.
        start: configuration from which it is warmed up.
    """

    name: str
    model: fb.Model
    contacts: int
    spread: float
    pose: Any
    start: Any

    def controls(self, worlds: int, steps: int) -> Any:
        """Return random controls."""
        noise = np.random.default_rng(SEED).uniform(-1.0, 1.0, (worlds, steps, self.model.nu))
        return self.pose + self.spread * noise


def _plain(name: str, model: fb.Model, contacts: int, spread: float = 0.3) -> Scene:
    """Return a scene whose controls are drawn around zero."""
    return Scene(name, model, contacts, spread, np.zeros(model.nu), model.q0)


def laikago() -> Scene:
    """Return the robot of the goals, its servos around the stand pose."""
    model = fb.models.laikago()
    q, _ = model.keyframe("stand")
    return Scene("laikago", model, 8, 0.2, q[7:], q)


def gymnasium_robots() -> list[Scene]:
    """Return robots of Gymnasium where it is installed."""
    try:
        import gymnasium
    except ImportError:
        return []
    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    rooms = {"ant": 12, "humanoid": 16}
    return [
        _plain(name, fb.load(str(folder / f"{name}.xml"), on_unsupported="drop"), room)
        for name, room in rooms.items()
    ]


def arm() -> Scene:
    """Return an arm of seven joints with convex meshes, which pushes four more of them."""
    vertex = " ".join(f"{x:.6g}" for corner in _CORNERS for x in corner)
    sizes = {"link": 0.03, "thing": 0.025}
    meshes = "".join(
        f'<mesh name="{name}" vertex="{vertex}" scale="{s} {s} {s}"/>' for name, s in sizes.items()
    )
    links, ends, motors = "", "", ""
    for i in range(7):
        axis = "0 0 1" if i % 2 == 0 else "0 1 0"
        links += (
            f'<body pos="0 0 {0.12 if i else 0.3}"><joint name="j{i}" axis="{axis}" damping="1"/>'
            '<geom type="mesh" mesh="link" pos="0 0 0.06" mass="1"/>'
        )
        ends += "</body>"
        motors += f'<position joint="j{i}" kp="60"/>'
    things = "".join(
        f'<body pos="{0.25 + 0.12 * i} {0.1 * (-1) ** i} 0.06"><freejoint/>'
        '<geom type="mesh" mesh="thing" mass="0.2"/></body>'
        for i in range(4)
    )
    text = (
        f'<mujoco model="arm"><option timestep="0.005"/><asset>{meshes}</asset><worldbody>'
        f'<geom type="plane" size="0 0 1"/>{links}{ends}{things}</worldbody>'
        f"<actuator>{motors}</actuator></mujoco>"
    )
    return _plain("arm with meshes", fb.load(text), 24, 0.5)


def boxes() -> Scene:
    """Return 64 boxes in a loose pile."""
    bodies = "".join(
        f'<body pos="{0.22 * x} {0.22 * y} {0.11 + 0.21 * z}"><freejoint/>'
        '<geom type="box" size="0.1 0.1 0.1" mass="1"/></body>'
        for x in range(4)
        for y in range(4)
        for z in range(4)
    )
    text = (
        '<mujoco model="boxes"><option timestep="0.005"/><worldbody>'
        f'<geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>'
    )
    return _plain("64 boxes", fb.load(text), 300)
