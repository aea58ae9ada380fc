"""Exact ties: which side's derivative `vjp` returns where a condition sits on its edge.

Every number is a power of two or a small multiple of one, so that the edge is met to the last bit.
The table of docs/gradients.md has the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import featherback as fb

DT = 2.0**-9
DOCS = Path(__file__).parents[2] / "docs" / "gradients.md"

SLIDER = (
    f'<mujoco><option timestep="{DT!r}" gravity="0 0 0"/><worldbody>'
    '<geom name="floor" type="plane" size="0 0 1" friction="0.5 0 0"/><body pos="0 0 0.25">'
    '<joint name="x" type="slide" axis="1 0 0" {x}/><joint name="z" type="slide" axis="0 0 1"/>'
    '<joint name="y" type="slide" axis="0 1 0"/>'
    '<geom name="ball" size="0.25" mass="1" friction="{mu} 0 0" {mask}/></body></worldbody>'
    "<actuator>{actuator}</actuator></mujoco>"
)
APART = 'contype="0" conaffinity="0"'
MOTOR = '<motor joint="x"/>'


def slider(x: str = "", mu: float = 0.5, mask: str = "", actuator: str = MOTOR) -> str:
    """Return a ball of 1 kg that slides along x, z and y, and touches the floor at z = 0."""
    return SLIDER.format(x=x, mu=mu, mask=mask, actuator=actuator)


@dataclass(frozen=True)
class Tie:
    """One number moved through an edge.

    Attributes:
        name: as in the table of the docs.
        words: what the table says of it.
        side: the side whose derivative is returned, or "mean".
        xml: the model.
        moved: input and its index that is moved.
        seen: entry of the next velocity that is looked at.
        point: q, v and u where they are not zero.
        params: parameters of the call.
    """

    name: str
    words: str
    side: Literal["right", "left", "mean"]
    xml: str
    moved: tuple[str, tuple[int, ...]]
    seen: int
    point: dict[str, list[float]] = field(default_factory=dict)
    params: dict[str, list[float]] = field(default_factory=dict)


LIMIT = 'range="-1 0.5" limited="true"'
SERVO = '<position joint="x" kp="16" forcerange="-4 4"/>'
# a ball that rests under 8 N and is pushed by 4 N, at friction 0.5
PRESSED = {"gravity": [0.0, 0.0, -8.0]}
TIES = [
    Tie("touching at rest, v", "that of leaving", "right", slider(), ("v", (1,)), 1),
    Tie(
        "joint at its limit at rest, v",
        "that of leaving",
        "left",
        slider(LIMIT),
        ("v", (0,)),
        0,
        {"q": [0.5, 1.0, 0.0]},
    ),
    Tie(
        "friction at the cone's rim, u",
        "that of sticking",
        "left",
        slider(),
        ("u", (0, 0)),
        0,
        {"u": [4.0]},
        PRESSED,
    ),
    Tie(
        "dry friction at its bound, u",
        "that of moving",
        "right",
        slider('frictionloss="4"', mask=APART),
        ("u", (0, 0)),
        0,
        {"u": [4.0]},
    ),
    Tie(
        "control at its range, u",
        "that of the inside",
        "left",
        slider(actuator='<motor joint="x" ctrlrange="-1 0.5"/>', mask=APART),
        ("u", (0, 0)),
        0,
        {"u": [0.5]},
    ),
    Tie(
        "actuator at its force limit, u",
        "that of the inside",
        "left",
        slider(actuator=SERVO, mask=APART),
        ("u", (0, 0)),
        0,
        {"u": [0.25]},
    ),
    Tie(
        "equal frictions, geom_friction",
        "the mean: each geom has half",
        "mean",
        slider(),
        ("geom_friction", (1, 0)),
        0,
        {"v": [1.0, 0.0, 0.0]},
        PRESSED,
    ),
]


class Step:
    """One step of a tie, as a function of the number that is moved."""

    def __init__(self, tie: Tie) -> None:
        """Load the model and take away the default compliance, which would blur the edges."""
        self.tie = tie
        model = fb.load(tie.xml)
        soft = {k: np.zeros_like(model.params[k]) for k in ("body_invweight0", "dof_invweight0")}
        self.sim = fb.Simulator(model, params=soft)
        zero = {"q": np.zeros(3), "v": np.zeros(3), "u": np.zeros((1, 1))}
        given = {k: np.array(a, np.float64).reshape(zero[k].shape) for k, a in tie.point.items()}
        self.point = {**zero, **given}
        names = {*tie.params, tie.moved[0]} - set(zero)
        self.params = {k: np.array(tie.params.get(k, model.params[k])) for k in names}

    def roll(self, offset: float = 0.0) -> fb.Rollout:
        """Return the step with the number moved."""
        name, index = self.tie.moved
        inputs = {k: a.copy() for k, a in {**self.point, **self.params}.items()}
        inputs[name][index] += offset
        point = [inputs.pop(k) for k in ("q", "v", "u")]
        return self.sim.rollout(*point, params=dict(inputs))

    def slope(self, offset: float) -> float:
        """Return the slope towards an offset."""
        seen = self.tie.seen
        return float(self.roll(offset).v[1, seen] - self.roll().v[1, seen]) / offset

    def gradient(self) -> float:
        """Return what `vjp` says."""
        roll = self.roll()
        bar = np.zeros_like(roll.v)
        bar[1, self.tie.seen] = 1
        found = roll.vjp(v_bar=bar)
        name, index = self.tie.moved
        whole = {"q": found.q, "v": found.v, "u": found.u, **found.params}
        return float(whole[name][index])


@pytest.mark.parametrize("tie", TIES, ids=[tie.name for tie in TIES])
def test_side(tie: Tie) -> None:
    """Return the derivative of the documented side, where the two sides differ."""
    step = Step(tie)
    right, left = step.slope(2.0**-20), step.slope(-(2.0**-20))
    found = step.gradient()
    print(f"{tie.name}: left {left:.6g}, right {right:.6g}, vjp {found:.6g}")
    scale = max(abs(left), abs(right))
    assert abs(right - left) > 0.1 * scale
    expected = {"right": right, "left": left, "mean": 0.5 * (left + right)}[tie.side]
    assert abs(found - expected) <= 1e-6 * scale
    assert f"| {tie.name} | {tie.words} |\n" in DOCS.read_text(encoding="utf-8")
