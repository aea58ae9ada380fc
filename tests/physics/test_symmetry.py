"""Nature's symmetries: the same motion is the same numbers, to 1e-10 after 100 steps."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import Vector, multiply, turned, turned_params
from tests.property import random_models
from tests.property.random_models import random_state, rotation, text, unit

STEPS = 100
TOLERANCE = 1e-10
SEEDS = range(10)
# points of two boxes that are equally deep are taken by the order of the bodies
ORDERED = ("frictionless", 4)

SCENES: dict[str, dict[str, Any]] = {
    "mixed": {},
    "frictionless": {"frictionless": 1.0},
    "piles": {"robots": 0.0, "piles": 2},
    "spheres": {"shapes": ("sphere",), "robots": 0.0, "piles": 2},
}


def draw(kind: str, seed: int) -> str:
    """Return a random mechanism, or a random contact scene of one of the kinds above."""
    print(f"{kind}, seed {seed}")
    rng = np.random.default_rng(seed)
    if kind == "tree":
        bodies = int(rng.integers(2, 13))
        return random_models.random_tree(rng, bodies=bodies, mass_ratio=10.0)
    return random_models.random_contact_scene(rng, **SCENES[kind])


def start(model: fb.Model, kind: str, seed: int) -> tuple[Vector, Vector, Vector]:
    """Return a random state and constant controls."""
    rng = np.random.default_rng(1000 + seed)
    q, v = random_state(model, rng, spread=0.3 if kind == "tree" else 0.02)
    return q, v, rng.uniform(-0.5, 0.5, model.nu)


def simulator(model: fb.Model, **options: Any) -> fb.Simulator:
    """Return a simulator whose solve ends near the last bit, so that its error does not show."""
    return fb.Simulator(model, **{"tolerance": 1e-12, **options})


def difference(a: Any, b: Any) -> float:
    """Return the largest difference relative to the largest number, at least 1."""
    return float(np.abs(a - b).max() / max(1.0, np.abs(a).max()))


class Worst:
    """The worst difference over the draws whose contact solves all converged."""

    def __init__(self) -> None:
        """Start with no draw."""
        self.value, self.counted, self.drawn = 0.0, 0, 0

    def see(self, first: fb.Rollout, second: fb.Rollout, *pairs: tuple[Any, Any]) -> None:
        """Count one draw; a flagged solve is not the law's answer and is not compared."""
        self.drawn += 1
        if first.ok and second.ok:
            self.counted += 1
            self.value = max(self.value, *(difference(a, b) for a, b in pairs))

    def check(self) -> None:
        """Refuse a difference above the tolerance, or too few draws that count."""
        print(f"worst {self.value:.1e} over {self.counted} of {self.drawn} draws")
        assert self.counted >= 3
        assert self.value <= TOLERANCE


@pytest.mark.parametrize("kind", ["tree", *SCENES])
def test_world_rotation_and_translation(kind: str) -> None:
    """Turn and move the world, gravity included: step(g x) = g step(x) for a rigid motion g."""
    worst = Worst()
    for seed in SEEDS:
        model = fb.load(draw(kind, seed))
        q, v, u = start(model, kind, seed)
        rng = np.random.default_rng(seed)
        quat, shift = unit(rng, 4), rng.uniform(-1, 1, 3)
        sim = simulator(model)
        plain = sim.rollout(q, v, u, steps=STEPS)
        other = sim.rollout(
            *turned(model, q, v, quat, shift),
            u,
            steps=STEPS,
            params=turned_params(model, quat, shift),
        )
        expected = turned(model, plain.q, plain.v, quat, shift)
        worst.see(plain, other, (expected[0], other.q), (expected[1], other.v))
    worst.check()


def addresses(model: fb.Model, like: fb.Model) -> tuple[list[int], list[int]]:
    """Return where the coordinates and the dofs of `like` are in `model`, by joint name."""
    q_at: list[int] = []
    v_at: list[int] = []
    for name in like.joint_names:
        j = model.joint_names.index(name)
        kind = int(model.mujoco.jnt_type[j])
        a, d = int(model.mujoco.jnt_qposadr[j]), int(model.mujoco.jnt_dofadr[j])
        q_at += range(a, a + {0: 7, 1: 4}.get(kind, 1))
        v_at += range(d, d + {0: 6, 1: 3}.get(kind, 1))
    return q_at, v_at


