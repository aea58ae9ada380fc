"""Gradients of outputs of random models against Richardson differences along lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import featherback as fb
from featherback.sim.check import sizes
from featherback.sim.differences import slopes, stencil
from tests.property.gradients import LONGER
from tests.property.random_models import random_state, random_tree

Vector = NDArray[np.float64]
OFFSETS = stencil()
SEEDS = range(40_000_000, 40_000_020)

# output -> its inputs besides the parameters, and the number of its results
OUTPUTS = {
    "mass_matrix": ("q", 1),
    "bias": ("q v", 1),
    "inverse_dynamics": ("q v a", 1),
    "forward_dynamics": ("q v tau", 1),
    "body_poses": ("q", 2),
    "site_positions": ("q", 1),
    "site_poses": ("q", 2),
    "center_of_mass": ("q", 1),
    "mass_centers": ("q", 1),
    "com_inertias": ("q", 1),
    "com_velocities": ("q v", 1),
}
PLACES = {"body_pos", "body_quat", "jnt_pos", "jnt_axis", "qpos0"}
INERTIAS = {"body_mass", "body_ipos", "body_inertia", "body_iquat", "body_inertia_products"}
# the parameters that an output reads
READ = {
    "mass_matrix": PLACES | INERTIAS | {"dof_armature"},
    "bias": PLACES | INERTIAS | {"gravity"},
    "inverse_dynamics": PLACES | INERTIAS | {"dof_armature", "gravity"},
    "forward_dynamics": PLACES | INERTIAS | {"dof_armature", "gravity"},
    "body_poses": PLACES,
    "site_positions": PLACES | {"site_pos"},
    "site_poses": PLACES | {"site_pos", "site_quat"},
    "center_of_mass": PLACES | {"body_mass", "body_ipos"},
    "mass_centers": PLACES | {"body_mass", "body_ipos"},
    "com_inertias": PLACES | INERTIAS,
    "com_velocities": PLACES | {"body_mass", "body_ipos"},
}
NAMES = sorted(PLACES | INERTIAS | {"dof_armature", "gravity", "site_pos", "site_quat"})


def evaluate(sim: fb.Simulator, name: str, inputs: dict[str, Vector]) -> list[Vector]:
    """Return the results of an output; inputs by name, parameters among them."""
    own = OUTPUTS[name][0].split()
    params: Any = {k: x for k, x in inputs.items() if k not in own}
    found = getattr(sim, name)(*(inputs[k] for k in own), params=params)
    return list(found) if isinstance(found, tuple) else [found]


def gradient(sim: fb.Simulator, name: str, inputs: dict[str, Vector], bars: list[Vector]) -> Any:
    """Return the gradient of the sum of results times bars, by input."""
    own = OUTPUTS[name][0].split()
    params: Any = {k: x for k, x in inputs.items() if k not in own}
    found = getattr(sim, f"{name}_vjp")(*(inputs[k] for k in own), *bars, params=params)
    assert [k for k in ("v", "a", "tau") if getattr(found, k) is not None] == own[1:]
    return {**{k: getattr(found, k) for k in own}, **found.params}


def line(sim: fb.Simulator, name: str, inputs: Any, key: str, along: Vector, bars: Any) -> float:
    """Return the slope of the loss along a direction, at the clearer of two lengths."""
    short, long = (slope_at(sim, name, inputs, key, along * k, bars) for k in (1.0, LONGER))
    if long.doubt[0] < LONGER * short.doubt[0]:
        return float(long.value[0]) / LONGER
    return float(short.value[0])


def slope_at(sim: fb.Simulator, name: str, inputs: Any, key: str, along: Vector, bars: Any) -> Any:
    """Return the slope of the loss along a direction, with how sure it is."""
    own = OUTPUTS[name][0].split()
    x = inputs[key]
    worlds = len(OFFSETS)
    beside = {
        k: np.broadcast_to(a, (worlds, *a.shape)) if k in own else a for k, a in inputs.items()
    }
    beside[key] = x + OFFSETS.reshape(-1, *(1,) * x.ndim) * along
    here = evaluate(sim, name, inputs)
    there = evaluate(sim, name, beside)
    loss = np.zeros(worlds)
    for results, base, bar in zip(there, here, bars, strict=True):
        loss += ((results - base) * bar).reshape(worlds, -1).sum(axis=1)
    return slopes(loss[None])


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_of_random_models(name: str) -> None:
    """Agree to 1e-6 of the largest entry in every input and every parameter that is read."""
    acted: set[str] = set()
    worst = 0.0
    for seed in SEEDS:
        print(f"seed {seed}")
        rng = np.random.default_rng(seed)
        model = fb.load(random_tree(rng))
        sim = fb.Simulator(model)
        q, v = random_state(model, rng)
        point = {"q": q, "v": v, "a": rng.normal(size=model.nv), "tau": rng.normal(size=model.nv)}
        inputs = {k: point[k] for k in OUTPUTS[name][0].split()}
        inputs |= {k: np.array(model.params[k]) for k in NAMES if model.params[k].size}
        bars = [rng.normal(size=y.shape) for y in evaluate(sim, name, inputs)]
        found = gradient(sim, name, inputs, bars)
        moves = {k: sizes(k, inputs).reshape(g.shape) for k, g in found.items()}
        # what lies five digits below the largest entry of all is rounding in the differences
        floor = 1e-5 * max(float(np.abs(g * moves[k]).max()) for k, g in found.items())
        for key, g in found.items():
            assert g.shape == inputs[key].shape
            along = rng.normal(size=g.shape) * moves[key]
            reference = line(sim, name, inputs, key, along, bars)
            if key not in READ[name] and key not in OUTPUTS[name][0].split():
                assert not g.any()
            scale = max(float(np.abs(g * moves[key]).max()), floor, 1e-300)
            error = abs(float((g * along).sum()) - reference) / scale
            assert error <= 1e-6, (seed, key, error)
            worst = max(worst, error)
            if g.any():
                acted.add(key)
    print(f"seeds {SEEDS}: worst relative error {worst:.1e}")
    assert acted == READ[name] | set(OUTPUTS[name][0].split())
