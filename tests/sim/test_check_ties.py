"""check_gradients on the border of two modes: a tie is no wrong gradient, and hides none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.sim.check import APART, TIE, check_gradients
from featherback.sim.differences import LADDER, sides, slopes, stencil
from featherback.sim.rollout import Rollout

DT = 2.0**-9
FLOOR = '<geom name="floor" type="plane" size="0 0 1"/>'
SHELF = '<geom name="shelf" type="box" size="0.25 0.25 0.25"/>'
BOX = (
    '<body pos="{}"><freejoint/><geom name="{}" type="box" size="0.25 0.25 0.25" mass="1"/></body>'
)
HINGE = (
    '<body><joint name="h" axis="0 1 0" frictionloss="{}"/><geom size="0.1" mass="1" '
    'pos="0.3 0 0"/></body>'
)
SLIDE = '<body><joint name="h" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>'


def model(bodies: str, gravity: float = 0.0, motor: str = "") -> fb.Model:
    """Return a model of some bodies, with a motor at the joint "h" if it is named."""
    return fb.load(
        f'<mujoco><option timestep="{DT!r}" gravity="0 0 {gravity}"/><worldbody>{bodies}'
        f"</worldbody><actuator>{motor}</actuator></mujoco>"
    )


MOTOR = '<motor joint="h"/>'
SIDE_BY_SIDE = BOX.format("0 0 0", "one") + BOX.format("0.5 0 0", "two")
# name -> model, contact law, torque, steps and parameters; all at rest with gaps of exactly zero
RESTING: dict[str, tuple[fb.Model, Any, list[float] | None, int, list[str]]] = {
    "box on a plane": (model(FLOOR + BOX.format("0 0 0.25", "one"), -9.81), "hard", None, 5, []),
    "box on a box": (
        model(SHELF + BOX.format("0 0 0.5", "one"), -9.81),
        "mujoco",
        None,
        20,
        ["body_mass", "geom_size", "geom_friction"],
    ),
    "box beside a box": (model(SIDE_BY_SIDE), "hard", None, 5, ["body_mass", "gravity"]),
    "hinge": (model(HINGE.format(1), 0.0, MOTOR), "hard", [0.0], 5, ["dof_frictionloss"]),
    "hinge under its friction": (
        model(HINGE.format(1), 0.0, MOTOR),
        "hard",
        [0.5],
        5,
        ["dof_frictionloss", "gravity"],
    ),
    "hinge at its friction": (model(HINGE.format(1), 0.0, MOTOR), "hard", [1.0], 1, ["gravity"]),
    "hinge under gravity": (
        model(HINGE.format(5), -9.81, MOTOR),
        "hard",
        [0.0],
        5,
        ["body_mass", "gravity", "dt"],
    ),
}


@pytest.mark.parametrize("name", RESTING)
@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("seed", range(4))
def test_bodies_at_rest_are_not_wrong(name: str, law: Any, seed: int) -> None:
    """Find no wrong gradient where faces touch at a gap of zero, or friction holds a joint."""
    found, _, u, steps, params = RESTING[name]
    sim = fb.Simulator(found, contact=law)
    report = check_gradients(sim, u=u, steps=steps, draws=2, params=params, seed=seed)
    print(f"seed {seed}\n{report}")
    assert report.ok


@pytest.mark.parametrize("case", RESTING)
def test_errors_at_rest_are_found(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Find an error of one per cent in inputs along which a body at rest has no tie."""
    found, law, u, steps, params = RESTING[case]
    sim = fb.Simulator(found, contact=law)
    report = check_gradients(sim, u=u, steps=steps, draws=3, params=params)
    # inputs that were compared along both lines of all draws
    smooth = sorted(report.errors.keys() - {place.name for place in report.crossed})
    print(f"seed 0, {smooth}\n{report}")
    honest = Rollout.vjp
    for name in smooth:

        def wrong(self: Rollout, *bars: Any, name: str = name) -> fb.Gradient:
            right = honest(self, *bars)
            bad = np.array(right.params[name] if name in right.params else getattr(right, name))
            bad.reshape(-1)[-1] += 0.01 * np.abs(bad).max() + 1e-3
            if name in right.params:
                return replace(right, params={**right.params, name: bad})
            return replace(right, **{name: bad})

        monkeypatch.setattr(Rollout, "vjp", wrong)
        planted = check_gradients(sim, u=u, steps=steps, draws=3, params=params)
        assert not planted.ok
        assert planted.worst is not None
        assert planted.worst.name == name
    assert smooth


