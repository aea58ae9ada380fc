"""Gradients of motions with closed forms; the table of docs/gradients.md is checked against them.

`python -m tests.physics.test_gradient_zoo` prints that table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import featherback as fb
from tests.physics.helpers import G, floor, scene

PAGE = Path(__file__).parents[2] / "docs" / "gradients.md"
DT = 1e-3
STEPS = (DT, DT / 2)


@dataclass(frozen=True)
class Row:
    """One derivative: what is expected, and what came out at two steps.

    Attributes:
        case: name of the motion.
        label: the derivative.
        exact: value of the closed form.
        found: what vjp returns at dt = 1 ms.
        half: what it returns at half that step.
    """

    case: str
    label: str
    exact: float
    found: float
    half: float

    @property
    def error(self) -> float:
        """Error at dt = 1 ms, relative to the closed form where that is not zero."""
        return abs(self.found - self.exact) / (abs(self.exact) or 1.0)

    def line(self) -> str:
        """Return the row of the page's table."""
        error = f"{self.error:.0e}" if self.error > 1e-12 else "0"
        return (
            f"| {self.case} | {self.label} | {_short(self.exact)} | {_short(self.found)} "
            f"| {error} |"
        )


def _short(x: float) -> str:
    """Return a number with five digits, and zero for what is rounding."""
    return "0" if abs(x) < 1e-11 else f"{x:.5g}"


@dataclass(frozen=True)
class Motion:
    """A motion with closed derivatives of one final coordinate.

    Attributes:
        model: the model.
        seconds: length of the motion [s].
        target: ("q" or "v", index) of the final coordinate.
        q: initial configuration.
        v: initial velocity.
        exact: label -> (input, index, derivative of the target).
        u: control, held.
        params: parameters of the rollout.
    """

    model: fb.Model
    seconds: float
    target: tuple[str, int]
    q: np.ndarray
    v: np.ndarray
    exact: dict[str, tuple[str, Any, float]]
    u: np.ndarray | None = None
    params: dict[str, np.ndarray] | None = None

    def derivatives(self, dt: float) -> dict[str, float]:
        """Return the derivatives of the target by label."""
        sim = fb.Simulator(self.model, dt=dt, tolerance=1e-12)
        names = {name for name, _, _ in self.exact.values()} - {"q", "v", "u"}
        params = {name: np.array(sim.params[name]) for name in names} | (self.params or {})
        steps = round(self.seconds / dt)
        roll = sim.rollout(self.q, self.v, self.u, steps=steps, params=params)
        assert roll.ok
        bars = {"q": np.zeros_like(roll.q), "v": np.zeros_like(roll.v)}
        kind, index = self.target
        bars[kind][-1, index] = 1.0
        g = roll.vjp(bars["q"], bars["v"])
        # a control that is held acts in all steps
        found = {"q": g.q, "v": g.v, "u": g.u.sum(axis=0), **g.params}
        return {label: float(found[name][i]) for label, (name, i, _) in self.exact.items()}


def flying(radius: float = 0.1, *, ground: str = "") -> fb.Model:
    """Return a free ball of 1 kg."""
    ball = f'<body name="ball"><freejoint/><geom size="{radius}" mass="1" friction="0 0 0"/></body>'
    return scene(ground + ball)


def sliding(mu: float, *, motor: bool = False) -> fb.Model:
    """Return a block of 2 kg that slides in x and z on the floor, which has no friction itself."""
    block = (
        '<body pos="0 0 0.1"><joint name="x" type="slide" axis="1 0 0"/>'
        '<joint type="slide" axis="0 0 1"/>'
        f'<geom type="box" size="0.2 0.1 0.1" mass="2" friction="{mu} 0 0"/></body>'
    )
    act = '<actuator><motor joint="x"/></actuator>' if motor else ""
    return scene(floor(0.0) + block, after=act)


def free_fall() -> Motion:
    """Fall freely: z = z0 + v0 T - g T^2 / 2."""
    T, q = 0.5, np.array([0, 0, 5.0, 1, 0, 0, 0])
    exact = {
        "dz/dz0": ("q", 2, 1.0),
        "dz/dv0": ("v", 2, T),
        "dz/dg_z": ("gravity", 2, T**2 / 2),
        "dz/dm": ("body_mass", 1, 0.0),
    }
    return Motion(flying(), T, ("q", 2), q, np.zeros(6), exact)


def projectile() -> Motion:
    """Throw a ball that spins: x = x0 + vx T, whatever the spin."""
    T, q = 0.5, np.array([0, 0, 5.0, 1, 0, 0, 0])
    exact = {
        "dx/dx0": ("q", 0, 1.0),
        "dx/dv_x": ("v", 0, T),
        "dx/dv_z": ("v", 2, 0.0),
        "dx/dspin": ("v", 4, 0.0),
    }
    return Motion(flying(), T, ("q", 0), q, np.array([3.0, 0, 4, 1, 2, 3]), exact)