def compare(first: fb.Model, second: fb.Model, kind: str, seed: int, worst: Worst) -> None:
    """See how far two models that are the same thing have moved apart after the steps."""
    q, v, u = start(first, kind, seed)
    q_at, v_at = addresses(second, first)
    q2, v2 = np.empty_like(q), np.empty_like(v)
    q2[q_at], v2[v_at] = q, v
    a = simulator(first).rollout(q, v, u, steps=STEPS)
    b = simulator(second).rollout(q2, v2, u, steps=STEPS)
    worst.see(a, b, (a.q, b.q[:, q_at]), (a.v, b.v[:, v_at]))


@pytest.mark.parametrize("kind", ["tree", *SCENES])
def test_body_renumbering(kind: str) -> None:
    """Write siblings in the reverse order: the motion of each named joint is the same."""
    check_renumbered(kind, [seed for seed in SEEDS if (kind, seed) != ORDERED])


@pytest.mark.xfail(strict=True, reason="the points of two boxes depend on which comes first")
def test_body_renumbering_of_equally_deep_points() -> None:
    """Be the same where two points of a pair of boxes are equally deep."""
    check_renumbered(ORDERED[0], [ORDERED[1]])


def check_renumbered(kind: str, seeds: list[int]) -> None:
    """Compare models with the same in which siblings are in the reverse order."""
    worst = Worst()
    for seed in seeds:
        source = draw(kind, seed)
        root = ET.fromstring(source)
        for parent in root.iter():
            bodies = parent.findall("body")
            for body in bodies:
                parent.remove(body)
            parent.extend(reversed(bodies))
        first, second = fb.load(source), fb.load(ET.tostring(root, "unicode"))
        compare(first, second, kind, seed, worst)
    worst.check()


def split_inertia(body: ET.Element, rng: np.random.Generator) -> None:
    """Give half of a body's mass to two fixed children, at d and -d from the centre of mass.

    I = I/2 + 2 (I_k + (m/4) (d.d - d d')), so that I_k = I/4 - (m/4) (d.d - d d').
    """
    part = body.find("inertial")
    assert part is not None
    mass = float(part.attrib["mass"])
    com, entries = (np.fromstring(part.attrib[k], sep=" ") for k in ("pos", "fullinertia"))
    xx, yy, zz, xy, xz, yz = entries
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    # a step along d must leave every second moment of mass positive
    second = 0.5 * np.trace(inertia) * np.eye(3) - inertia
    d = 0.3 * np.sqrt(np.linalg.eigvalsh(second)[0] / mass) * unit(rng, 3)
    own = 0.25 * inertia - 0.25 * mass * (d @ d * np.eye(3) - np.outer(d, d))
    part.attrib |= {"mass": text(0.5 * mass), "fullinertia": text(0.5 * entries)}
    for k, side in enumerate((d, -d)):
        quat = unit(rng, 4)
        R = rotation(quat)
        turn = R.T @ own @ R
        name = f"{body.attrib['name']}_half{k}"
        place = {"name": name, "pos": text(com + side), "quat": text(quat)}
        child = ET.SubElement(body, "body", place)
        full = text(turn[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]])
        ET.SubElement(
            child, "inertial", {"mass": text(0.25 * mass), "pos": "0 0 0", "fullinertia": full}
        )


def split_shapes(body: ET.Element, rng: np.random.Generator) -> None:
    """Move a body's shapes, with their mass, to a fixed child whose frame is turned and moved."""
    quat, place = unit(rng, 4), rng.uniform(-0.1, 0.1, 3)
    child = ET.Element("body", {"name": f"{body.attrib['name']}_skin", "pos": text(place)})
    child.attrib["quat"] = text(quat)
    for geom in body.findall("geom"):
        if "fromto" in geom.attrib:
            continue
        at = np.fromstring(geom.attrib.get("pos", "0 0 0"), sep=" ")
        geom.attrib["pos"] = text(rotation(quat).T @ (at - place))
        geom.attrib["quat"] = text(quat * np.array([1.0, -1.0, -1.0, -1.0]))
        body.remove(geom)
        child.append(geom)
    body.append(child)


@pytest.mark.parametrize("kind", ["tree", "piles", "spheres"])
def test_split_and_weld(kind: str) -> None:
    """Split each body into fixed parts of the same total inertia: the motion is the same."""
    worst = Worst()
    for seed in SEEDS:
        source, rng = draw(kind, seed), np.random.default_rng(seed)
        root = ET.fromstring(source)
        for body in list(root.iter("body")):
            (split_inertia if kind == "tree" else split_shapes)(body, rng)
        first, second = fb.load(source), fb.load(ET.tostring(root, "unicode"))
        assert second.nbody > first.nbody
        compare(first, second, kind, seed, worst)
    worst.check()