LIMITED = '<motor joint="h" ctrllimited="true" ctrlrange="-1 1"/>'


def test_ties_are_named() -> None:
    """Count a control exactly at its limit as crossing, and say that it is a tie."""
    sim = fb.Simulator(model(SLIDE, 0.0, LIMITED))
    report = check_gradients(sim, u=[1.0], steps=1, draws=1)
    print(f"seed 0\n{report}")
    assert report.ok
    assert {(place.name, place.what) for place in report.crossed} == {("u", TIE)}
    assert all(place.tie for place in report.crossed)
    assert "    2 of them: ties, where several slopes are right and" in str(report)


def test_slopes_of_smaller_steps_decide() -> None:
    """Compare a box on a shelf with steps smaller than the tilt at which its edges lift."""
    found, law, u, steps, params = RESTING["box on a box"]
    sim = fb.Simulator(found, contact=law)
    report = check_gradients(sim, u=u, steps=steps, draws=1, params=params)
    print(f"seed 0\n{report}")
    assert report.ok
    assert report.errors.get("v", 0.0) <= 1e-5
    assert "v" in {place.name for place in report.crossed if place.what == APART} | {*report.errors}


@pytest.mark.parametrize("other", [1.0, 3.0, 2.999999, 2.0])
def test_wrong_sides_are_wrong(monkeypatch: pytest.MonkeyPatch, other: float) -> None:
    """Report a gradient that is no slope of either side where a line has no tie."""
    sim = fb.Simulator(model(SLIDE, 0.0, MOTOR))
    honest = Rollout.vjp

    def scaled(self: Rollout, *bars: Any) -> fb.Gradient:
        right = honest(self, *bars)
        return replace(right, u=right.u * other)

    monkeypatch.setattr(Rollout, "vjp", scaled)
    report = check_gradients(sim, u=[1.0], steps=2, draws=1)
    assert report.ok == (other == 1.0)
    assert not report.crossed


def test_sides_of_a_kink() -> None:
    """Give both slopes of a kink with curvature, and of a smooth function the same twice."""
    x = stencil(LADDER)
    values = np.stack([np.where(x > 0, 3 * x, x) + 5 * x**2, np.sin(2 * x), np.abs(x)])
    found = sides(values)
    assert np.allclose(found.left, [1.0, 2.0, -1.0], atol=1e-7)
    assert np.allclose(found.right, [3.0, 2.0, 1.0], atol=1e-7)
    assert (found.doubt < 1e-6).all()
    for slope, one, both in ((1.0, True, True), (3.0, True, True), (2.0, False, True)):
        assert found.hold(np.full(3, slope), 1e-5, between=False)[0] == one
        assert found.hold(np.full(3, slope), 1e-5, between=True)[0] == both
    # a slope outside of the two is that of neither, and a smooth function has one side
    assert not found.hold(np.full(3, 3.1), 1e-5, between=True).any()
    assert not found.hold(np.full(3, 2.0), 1e-5, between=True)[1]


def test_rounding_hides_slopes() -> None:
    """Doubt the slope of values that are rounded to steps of their own, however alike they are."""
    x = 1e-11 * stencil(LADDER)
    values = (np.round((1 + 0.3 * x) * 2**52) / 2**52 - 1)[None]
    # the smallest steps do not move it
    assert (values[0, [7, 8, 9, 16, 17, 18]] == 0).all()
    assert slopes(values, 1e-11 * LADDER).doubt[0] == 0
    for found in (slopes, sides):
        assert (found(values, 1e-11 * LADDER, rounding=2.0**-52).doubt > 1e-9).all()