def pendulum() -> Motion:
    """Swing little: a = a0 cos(w T) with w^2 = g / L."""
    T, L, a0 = 0.5, 0.5, 1e-4
    model = scene(
        '<body><joint axis="0 1 0"/><inertial pos="0 0 -0.5" mass="1" '
        'diaginertia="1e-9 1e-9 1e-9"/></body>'
    )
    w = np.sqrt(G / L)
    exact = {
        "da/da0": ("q", 0, np.cos(w * T)),
        "da/dw0": ("v", 0, np.sin(w * T) / w),
        "da/dg_z": ("gravity", 2, a0 * T * np.sin(w * T) * w / (2 * G)),
        "da/dL": ("body_ipos", (1, 2), -a0 * T * np.sin(w * T) * w / (2 * L)),
    }
    return Motion(model, T, ("q", 0), np.array([a0]), np.zeros(1), exact)


def slide_to_stop() -> Motion:
    """Slide and stop: x = v^2 / (2 mu g)."""
    mu, v = 0.3, 1.5
    exact = {
        "dx/dmu": ("geom_friction", (1, 0), -(v**2) / (2 * mu**2 * G)),
        "dx/dv0": ("v", 0, v / (mu * G)),
        "dx/dg_z": ("gravity", 2, v**2 / (2 * mu * G**2)),
        "dx/dm": ("body_mass", 1, 0.0),
    }
    return Motion(sliding(mu), 1.0, ("q", 0), np.zeros(2), np.array([v, 0.0]), exact)


def stick_on_incline() -> Motion:
    """Stick on an incline below the angle of friction: x stays."""
    tilt = {"gravity": G * np.array([np.sin(0.2), 0, -np.cos(0.2)])}
    exact = {
        "dx/dx0": ("q", 0, 1.0),
        "dx/dmu": ("geom_friction", (1, 0), 0.0),
        "dx/dg_x": ("gravity", 0, 0.0),
    }
    return Motion(sliding(0.5), 0.5, ("q", 0), np.zeros(2), np.zeros(2), exact, params=tilt)


def push_a_box() -> Motion:
    """Push against friction: x = (F / m - mu g) T^2 / 2."""
    T, mu, F, m = 0.5, 0.3, 12.0, 2.0
    exact = {
        "dx/dF": ("u", 0, T**2 / (2 * m)),
        "dx/dmu": ("geom_friction", (1, 0), -G * T**2 / 2),
        "dx/dm": ("body_mass", 1, -F * T**2 / (2 * m**2)),
    }
    model = sliding(mu, motor=True)
    return Motion(model, T, ("q", 0), np.zeros(2), np.zeros(2), exact, u=np.array([F]))


def rolling(target: tuple[str, int], exact: dict[str, tuple[str, Any, float]]) -> Motion:
    """Slide, then roll: v = 5/7 v0 and x = 5/7 v0 T + 2 v0^2 / (49 mu g)."""
    model = scene(
        floor(0.0)
        + '<body pos="0 0 0.1"><freejoint/><geom size="0.1" mass="1" friction="0.2 0 0"/></body>'
    )
    return Motion(model, 1.0, target, model.q0, np.array([1.4, 0, 0, 0, 0, 0]), exact)


def rolling_position() -> Motion:
    """Where a ball is that slid and rolls."""
    mu, v, T = 0.2, 1.4, 1.0
    exact = {
        "dx/dv0": ("v", 0, 5 / 7 * T + 4 * v / (49 * mu * G)),
        "dx/dmu": ("geom_friction", (1, 0), -2 * v**2 / (49 * mu**2 * G)),
    }
    return rolling(("q", 0), exact)


def rolling_speed() -> Motion:
    """How fast a ball is that slid and rolls."""
    exact = {
        "dv/dv0": ("v", 0, 5 / 7),
        "dv/dmu": ("geom_friction", (1, 0), 0.0),
    }
    return rolling(("v", 0), exact)


def two_balls(e: float, target: tuple[str, int], exact: Any) -> Motion:
    """Hit an equal ball at rest, in the middle, without gravity."""
    model = scene(
        '<body><freejoint/><geom size="0.1" mass="1"/></body>'
        '<body><freejoint/><geom size="0.1" mass="1"/></body>'
    )
    q = np.concatenate([[0.0, 0, 0, 1, 0, 0, 0], [0.5003, 0, 0, 1, 0, 0, 0]])
    v = np.zeros(12)
    v[0] = 1.0
    params = {"gravity": np.zeros(3), "geom_restitution": np.full(2, e)}
    return Motion(model, 1.0, target, q, v, exact, params=params)