def linear(model: fb.Model) -> tuple[Vector, Vector, Vector]:
    """Return which coordinates, dofs and joints (0 or 1) are lengths rather than angles."""
    compiled = model.mujoco
    q, v = np.zeros(model.nq), np.zeros(model.nv)
    for j in range(model.njnt):
        a, d = int(compiled.jnt_qposadr[j]), int(compiled.jnt_dofadr[j])
        n = {0: 3, 2: 1}.get(int(compiled.jnt_type[j]), 0)
        q[a : a + n] = v[d : d + n] = 1.0
    return q, v, (compiled.jnt_type == 2).astype(np.float64)


def scaled_params(model: fb.Model, m: float, s: float, t: float) -> dict[str, Vector]:
    """Return the parameters in units of 1/m kg, 1/s m and 1/t s."""
    q, v, j = linear(model)
    p = model.params
    dof_inertia = m * s ** (2 * (1 - v))
    new = {
        name: s * p[name] for name in ("body_pos", "body_ipos", "jnt_pos", "geom_pos", "geom_size")
    }
    new |= {name: s**q * p[name] for name in ("qpos0", "qpos_spring")}
    new |= {
        "dt": t * p["dt"],
        "gravity": s / t**2 * p["gravity"],
        "body_mass": m * p["body_mass"],
        "body_inertia": m * s**2 * p["body_inertia"],
        "jnt_range": (s**j)[:, None] * p["jnt_range"],
        "jnt_stiffness": m * s ** (2 * (1 - j)) / t**2 * p["jnt_stiffness"],
        "dof_damping": dof_inertia / t * p["dof_damping"],
        "dof_armature": dof_inertia * p["dof_armature"],
        "dof_frictionloss": dof_inertia * s**v / t**2 * p["dof_frictionloss"],
        "body_invweight0": p["body_invweight0"] / m / np.array([1.0, s**2]),
        "dof_invweight0": p["dof_invweight0"] / dof_inertia,
    }
    return new


@pytest.mark.parametrize("kind", ["tree", *SCENES])
def test_unit_scaling(kind: str) -> None:
    """Measure mass, length and time in other units: q_lin -> s q_lin, v -> (s/t, 1/t) v."""
    worst = Worst()
    m, s, t = 0.37, 2.6, 0.71
    for seed in SEEDS:
        model = fb.load(draw(kind, seed))
        q, v, _ = start(model, kind, seed)
        if model.nu:
            model = fb.load(without_actuators(draw(kind, seed)))
        q_linear, v_linear, _ = linear(model)
        # a tree has limits in radians and in metres, so its recovery is left unbounded
        v_recover = 1e9 if kind == "tree" else 0.5
        sim = simulator(model, v_recover=v_recover)
        params = scaled_params(model, m, s, t)
        scaled = simulator(model, v_recover=v_recover * s / t, margin=0.005 * s, params=params)
        plain = sim.rollout(q, v, steps=STEPS)
        other = scaled.rollout(s**q_linear * q, s**v_linear / t * v, steps=STEPS)
        back = (other.q / s**q_linear, other.v * t / s**v_linear)
        worst.see(plain, other, (plain.q, back[0]), (plain.v, back[1]))
    worst.check()


def without_actuators(source: str) -> str:
    """Return the model without its <actuator> section."""
    root = ET.fromstring(source)
    for section in root.findall("actuator"):
        root.remove(section)
    return ET.tostring(root, "unicode")


def test_quaternion_sign() -> None:
    """Step from q and from q with a negated quaternion: the same pose gives the same motion."""
    print("seed 5")
    rng = np.random.default_rng(5)
    model = fb.load(random_models.random_contact_scene(rng))
    q, v = random_state(model, rng, spread=0.02)
    other = q.copy()
    free = np.flatnonzero(model.mujoco.jnt_type == 0)
    for j in free:
        a = int(model.mujoco.jnt_qposadr[j]) + 3
        other[a : a + 4] = multiply(np.array([-1.0, 0.0, 0.0, 0.0]), other[a : a + 4])
    sim = fb.Simulator(model)
    one, two = sim.rollout(q, v, steps=STEPS), sim.rollout(other, v, steps=STEPS)
    assert np.array_equal(one.v, two.v)
