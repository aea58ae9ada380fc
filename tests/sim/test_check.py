"""check_gradients: passes where gradients are right, and names the input, entry and step if not."""

from __future__ import annotations

import doctest
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.sim import Status, check
from featherback.sim.check import check_gradients
from featherback.sim.rollout import Rollout


def plant(monkeypatch: pytest.MonkeyPatch, name: str, index: tuple[int, ...], after: int) -> None:
    """Add an error to one entry of every gradient, from states after a step on."""
    honest = Rollout.vjp

    def wrong(self: Rollout, q_bar: Any, v_bar: Any, act_bar: Any) -> fb.Gradient:
        found = honest(self, q_bar, v_bar, act_bar)
        extra = 0.01 * float(np.abs(q_bar[..., after + 1 :, :]).sum())
        if name in found.params:
            found.params[name][index] += extra
            return found
        bad = np.array(getattr(found, name))
        bad[index] += extra
        return replace(found, **{name: bad})

    monkeypatch.setattr(Rollout, "vjp", wrong)


@pytest.mark.parametrize("friction", ["cone", "box"])
def test_laikago_is_right(friction: Any) -> None:
    """Find no error on a Laikago that stands, in state, controls and parameters."""
    sim = fb.Simulator(fb.models.laikago(), friction=friction)
    names = ["body_mass", "body_inertia", "geom_friction", "geom_size", "gravity", "dt"]
    report = check_gradients(sim, params=names)
    print(f"seed 0\n{report}")
    assert report.ok
    assert not report.missing
    assert set(report.errors) == {"q", "v", "u", *names}
    assert report.lines >= 100
    assert str(report).startswith('gradients of "laikago", 8 draws of 20 steps: ok\n')


@pytest.mark.parametrize(
    ("name", "index", "after"),
    [("q", (1,), 7), ("v", (0,), 0), ("u", (3, 0), 12), ("body_mass", (2,), 19)],
)
def test_planted_error_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, index: tuple[int, ...], after: int
) -> None:
    """Name the input, the entry and the first step of an error that was put there."""
    plant(monkeypatch, name, index, after)
    report = check_gradients(fb.Simulator(fb.models.cartpole()), params=["body_mass"])
    print(f"seed 0\n{report}")
    assert not report.ok
    assert report.worst is not None
    assert (report.worst.name, report.worst.index, report.worst.step) == (name, index, after)
    assert f"{name}{list(index)}, step {after}" in str(report)


def test_crossings_are_counted_apart() -> None:
    """Count a ball that just touches the floor as crossing, and name the contact."""
    model = fb.models.ball(radius=0.1)
    sim = fb.Simulator(model)
    # the first fall ends within the step that would close the gap by 1e-14
    q = np.array(model.q0)
    q[2] = 0.1 + 9.81 * sim.dt**2 - 1e-14
    report = check_gradients(sim, q=q, v=np.zeros(6), steps=1, draws=1)
    print(f"seed 0\n{report}")
    assert report.crossed_draws == (0,)
    assert {place.name for place in report.crossed} == {"q", "v"}
    assert all(place.step == 0 for place in report.crossed)
    assert all(place.what == 'contact of "floor" and "ball"' for place in report.crossed)
    assert report.worst is None
    assert not report.ok


def test_modes_at_a_distance_are_not_crossed() -> None:
    """Compare a ball 1e-7 m from touching with differences that do not reach the floor."""
    model = fb.models.ball(radius=0.1)
    sim = fb.Simulator(model)
    q = np.array(model.q0)
    q[2] = 0.1 + 9.81 * sim.dt**2 + 1e-7
    report = check_gradients(sim, q=q, v=np.zeros(6), steps=1, draws=1)
    print(f"seed 0\n{report}")
    assert report.ok
    assert report.crossed == ()
    assert report.lines == 4