def elastic_position() -> Motion:
    """Where the ball is that was hit: x2 = x1 + 2 r + v1 T with e = 1."""
    exact = {"dx2/dx1": ("q", 0, 1.0), "dx2/dx2": ("q", 7, 0.0)}
    return two_balls(1.0, ("q", 7), exact)


def elastic_speed() -> Motion:
    """How fast the ball is that was hit: v2 = v1 with e = 1."""
    exact = {"dv2/dv1": ("v", 0, 1.0), "dv2/dv2": ("v", 6, 0.0)}
    return two_balls(1.0, ("v", 6), exact)


def inelastic_position() -> Motion:
    """Where the ball is that was hit, with e = 0: both go on together with the mean velocity."""
    # x2 + (v1 + v2) (T - t) / 2 + v2 t with t = (x2 - x1 - 2 r) / (v1 - v2)
    T, t = 1.0, 0.3003
    exact = {
        "dx2/dx1": ("q", 0, 0.5),
        "dx2/dx2": ("q", 7, 0.5),
        "dx2/dv1": ("v", 0, (T - t) / 2 + t / 2),
    }
    return two_balls(0.0, ("q", 7), exact)


def bounce(e: float) -> Motion:
    """Bounce off the floor: z = r + e (v T - (z0 - r)) without gravity; z = r with e = 0."""
    T, v = 1.0, 1.0
    q = np.array([0, 0, 0.4003, 1, 0, 0, 0])
    t = (q[2] - 0.1) / v
    exact = {
        "dz/dz0": ("q", 2, -e + 0.0),
        "dz/dv0": ("v", 2, -e * T),
        "dz/de": ("geom_restitution", 1, v * (T - t)),
    }
    if e == 0:
        del exact["dz/de"]
    # gravity keeps a ball down that does not bounce
    gravity = np.array([0, 0, 0.0 if e else -G])
    params = {"gravity": gravity, "geom_restitution": np.array([0.0, e])}
    down = np.array([0, 0, -v, 0, 0, 0.0])
    return Motion(flying(ground=floor(0.0)), T, ("q", 2), q, down, exact, None, params)


def bounces(e: float, count: int, seconds: float) -> Motion:
    """Fall and bounce `count` times.

    With the speed s of the first hit and its moment t1, z = r + e^n s t - g t^2 / 2 with
    t = T - t1 - 2 s (e + ... + e^(n-1)) / g.
    """
    v = 0.3
    q = np.array([0, 0, 0.6003, 1, 0, 0, 0])
    s = np.sqrt(v**2 + 2 * G * (q[2] - 0.1))
    powers = sum(e**k for k in range(1, count))
    t = seconds - (v + s) / G - 2 * s * powers / G
    # no bounce is left out, and none comes after
    assert 0 < t < 2 * e**count * s / G
    by_t = e**count * s - G * t
    by_s = e**count * t - by_t * (1 + 2 * powers) / G
    slope = sum(k * e ** (k - 1) for k in range(1, count))
    exact = {
        "dz/dz0": ("q", 2, by_s * G / s),
        "dz/dv0": ("v", 2, by_s * v / s - by_t / G),
        "dz/de": (
            "geom_restitution",
            1,
            count * e ** (count - 1) * s * t - by_t * 2 * s * slope / G,
        ),
    }
    params = {"geom_restitution": np.array([0.0, e])}
    up = np.array([0, 0, v, 0, 0, 0.0])
    return Motion(flying(ground=floor(0.0)), seconds, ("q", 2), q, up, exact, None, params)


def wall(target: tuple[str, int], exact: Any, e: float) -> Motion:
    """Throw a ball at a wall, along it and against it, without gravity and friction."""
    plane = (
        '<geom type="plane" size="0 0 1" pos="1 0 0" quat="0.70710678118654757 0 '
        '-0.70710678118654757 0" friction="0 0 0"/>'
    )
    params = {"gravity": np.zeros(3), "geom_restitution": np.array([0.0, e])}
    q, v = np.array([0, 0, 0, 1.0, 0, 0, 0]), np.array([2.0003, 0.7, 0, 0, 0, 0])
    return Motion(flying(ground=plane), 1.0, target, q, v, exact, None, params)


def wall_along() -> Motion:
    """Along the wall nothing happens: y = y0 + vy T."""
    exact = {"dy/dy0": ("q", 1, 1.0), "dy/dv_y": ("v", 1, 1.0), "dy/dv_x": ("v", 0, 0.0)}
    return wall(("q", 1), exact, 0.8)


def wall_against() -> Motion:
    """Against the wall: x = a - e (x0 + vx T - a), a = 0.9."""
    exact = {"dx/dx0": ("q", 0, -0.8), "dx/dv_x": ("v", 0, -0.8)}
    return wall(("q", 0), exact, 0.8)


