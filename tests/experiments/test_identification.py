"""The experiments that identify: scenes with known answers, both derivatives, what is missing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import featherback as fb
from featherback.experiments import Context, run
from featherback.experiments.differences import ByDifferences, fit
from featherback.experiments.named import ant_identify, chain_mass, racecar_friction
from featherback.identify.log import cut
from featherback.identify.problem import PredictionProblem
from featherback.models.racecar import racecar

pytest.importorskip("scipy")
GYMNASIUM = importlib.util.find_spec("gymnasium") is not None


def _context(path: Path, name: str, seed: int = 0) -> Context:
    print("seed", seed)
    return Context(name, seed, True, path, show=False)


@pytest.mark.parametrize("mu", [0.0637, 0.1, 0.3])
def test_the_racecar_stops_where_the_closed_form_says(mu: float) -> None:
    """Stop at v^2 / (2 mu g), half a step's way before it, with wheels that do not turn."""
    sim = fb.Simulator(racecar())
    roll = racecar_friction.slide(sim, np.array([mu]))
    way = 1.0 / (2.0 * mu * 9.81)
    # the step is semi-implicit; the last one, in which the car stops, is not whole
    assert abs(roll.q[0, -1, 0] - way + 0.5 * sim.dt) < 1e-5
    assert np.abs(roll.v[0, -1]).max() < 1e-9
    assert np.abs(roll.q[0, -1, 7:]).max() < 1e-5
    assert abs(float(sim.params["body_mass"].sum()) - 5.892) < 1e-12


def test_racecar_friction_holds_its_claims(tmp_path: Path) -> None:
    """Write a result whose claims hold, with its plots, recording and landscape."""
    pytest.importorskip("matplotlib")
    content = run("racecar-friction", seed=3, quick=True, out=tmp_path, show=False)
    assert [claim["holds"] for claim in content["claims"]] == [True] * 4
    assert content["figures"]["iterations to 1 mm"] <= 10
    assert content["figures"]["friction at the start"] == 0.002
    written = json.loads((tmp_path / "racecar-friction.json").read_text())
    assert written["figures"] == content["figures"]
    for file in ("landscape", "recording", "plot"):
        assert (tmp_path / content["files"][file]).stat().st_size > 1000
    assert any("does not stop within the 2 s" in note for note in content["notes"])


def test_the_chain_is_hit_and_its_mass_acts() -> None:
    """Leave the motion before the hit to itself, and change that after it with the mass."""
    sim = chain_mass.make_sim()
    params = {name: np.array(sim.params[name]) for name in ("body_mass", "body_inertia")}
    light = chain_mass.true_motion(sim)
    q = np.array(light.q[0])
    heavy = sim.rollout(q, np.zeros(sim.model.nv), steps=500, params=dict(params))
    apart = np.abs(heavy.q - light.q[:501]).max(axis=1)
    first = int(np.argmax(apart > 1e-9))
    assert 200 < first < 300
    assert apart[500] > 1e-2


def test_gradients_of_the_chain_agree() -> None:
    """Give the same 100 derivatives by the backward pass and by central differences."""
    sim = chain_mass.make_sim()
    log = np.asarray(chain_mass.true_motion(sim).q)[:501]
    entries = chain_mass.parameter_directions(sim)
    assert len(set(entries)) == 100
    exact = chain_mass.exact_gradient(sim, log, list(dict.fromkeys(name for name, _ in entries)))
    own = np.array([exact[name][at] for name, at in entries])
    differences = chain_mass.difference_gradient(sim, log, entries)
    assert np.abs(own - differences).max() < 1e-5 * np.abs(own).max()


def test_the_mass_of_the_chain_is_found(tmp_path: Path) -> None:
    """Find the mass within 1 % from a twelfth of it or less, exactly and by differences."""
    sim = chain_mass.make_sim()
    rng = np.random.default_rng(1)
    log = chain_mass.observe(sim, chain_mass.true_motion(sim), rng)
    windows = cut("test", sim.model, sim.dt, [log], chain_mass.WINDOW, False)
    blocks = [chain_mass.mass_of(sim, 0.05)]
    context = _context(tmp_path, "chain-mass", 1)
    found = [
        fit(context, [kind(sim, windows, blocks, False)], which, which, chain_mass.angle_error)[
            0
        ].x[0]
        for kind, which in ((PredictionProblem, "ours"), (ByDifferences, "baseline"))
    ]
    assert abs(found[0] / chain_mass.TRUTH - 1.0) < 0.01
    assert abs(found[0] - found[1]) < 1e-5


def test_times_cross_between_their_neighbours() -> None:
    """Interpolate the crossing in logarithms, and know when there is none."""
    times = chain_mass.Times([1, 4, 16], [2.0, 2.0, 2.0], [1.0, 4.0, 16.0])
    assert times.crossing() == pytest.approx(2.0)
    assert chain_mass.Times([1, 4], [1.0, 1.0], [3.0, 9.0]).crossing() == 1.0
    assert chain_mass.Times([1, 4], [9.0, 9.0], [3.0, 3.0]).crossing() is None


@pytest.mark.skipif(not GYMNASIUM, reason="gymnasium brings the ant's file")
def test_the_ant_is_found_from_flights_in_mujoco(tmp_path: Path) -> None:
    """Find damping and shins from one second in MuJoCo, and name what it does not tell."""
    context = _context(tmp_path, "ant-identify")
    part = ant_identify.fly(context, np.random.default_rng(0), (1, 79))
    assert part.estimate.converged
    assert part.estimate.misfit is not None and 0.9 < part.estimate.misfit < 1.1
    assert part.errors("dof").max() < 0.1
    spread = np.array(list(part.estimate.deviations.values()))
    bias = 0.02 * part.truth
    assert np.all(np.abs(part.estimate.x - part.truth) < 4.0 * spread + bias)


@pytest.mark.skipif(not GYMNASIUM, reason="gymnasium brings the ant's file")
@pytest.mark.slow
def test_the_ant_is_found_on_the_floor(tmp_path: Path) -> None:
    """Find masses, damping and friction through contacts, within their deviations."""
    pytest.importorskip("matplotlib")
    context = _context(tmp_path, "ant-identify")
    part, other = ant_identify.stand(context, np.random.default_rng(0), (4, 40))
    assert part.errors("geom").max() < 0.01
    assert part.errors("dof").max() < 0.03
    assert part.errors("density").max() < 0.15
    spread = np.array(list(part.estimate.deviations.values()))
    assert np.all(np.abs(part.estimate.x - part.truth) < 5.0 * spread)
    np.testing.assert_allclose(part.estimate.x, other.estimate.x, rtol=0.05)