def test_draws_come_nearer_where_steps_are_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the deviation of a draw smaller until its steps are solved."""
    sim = fb.Simulator(fb.models.cartpole())
    base = {"q": np.zeros(2), "v": np.zeros(2), "act": np.zeros(0), "u": np.zeros((3, 1))}
    first = check._near(sim, base, np.random.default_rng(0))
    lost = iter([Status.NONFINITE, Status.UNCONVERGED, Status(0)])
    monkeypatch.setattr(check, "_rollout", lambda *_: SimpleNamespace(status=int(next(lost))))
    near = check._near(sim, base, np.random.default_rng(0))
    print("seed 0")
    for name in ("q", "v", "u"):
        assert np.allclose(near[name], 0.01 * first[name], rtol=1e-12)


def test_missing_gradients_are_counted_apart() -> None:
    """Count draws that leave the finite numbers, and say why."""
    sim = fb.Simulator(fb.models.cartpole())
    report = check_gradients(sim, q=[0.0, 0.5], v=[0.0, 1e200], draws=3, steps=4)
    print(f"seed 0\n{report}")
    assert report.missing_draws == (0, 1, 2)
    assert not report.ok
    assert report.missing[0].step == 0
    assert report.missing[0].what.startswith("NONFINITE: the state holds a NaN")
    assert "no gradient      3 draws" in str(report)


WELDED = """<mujoco><option gravity="0 0 -1"/><default><geom size="0.05 0.05 0.05" type="box"/>
</default><worldbody><body name="a" euler="0 45 0"><geom/></body>
<body name="b" pos="0 0 -.2" euler="30 30 30"><joint type="free"/><geom/></body></worldbody>
<equality><weld body1="a" body2="b"/></equality></mujoco>"""
FALLING = "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"


@pytest.mark.parametrize("text", [WELDED, FALLING], ids=["welded", "falling"])
@pytest.mark.parametrize("steps", [20, 100])
@pytest.mark.parametrize("contact", ["hard", "mujoco"])
def test_gradients_of_rounding_size_are_right(
    monkeypatch: pytest.MonkeyPatch, text: str, steps: int, contact: Any
) -> None:
    """Compare a gradient that vanishes up to rounding, and still find an error that does not."""
    sim = fb.Simulator(fb.load(text), contact=contact)
    report = check_gradients(sim, params=["body_mass"], steps=steps, draws=4)
    print(f"seed 0\n{report}")
    assert report.ok
    assert "body_mass" in report.errors
    assert "body_mass" not in {place.name for place in report.crossed}
    honest = Rollout.vjp

    def wrong(self: Rollout, *bars: Any) -> fb.Gradient:
        found = honest(self, *bars)
        found.params["body_mass"][-1] += 1e-5 * max(np.abs(found.q).max(), np.abs(found.v).max())
        return found

    monkeypatch.setattr(Rollout, "vjp", wrong)
    assert not check_gradients(sim, params=["body_mass"], steps=steps, draws=4).ok


def test_the_docstring_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the example of the docstring."""
    monkeypatch.setattr(fb, "check_gradients", check_gradients, raising=False)
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(check_gradients, globs={}):
        runner.run(example)
    assert runner.summarize(verbose=False) == (0, 4)


def test_same_seed_same_report() -> None:
    """Repeat a report from its seed."""
    sim = fb.Simulator(fb.models.quadruped())
    assert str(check_gradients(sim, seed=4)) == str(check_gradients(sim, seed=4))


def test_narrow_ranges_are_moved_by_less_than_their_width() -> None:
    """Check the gradient of a range that is narrower than steps of differences are elsewhere."""
    model = fb.load(
        "<mujoco><worldbody><body><joint axis='0 1 0' range='0 0.001' limited='true'/>"
        "<geom size='0.1' pos='0.3 0 0'/></body></worldbody></mujoco>"
    )
    report = fb.check_gradients(fb.Simulator(model), params=["jnt_range"], steps=5, draws=3)
    assert report.ok, str(report)