def wall_speed() -> Motion:
    """Velocity after the wall: -e vx."""
    return wall(("v", 0), {"dv/dv_x": ("v", 0, -0.8), "dv/dx0": ("q", 0, 0.0)}, 0.8)


def wall_stop() -> Motion:
    """Stop at the wall with e = 0: x = a."""
    return wall(("q", 0), {"dx/dx0": ("q", 0, 0.0), "dx/dv_x": ("v", 0, 0.0)}, 0.0)


ZOO: dict[str, Callable[[], Motion]] = {
    "free fall": free_fall,
    "projectile": projectile,
    "pendulum": pendulum,
    "slide to stop": slide_to_stop,
    "stick on an incline": stick_on_incline,
    "push of a box": push_a_box,
    "rolling ball, position": rolling_position,
    "rolling ball, speed": rolling_speed,
    "two balls, e = 0": inelastic_position,
    "two balls, e = 1, position": elastic_position,
    "two balls, e = 1, speed": elastic_speed,
    "floor, e = 0": lambda: bounce(0.0),
    "floor, e = 0.8": lambda: bounce(0.8),
    "floor with gravity, one bounce, e = 0.8": lambda: bounces(0.8, 1, 0.6),
    "floor with gravity, four bounces, e = 0.9": lambda: bounces(0.9, 4, 2.2),
    "wall, along it": wall_along,
    "wall, e = 0": wall_stop,
    "wall, e = 0.8, position": wall_against,
    "wall, e = 0.8, speed": wall_speed,
}


@cache
def rows() -> tuple[Row, ...]:
    """Return all derivatives of the zoo."""
    out: list[Row] = []
    for case, build in ZOO.items():
        motion = build()
        at = [motion.derivatives(dt) for dt in STEPS]
        for label, (_, _, exact) in motion.exact.items():
            found, half = (derivatives[label] for derivatives in at)
            out.append(Row(case, label, exact, found, half))
    return tuple(out)


def test_smooth_and_sliding_motions() -> None:
    """Agree with the closed forms to 0.5 %, and better by a third with half the step."""
    for row in rows():
        if re.match("two balls|wall|floor", row.case):
            continue
        print(row)
        assert row.error <= 5e-3
        assert abs(row.half - row.exact) <= 0.67 * abs(row.found - row.exact) + 1e-9


def test_hits() -> None:
    """Agree after hits with the closed forms.

    What is left without restitution is the compliance of a contact, a share of 1e-6 of the velocity
    in each step, over the time after the hit: at most 1.4e-6 / h. With restitution and gravity the
    step is of first order, with a factor that depends on where in a step the hits fall.
    """
    for row in rows():
        if not re.match("two balls|wall|floor", row.case):
            continue
        print(row)
        if "gravity" in row.case:
            assert abs(row.found - row.exact) <= 20 * DT * max(abs(row.exact), 0.1)
            assert abs(row.half - row.exact) <= 10 * DT * max(abs(row.exact), 0.1)
        else:
            assert abs(row.found - row.exact) <= 2e-3


def test_values_after_hits() -> None:
    """Reach the position that the closed form of each hit gives, to one step's travel."""
    for name, position in {
        "two balls, e = 1, position": 0.2 + 1.0,
        "floor, e = 0.8": 0.1 + 0.8 * (1.0 - 0.3003),
        "wall, e = 0.8, position": 0.9 - 0.8 * (2.0003 - 0.9),
        "wall, e = 0": 0.9,
        "floor, e = 0": 0.1,
    }.items():
        motion = ZOO[name]()
        sim = fb.Simulator(motion.model, dt=DT, params=motion.params)
        roll = sim.rollout(motion.q, motion.v, steps=round(motion.seconds / DT))
        speed = float(np.abs(motion.v).max())
        print(name, roll.q[-1, motion.target[1]], position)
        assert abs(roll.q[-1, motion.target[1]] - position) <= 2 * speed * DT


def test_the_page_shows_what_is_returned() -> None:
    """Hold the table of docs/gradients.md against what vjp returns."""
    page = [
        [cell.strip(" *") for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.count("|") == 6 and "dt = 1 ms" not in line and "---" not in line
    ]
    print("\n".join(row.line() for row in rows()))
    assert [tuple(cells[:2]) for cells in page] == [(row.case, row.label) for row in rows()]
    for cells, row in zip(page, rows(), strict=True):
        assert float(cells[2]) == pytest.approx(row.exact, rel=1e-3, abs=1e-9)
        assert float(cells[3]) == pytest.approx(row.found, rel=1e-3, abs=1e-6)


if __name__ == "__main__":
    print("\n".join(row.line() for row in rows()))
