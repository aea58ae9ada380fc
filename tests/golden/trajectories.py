"""Hashes of fixed trajectories, for the instruction set in force; run as a program it prints JSON.

The inputs are kept apart from rounding elsewhere: parameters compiled by MuJoCo are rounded to
twelve digits, states and controls are made by addition and multiplication only, and the random tree
is a file. So a hash depends on our arithmetic, and `inputs` tells whether anything else changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import featherback as fb

WORLDS = 3
DIGITS = 12  # significant digits that are kept of a compiled parameter
# parameters and tables that say nothing of a model without activation
ACTIVATION = "actuator_dynprm actuator_actrange act_adr act_dyn act_early act_limited".split()
# tables that say nothing of a model without meshes
HULLS = {"geom_hull", "hull"}
# tables of which the hard contact law reads nothing
SOFT = {"pair_explicit"}
# tables that say nothing of a model without tendons
TENDONS = {"act_tendon", "eq_rows"}
# size -> parameters and tables that say nothing of a model where it is zero
FORCES = {
    "ngravcomp": {"body_gravcomp", "jnt_gravcomp"},
    "nfluid": {"density", "viscosity", "wind", "geom_fluid"},
    "nmuscle": {"act_muscle", "act_muscle_gain", "act_muscle_bias"},
    "nadhesion": {"act_body"},
    "nreach": {"actuator_cranklength", "act_trn", "act_site", "act_refsite"},
}

PILE = """<mujoco model="pile"><option timestep="0.002"/><worldbody>
<geom type="plane" size="0 0 1"/>
<body pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
<body pos="0.02 0 0.27"><freejoint/>
<geom type="capsule" size="0.05 0.1" quat="0.5 0.5 0.5 0.5" mass="0.5"/></body>
<body pos="0 0.01 0.44"><freejoint/><geom type="box" size="0.12 0.08 0.09" mass="2"/></body>
<body pos="0.4 0 0.2"><freejoint/><geom type="capsule" size="0.06 0.1" mass="1"/></body>
<body pos="0.52 0 0.1"><freejoint/><geom type="sphere" size="0.09" mass="1"/></body>
</worldbody></mujoco>"""


@dataclass(frozen=True)
class Scene:
    """One golden trajectory, of a few worlds that start from the first keyframe.

    Attributes:
        model: makes the model.
        dtype: number type.
        steps: length of the rollout.
        speed: largest initial velocity [m/s, rad/s].
        control: largest change of a control around its reference.
        height: added to the third coordinate at the start [m].
    """

    model: Callable[[], fb.Model]
    dtype: Literal["float64", "float32"]
    steps: int
    speed: float = 0.5
    control: float = 0.3
    height: float = 0.0


def _tree() -> fb.Model:
    return fb.load(Path(__file__).with_name("tree.xml"))


SCENES = {
    "laikago drop, float64": Scene(fb.models.laikago, "float64", 400, height=0.1),
    "laikago drop, float32": Scene(fb.models.laikago, "float32", 400, height=0.1),
    "pile, float64": Scene(lambda: fb.load(PILE), "float64", 400),
    "pile, float32": Scene(lambda: fb.load(PILE), "float32", 400),
    "random tree, float64": Scene(_tree, "float64", 300),
}


def rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers with twelve significant digits."""
    flat = [float(f"{value:.{DIGITS}g}") for value in np.ravel(values)]
    return np.array(flat).reshape(np.shape(values))


def spread(shape: tuple[int, ...], size: float) -> NDArray[np.float64]:
    """Return numbers between -size and size that repeat after a prime number of entries."""
    count = int(np.prod(shape))
    return (np.arange(count) * 37 % 101 / 50.0 - 1.0).reshape(shape) * size


def digest(*arrays: NDArray[np.generic]) -> str:
    """Return the SHA-256 of the bytes of some arrays."""
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def hashes_of(scene: Scene) -> dict[str, str]:
    """Return the hash of everything that goes into a scene and of what comes out."""
    model = scene.model()
    params = {name: rounded(value) for name, value in fb.Simulator(model).params.items()}
    said = {*params, *model.structure.tables} - SOFT - set(() if model.na else ACTIVATION)
    said -= set() if model.structure.sizes["nmesh"] else HULLS
    said -= set() if model.structure.sizes["ntendon"] else TENDONS
    for size, names in FORCES.items():
        said -= set() if model.structure.sizes[size] else names
    tables = model.structure.tables
    inputs = [group[name] for group in (params, tables) for name in sorted(group) if name in said]
    start = model.keyframe(0)[0] if model.keyframe_names else model.q0
    q = np.repeat(rounded(start)[None], WORLDS, axis=0)
    q[:, 2] += scene.height
    v = spread((WORLDS, model.nv), scene.speed)
    u = spread((WORLDS, scene.steps, model.nu), scene.control)
    if model.nu == model.nv - 6:
        # servos of a free robot: targets around the pose it starts in
        u = u + q[:, None, 7:]
    sim = fb.Simulator(model, dtype=scene.dtype, params=dict(params))
    roll = sim.rollout(q, v, u, steps=scene.steps)
    assert np.isfinite(roll.v).all(), roll.describe_status()
    return {
        "inputs": digest(*inputs, q, v, u),
        "states": digest(roll.q, roll.v, roll.status),
    }


def all_hashes() -> dict[str, dict[str, str]]:
    """Return the hashes of every scene for the instruction set in force."""
    return {name: hashes_of(scene) for name, scene in SCENES.items()}


def hashes_for(isa: str) -> dict[str, dict[str, str]]:
    """Return the hashes of every scene for an instruction set, from a process of its own."""
    root = Path(__file__).resolve().parent.parent.parent
    code = "from tests.golden import trajectories; trajectories.main()"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "FEATHERBACK_ISA": isa},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"the trajectories of {isa} failed:\n{run.stderr}")
    return json.loads(run.stdout)


def main() -> None:
    """Print the hashes as JSON."""
    json.dump(all_hashes(), sys.stdout)
