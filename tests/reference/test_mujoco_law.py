"""Steps under MuJoCo's contact law against MuJoCo, where both see the same contact points."""

from __future__ import annotations

from collections import Counter

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.property.kinds import pair_model
from tests.property.soft import draw_soft, exact_mujoco, soft_options


def points(contacts: fb.Contacts) -> np.ndarray:
    """Return gap and position of the contacts of one world, sorted."""
    n = int(contacts.count)
    rows = [(contacts.gap[i], *contacts.point[i]) for i in range(n)]
    return np.array(sorted(rows)).reshape(-1, 4)


def compare(seed: int, tally: Counter[str]) -> float | None:
    """Return the error of the acceleration of one step; None where contact points differ."""
    model, q, v, rng = draw_soft(seed)
    options = soft_options(seed)
    reference, u = exact_mujoco(model, options), rng.normal(size=model.nu)
    data = mujoco.MjData(reference)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, u
    mujoco.mj_forward(reference, data)
    theirs = [c for c in data.contact if c.efc_address >= 0]
    wanted = np.array(sorted((c.dist, *c.pos) for c in theirs)).reshape(-1, 4)
    smooth = float(np.abs(data.qacc_smooth).max())
    sim = fb.Simulator(model, **options)
    found = points(sim.contacts(q, v, u))
    if found.shape != wanted.shape or (len(found) and np.abs(found - wanted).max() > 1e-9):
        return None
    kinds = mujoco.mjtConstraint
    tally.update(f"condim {c.dim}" for c in theirs)
    tally.update(kinds(int(t)).name.removeprefix("mjCNSTR_").lower() for t in data.efc_type)
    tally.update([options["integrator"]])
    mujoco.mj_step(reference, data)
    *_, ours, status = sim.step(q, v, u, return_status=True)
    assert status == 0, seed
    a, b = (ours - v) / sim.dt, (data.qvel - v) / sim.dt
    return float(np.abs(a - b).max()) / max(float(np.abs(b).max()), smooth, 1.0)


@pytest.mark.parametrize("chunk", range(3))
def test_one_step_is_mujocos(chunk: int) -> None:
    """Agree to 1e-10 with every kind of row, cone, condim and integrator."""
    tally: Counter[str] = Counter()
    errors: list[tuple[float, int]] = []
    for seed in range(80 * chunk, 80 * chunk + 80):
        error = compare(seed, tally)
        if error is not None:
            errors.append((error, seed))
    print(sorted(errors)[-3:], len(errors), dict(tally))
    assert len(errors) > 40 and max(errors)[0] < 1e-10
    rows = "equality friction_dof limit_joint contact_frictionless contact_pyramidal".split()
    rows += ["contact_elliptic", "condim 1", "condim 3", "condim 4", "condim 6"]
    rows += ["euler", "rk4", "implicitfast"]
    assert [name for name in rows if not tally[name]] == []


# pairs of docs/mujoco_law.md whose contact points are always MuJoCo's
EXACT = (
    "plane-sphere plane-capsule plane-box plane-ellipsoid sphere-sphere sphere-capsule sphere-box"
).split()


def pose(model: fb.Model, sim: fb.Simulator, rng: np.random.Generator, tilt: float) -> np.ndarray:
    """Return a pose in which the second shape overlaps the first by up to 3 mm."""
    q, v = np.array(model.q0), np.zeros(model.nv)
    for start in range(model.nq - 4, -1, -7):
        turn = np.r_[1.0, tilt * rng.normal(size=2), rng.normal()]
        q[start : start + 4] = turn / np.linalg.norm(turn)
    q[-7:-5] = rng.uniform(-0.05, 0.05, 2)
    low, high, wanted = 0.0, 1.0, rng.uniform(1e-5, 3e-3)
    for _ in range(40):
        q[-5] = 0.5 * (low + high)
        found = sim.contacts(q, v)
        depth = -float(found.gap[: int(found.count)].min(initial=np.inf))
        low, high = (q[-5], high) if depth > wanted else (low, q[-5])
    q[-5] = low
    return q


@pytest.mark.parametrize("pair", EXACT)
def test_pairs_with_the_contact_points_of_mujoco(pair: str) -> None:
    """See the contact points of MuJoCo on the pairs that the documentation names."""
    print("seed 5")
    rng, model = np.random.default_rng(5), pair_model(pair, 0.8)
    sim, data = fb.Simulator(model, contact="mujoco"), mujoco.MjData(model.mujoco)
    for tilt in [*np.linspace(0.2, 3, 10), *np.linspace(0.001, 0.01, 10)]:
        data.qpos[:] = pose(model, sim, rng, tilt)
        mujoco.mj_forward(model.mujoco, data)
        wanted = np.array(sorted((c.dist, *c.pos) for c in data.contact)).reshape(-1, 4)
        found = points(sim.contacts(data.qpos, np.zeros(model.nv)))
        assert len(found) > 0 and np.abs(found - wanted).max() < 1e-9
