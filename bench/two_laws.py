"""How far the hard contact law and MuJoCo's are apart: standing, sliding, impact, grasp, time.

    python bench/two_laws.py               the tables
    python bench/two_laws.py --docs        put them into docs/which_law.md

Every scene runs under contact="hard", under contact="mujoco" with the values that a file has which
says nothing, and under contact="mujoco" with stiff values (solref 0.004 1, solimp 0.99 0.999 0.001,
an elliptic cone and impratio 100), as far as a step of 2 ms allows them. Times are those of one
thread, in turn, medians of undisturbed samples.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contact_scenes import pile, stack
from mujoco_law_text import figure, put_between, table
from numpy.typing import NDArray
from report import provenance
from timing import interleave, one_core

import featherback as fb
from featherback.models.laikago import laikago_xml

PAGE = Path(__file__).resolve().parent.parent / "docs" / "which_law.md"
MARK = "bench/two_laws.py"
STEP, GRAVITY, WORLDS = 0.002, 9.81, 256
STIFF = 'solref="0.004 1" solimp="0.99 0.999 0.001"'
LAWS: dict[str, dict[str, Any]] = {
    "hard": {},
    "mujoco": {"contact": "mujoco"},
    "mujoco, stiff": {"contact": "mujoco", "cone": "elliptic", "impratio": 100.0},
}
Array = NDArray[np.float64]


def world(bodies: str, law: str, more: str = "", gravity: str = "0 0 -9.81") -> fb.Model:
    """Return a model with bodies over a floor, friction 0.5."""
    stiff = f" {STIFF}" if law.endswith("stiff") else ""
    return fb.load(
        f'<mujoco><option timestep="{STEP}" gravity="{gravity}"/>'
        f'<default><geom friction="0.5 0.005 0.0001"{stiff}/></default>'
        f'<worldbody><geom name="floor" type="plane" size="9 9 1"/>{bodies}</worldbody>'
        f"{more}</mujoco>"
    )


def free(shape: str, at: str, mass: float = 1.0, name: str = "body") -> str:
    """Return a free body of one shape."""
    return f'<body name="{name}" pos="{at}"><freejoint/><geom {shape} mass="{mass:g}"/></body>'


CUBE = 'type="box" size="0.1 0.1 0.1"'
BALL = 'type="sphere" size="0.1"'


@dataclass(frozen=True)
class Motion:
    """What a scene did under a law.

    Attributes:
        sim: the simulator.
        q: configurations (steps + 1, nq).
        v: velocities.
    """

    sim: fb.Simulator
    q: Array
    v: Array

    def depth(self) -> float:
        """Return the deepest contact of the last state [m]."""
        found = self.sim.contacts(self.q[-1], self.v[-1])
        return max(0.0, -float(found.gap[: int(found.count)].min(initial=0.0)))


def move(
    model: fb.Model, law: str, seconds: float, v: Array | None = None, u: Array | None = None
) -> Motion:
    """Return the motion of a model from its first keyframe or its default pose."""
    sim = fb.Simulator(model, threads=1, **LAWS[law])
    q = model.keyframe(0)[0] if model.keyframe_names else model.q0
    start = np.zeros(model.nv) if v is None else v
    steps = round(seconds / sim.dt)
    u = None if u is None else np.tile(u, (steps, 1))
    roll = sim.rollout(np.array(q), start, u, steps=steps)
    roll.raise_if_bad()
    return Motion(sim, np.asarray(roll.q), np.asarray(roll.v))


def standing(law: str) -> dict[str, float]:
    """A cube and a robot stand; a cube sticks on a slope of 20 degrees with half the friction."""
    cube = move(world(free(CUBE, "0 0 0.1"), law), law, 2.0)
    heavy = free(CUBE, "0 0 0.3", 100.0, "heavy")
    loaded = move(world(free(CUBE, "0 0 0.1") + heavy, law), law, 2.0)
    slope = math.radians(20.0)
    pull = f"{GRAVITY * math.sin(slope):.6f} 0 {-GRAVITY * math.cos(slope):.6f}"
    # friction 0.5 holds up to 26.6 degrees
    tilted = move(world(free(CUBE, "0 0 0.1"), law, gravity=pull), law, 3.0)
    text = laikago_xml()
    robot = fb.load(text.replace("<geom ", f"<geom {STIFF} ") if law.endswith("stiff") else text)
    hold = np.array(robot.mujoco.key_ctrl[0])
    stands = move(robot, law, 5.0, u=hold)
    second = round(1.0 / STEP)
    return {
        "cube of 1 kg at rest, depth [mm]": 1e3 * cube.depth(),
        "cube under one of 100 kg, depth [mm]": 1e3 * loaded.depth(),
        "cube on a slope it does not slide on, creep [mm/s]": 1e3
        * float(tilted.q[-1, 0] - tilted.q[-1 - second, 0]),
        "Laikago by its servos, depth of a foot [mm]": 1e3 * stands.depth(),
        "the same, creep of its base in the fifth second [mm/s]": 1e3
        * float(np.linalg.norm(stands.q[-1, :2] - stands.q[round(4.0 / stands.sim.dt), :2])),
    }


def sliding(law: str) -> dict[str, float]:
    """A cube slides to a stop; the exact way is v^2 / (2 mu g)."""
    v = np.array([2.0, 0, 0, 0, 0, 0])
    long = move(world(free(CUBE, "0 0 0.1"), law), law, 1.5, v)
    diagonal = np.array([2.0 / math.sqrt(2), 2.0 / math.sqrt(2), 0, 0, 0, 0])
    across = move(world(free(CUBE, "0 0 0.1"), law), law, 1.5, diagonal)
    exact = 4.0 / (2 * 0.5 * GRAVITY)
    way = float(np.linalg.norm(long.q[-1, :2])), float(np.linalg.norm(across.q[-1, :2]))
    return {
        "stopping distance of 2 m/s, less the exact one [%]": 100 * (way[0] / exact - 1),
        "the same along the diagonal [%]": 100 * (way[1] / exact - 1),
        "highest above the floor while it slides [mm]": 1e3 * float(long.q[:, 2].max() - 0.1),
    }


def impact(law: str) -> dict[str, float]:
    """A ball and a cube on its corner fall from half a metre."""
    ball = move(world(free(BALL, "0 0 0.6"), law), law, 1.0)
    height = ball.q[:, 2] - 0.1
    low = int(height.argmin())
    turned = free(CUBE, '0 0 0.75" euler="35 45 10')
    cube = move(world(turned, law), law, 2.0)
    gaps = [
        float(c.gap[: int(c.count)].min(initial=0.0))
        for c in (cube.sim.contacts(cube.q[k], cube.v[k]) for k in range(len(cube.q)))
    ]
    return {
        "ball from 0.5 m, deepest [mm]": -1e3 * min(0.0, float(height.min())),
        "the same, rebound [mm]": 1e3 * max(0.0, float(height[low:].max())),
        "cube on its corner from 0.6 m, deepest [mm]": -1e3 * min(gaps),
        "the same, speed after 2 s [mm/s, mrad/s]": 1e3 * float(np.abs(cube.v[-1]).max()),
    }


def grasp(law: str) -> dict[str, float]:
    """Two fingers hold a cube of 0.2 kg by friction, of which it needs half, and a tenth."""
    fingers = "".join(
        f'<body name="{side}" pos="{x} 0 0.5"><joint name="{side}" type="slide" axis="{a} 0 0" '
        f'damping="5"/><geom type="box" size="0.01 0.03 0.03" mass="0.1"/></body>'
        for side, x, a in (("left", -0.03, 1), ("right", 0.03, -1))
    )
    cube = free('type="box" size="0.02 0.02 0.02"', "0 0 0.5", 0.2)
    motors = "".join(f'<motor joint="{side}"/>' for side in ("left", "right"))
    model = world(fingers + cube, law, f"<actuator>{motors}</actuator>")
    out: dict[str, float] = {}
    for share, name in ((0.5, "half"), (0.1, "a tenth")):
        # two contacts carry mu F each
        force = 0.2 * GRAVITY / (2 * 0.5 * share)
        held = move(model, law, 5.0, u=np.full(2, force))
        slip = held.q[round(0.5 / STEP), 4] - held.q[-1, 4]
        out[f"cube that needs {name} of the friction slips in 4.5 s [mm]"] = 1e3 * float(slip)
    return out


def jobs_of(sims: dict[str, fb.Simulator], one: Any, many: Any) -> dict[str, Callable[[], object]]:
    """Return calls of one world and of a batch under each law."""
    out: dict[str, Callable[[], object]] = {}
    for law, sim in sims.items():
        out[law] = lambda sim=sim: sim.rollout(*one)
        out[f"{law}, batch"] = lambda sim=sim: sim.rollout(*many)
    return out


def times(rounds: int) -> Iterator[list[str]]:
    """Yield lines with the time of a step of one world and of a batch [us]."""
    for name, text, steps in (
        ("Laikago", laikago_xml(), 100),
        ("stack of 10", stack(np.ones(10)), 20),
        ("pile of 30", pile(30), 20),
    ):
        model = fb.load(text)
        key = bool(model.keyframe_names)
        q, v = (np.array(x) for x in (model.keyframe(0)[:2] if key else (model.q0, model.v0)))
        u = np.tile(model.mujoco.key_ctrl[0], (steps, 1)) if key else np.zeros((steps, model.nu))
        sims = {
            law: fb.Simulator(model, threads=1, max_contacts=None if key else 2000, **LAWS[law])
            for law in ("hard", "mujoco")
        }
        way = sims["mujoco"].rollout(q, v, np.tile(u[:1], (200, 1)))
        q, v = np.array(way.q[-1]), np.array(way.v[-1])
        noise = 0.05 * np.random.default_rng(0).standard_normal((WORLDS, model.nv))
        many = np.tile(q, (WORLDS, 1)), v + noise, np.tile(u[:5], (WORLDS, 1, 1))
        found = interleave(jobs_of(sims, (q, v, u), many), rounds, patience=2.0)
        sizes = [steps, 5 * WORLDS, steps, 5 * WORLDS]
        cells = zip(found.values(), sizes, strict=True)
        yield [name, *(figure(t.seconds / size * 1e6) for t, size in cells)]


def physics() -> list[str]:
    """Return the table of all scenes under all laws."""
    columns = {
        law: {k: x for part in (standing, sliding, impact, grasp) for k, x in part(law).items()}
        for law in LAWS
    }
    rows = [[name, *(number(columns[law][name]) for law in LAWS)] for name in columns["hard"]]
    return table("| | " + " | ".join(LAWS) + " |", rows)


def creep() -> list[str]:
    """Return the table of how fast the cube creeps on its slope, by cone and impratio."""
    slope = math.radians(20.0)
    pull = f"{GRAVITY * math.sin(slope):.6f} 0 {-GRAVITY * math.cos(slope):.6f}"
    model = world(free(CUBE, "0 0 0.1"), "mujoco", gravity=pull)
    second, rows = round(1.0 / STEP), []
    for cone in ("pyramidal", "elliptic"):
        cells = [cone]
        for ratio in (1.0, 10.0, 100.0):
            law = {"contact": "mujoco", "cone": cone, "impratio": ratio}
            roll = fb.Simulator(model, threads=1, **law).rollout(
                model.q0, model.v0, steps=3 * second
            )
            cells.append(number(1e3 * float(roll.q[-1, 0] - roll.q[-1 - second, 0])))
        rows.append(cells)
    return table("| creep on the slope [mm/s] | impratio 1 | 10 | 100 |", rows)


def number(x: float) -> str:
    """Return a figure to two digits; what is below a millionth is that."""
    return "below 1e-6" if abs(x) < 1e-6 else f"{x:.2g}" if abs(x) < 100 else f"{x:.0f}"


def main() -> None:
    """Print the tables, or put them into the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, help="samples of each time")
    parser.add_argument("--docs", action="store_true", help=f"write {PAGE.name} too")
    given = parser.parse_args()
    facts = provenance()
    with one_core():
        lines = list(times(given.rounds))
    head = "| step [us] | hard | hard, batch of 256 | mujoco | mujoco, batch of 256 |"
    text = "\n".join([*physics(), *creep(), *table(head, lines)])
    text += f"\nStep 2 ms, friction 0.5; {facts['processor']}, one thread.\n"
    print(text)
    if given.docs:
        put_between(PAGE, MARK, text)


if __name__ == "__main__":
    main()
