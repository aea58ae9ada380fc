"""Log-Cholesky inertias: every theta is a body, there and back, and gradients through a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback import inertia
from featherback.errors import ParameterError, ShapeError
from featherback.sim.differences import slopes, stencil


def full(values: dict[str, np.ndarray]) -> np.ndarray:
    """Return the inertia matrices (..., 3, 3) of bodies whose frame is that of the body."""
    (xx, yy, zz), (xy, xz, yz) = (
        np.moveaxis(values[k], -1, 0) for k in ("body_inertia", "body_inertia_products")
    )
    rows = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def test_every_theta_is_a_body() -> None:
    """Give a mass > 0 and moments within the triangle inequalities for any ten numbers."""
    print("seed 0")
    theta = np.random.default_rng(0).normal(size=(20000, 10)) * [1, *[2] * 3, *[3] * 3, *[5] * 3]
    values = inertia.from_log_cholesky(theta)
    moments = np.linalg.eigvalsh(full(values))
    assert np.all(values["body_mass"] > 0)
    # the smallest second moment may lie below the rounding of the largest
    slack = moments[:, 0] + moments[:, 1] - moments[:, 2]
    assert np.all(slack >= -1e-14 * moments[:, 2])
    assert np.mean(slack > 0) > 0.99
    np.testing.assert_array_equal(values["body_ipos"], theta[:, 7:])
    np.testing.assert_array_equal(values["body_iquat"], np.tile([1.0, 0, 0, 0], (20000, 1)))


def test_there_and_back() -> None:
    """Return to theta and to the body within 1e-12, one at a time and in batches."""
    print("seed 1")
    theta = np.random.default_rng(1).normal(size=(4, 50, 10)) * 0.5
    values = inertia.from_log_cholesky(theta)
    back = inertia.to_log_cholesky(values["body_mass"], values["body_ipos"], full(values))
    np.testing.assert_allclose(back, theta, atol=1e-12)
    one = inertia.to_log_cholesky(
        values["body_mass"][1, 2], values["body_ipos"][1, 2], full(values)[1, 2]
    )
    np.testing.assert_array_equal(one, back[1, 2])
    again = inertia.from_log_cholesky(back)
    for name, value in values.items():
        assert again[name].shape == value.shape
        np.testing.assert_allclose(again[name], value, rtol=1e-12, atol=1e-12)


def test_bodies_of_a_model_keep_their_dynamics() -> None:
    """Leave the joint inertia and bias of a Laikago as they are."""
    model = fb.models.laikago()
    p = model.params
    theta = inertia.to_log_cholesky(
        p["body_mass"][1:], p["body_ipos"][1:], p["body_inertia"][1:], p["body_iquat"][1:]
    )
    params: Any = {k: p[k].copy() for k in inertia.from_log_cholesky(theta)}
    for name, value in inertia.from_log_cholesky(theta).items():
        params[name][1:] = value
    sim, q = fb.Simulator(model), model.keyframe("stand")[0]
    v = np.linspace(-1, 1, model.nv)
    for call in (
        lambda **k: sim.mass_matrix(q, **k),
        lambda **k: sim.bias(q, v, **k),
        lambda **k: sim.center_of_mass(q, **k),
    ):
        np.testing.assert_allclose(call(params=params), call(), rtol=1e-11, atol=1e-11)


def test_vjp_matches_differences() -> None:
    """Agree with differences of a loss on all five values."""
    print("seed 2")
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(3, 10)) * 0.5
    values = inertia.from_log_cholesky(theta)
    bars = {name: rng.normal(size=value.shape) for name, value in values.items()}
    found = inertia.from_log_cholesky_vjp(theta, bars)
    for _ in range(10):
        along = rng.normal(size=theta.shape)
        losses = []
        for step in stencil():
            there = inertia.from_log_cholesky(theta + step * along)
            losses.append(sum(float(((there[k] - values[k]) * bars[k]).sum()) for k in values))
        slope = slopes(np.array([losses])).value[0]
        assert abs(slope - (found * along).sum()) <= 1e-9 * np.abs(found).max()
    np.testing.assert_array_equal(inertia.from_log_cholesky_vjp(theta, {}), np.zeros((3, 10)))


TOP = """<mujoco model="top"><option timestep="0.002"/><worldbody>
<geom type="plane" size="0 0 1" friction="0.5"/>
<body pos="0 0 0.0999"><freejoint/><geom type="sphere" size="0.1" mass="1"/>
<body pos="0.05 0 0.2"><joint axis="0 1 0.3" damping="0.1"/>
<inertial pos="0.02 0.01 0.05" mass="0.4" diaginertia="0.002 0.003 0.0025"/></body></body>
</worldbody></mujoco>"""


@pytest.mark.parametrize("kind", ["ball", "two equal", "any"])
def test_gradient_through_a_rollout(kind: str) -> None:
    """Agree with differences through contact, also where two or three principal moments meet."""
    print("seed 3")
    rng = np.random.default_rng(3)
    model = fb.load(TOP)
    sim = fb.Simulator(model, tolerance=1e-12)
    bodies = [1, 2]
    moments = {
        "ball": [0.004] * 3,
        "two equal": [0.004, 0.004, 0.006],
        "any": [0.003, 0.004, 0.005],
    }
    theta = inertia.to_log_cholesky(
        [1.0, 0.4], [[0, 0, 0.01], [0.02, 0.01, 0.05]], [np.diag(moments[kind])] * 2
    )
    v = rng.normal(size=model.nv) * 0.5

    def params_of(x: np.ndarray) -> Any:
        values = inertia.from_log_cholesky(x)
        lead = x.shape[:-2]
        base = {k: np.broadcast_to(sim.params[k], (*lead, *sim.params[k].shape)) for k in values}
        params = {k: a.copy() for k, a in base.items()}
        for name, value in values.items():
            np.moveaxis(params[name], len(lead), 0)[bodies] = np.moveaxis(value, len(lead), 0)
        return params

    roll = sim.rollout(model.q0, v, steps=30, params=params_of(theta))
    q_bar, v_bar = rng.normal(size=roll.q.shape), rng.normal(size=roll.v.shape)
    gradient = roll.vjp(q_bar, v_bar).params
    found = inertia.from_log_cholesky_vjp(theta, {k: g[bodies] for k, g in gradient.items()})
    assert np.all(np.isfinite(found))
    steps = stencil()
    for _ in range(6):
        along = rng.normal(size=theta.shape) * 0.3
        moved = theta + steps[:, None, None] * along
        many = sim.rollout(np.tile(model.q0, (len(steps), 1)), v, steps=30, params=params_of(moved))
        loss = ((many.q - roll.q) * q_bar).sum(axis=(1, 2))
        loss += ((many.v - roll.v) * v_bar).sum(axis=(1, 2))
        slope = slopes(loss[None]).value[0]
        assert abs(slope - (found * along).sum()) <= 1e-6 * np.abs(found).max()


def test_rod_and_plate_off_their_edges() -> None:
    """Take bodies that are all but a rod or a plate."""
    for moments in ([1.0, 1.0, 1e-9], [0.5, 0.5, 1 - 1e-9]):
        theta = inertia.to_log_cholesky(2.0, [0.0, 0, 0], moments, [1.0, 0.2, 0.1, 0])
        found = np.linalg.eigvalsh(full(inertia.from_log_cholesky(theta)))
        np.testing.assert_allclose(found, sorted(moments), rtol=1e-6, atol=1e-12)


Call = Callable[[], Any]
ZERO = np.zeros(3)
REFUSED: list[tuple[Call, type[Exception], str]] = [
    (
        lambda: inertia.to_log_cholesky(0.0, ZERO, np.eye(3)),
        ParameterError,
        "to_log_cholesky(): mass holds 0 kg; it must be > 0.",
    ),
    (
        lambda: inertia.to_log_cholesky(1.0, ZERO, np.diag([1.0, 1.0, 3.0])),
        ParameterError,
        "to_log_cholesky(): inertia lies on or beyond the triangle inequality, I1 + I2 > I3, so "
        "that no body with an extent along all its axes has it; give such a body.",
    ),
    (
        lambda: inertia.to_log_cholesky(1.0, ZERO, np.arange(9.0).reshape(3, 3)),
        ParameterError,
        "to_log_cholesky(): inertia is not symmetric; give a symmetric matrix.",
    ),
    (
        lambda: inertia.to_log_cholesky(1.0, np.zeros(2), np.eye(3)),
        ShapeError,
        "to_log_cholesky(): com has shape (2,); expected (..., 3).",
    ),
    (
        lambda: inertia.to_log_cholesky(np.ones(2), np.zeros((3, 3)), np.eye(3)),
        ShapeError,
        "to_log_cholesky(): mass, com and inertia have the leading shapes (2,), (3,) and (); they "
        "must broadcast to one.",
    ),
    (
        lambda: inertia.to_log_cholesky(1.0, ZERO, np.ones(3), np.zeros(4)),
        ParameterError,
        "to_log_cholesky(): quat holds a zero; a quaternion must have a length > 0.",
    ),
    (
        lambda: inertia.from_log_cholesky(np.full(10, np.nan)),
        ParameterError,
        "from_log_cholesky(): theta holds a NaN or infinity; give finite numbers.",
    ),
    (
        lambda: inertia.from_log_cholesky(np.full(10, 1e4)),
        ParameterError,
        "from_log_cholesky(): theta gives a mass or an inertia that overflows; give smaller "
        "logarithms.",
    ),
    (
        lambda: inertia.from_log_cholesky("ten"),
        ShapeError,
        "from_log_cholesky(): theta is not an array of real numbers; give one.",
    ),
    (
        lambda: inertia.from_log_cholesky([[1.0], [1.0, 2.0]]),
        ShapeError,
        "from_log_cholesky(): theta is not an array of real numbers; give one.",
    ),
    (
        lambda: inertia.from_log_cholesky_vjp(np.zeros(10), {"mass": 1.0}),
        ParameterError,
        'from_log_cholesky_vjp(): unknown name "mass" in bars; known: body_mass, body_ipos, '
        "body_inertia, body_inertia_products, body_iquat.",
    ),
    (
        lambda: inertia.from_log_cholesky_vjp(np.zeros((2, 10)), {"body_ipos": ZERO}),
        ShapeError,
        'from_log_cholesky_vjp(): bars["body_ipos"] has shape (3,); expected (2, 3).',
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case: int) -> None:
    """Refuse with one sentence."""
    call, kind, message = REFUSED[case]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == message


CARTPOLE = fb.models.cartpole()
Z = np.zeros(2)


@pytest.mark.parametrize("worlds", ["none", "products", "moments"])
def test_indefinite_inertias_are_refused(worlds: str) -> None:
    """Refuse a matrix of inertia that no body has, by body, world and eigenvalue."""
    sim = fb.Simulator(CARTPOLE)
    moments, products = CARTPOLE.params["body_inertia"].copy(), np.zeros((3, 3))
    moments[2] = (0.3, 0.4, 0.5)
    products[2] = (0.0, 0.0, 0.6)
    least, place = np.linalg.eigvalsh(np.array([[0.3, 0, 0], [0, 0.4, 0.6], [0, 0.6, 0.5]]))[0], ""
    if worlds == "products":
        products = np.stack([0 * products, products])
        place = " of world 1"
    if worlds == "moments":
        moments = np.stack([moments + 9, moments, moments])
        place = " of world 1"
    params = {"body_inertia": moments, "body_inertia_products": products}
    count = max(len(x) if x.ndim == 3 else 1 for x in params.values())
    q = np.zeros((count, 2)) if place else Z
    message = (
        'params["body_inertia"][2] and params["body_inertia_products"][2] give body "pole"'
        f"{place} an inertia with the eigenvalue {least:g} kg·m²; all must be >= 0."
    )
    calls: dict[str, Call] = {
        "step()": lambda: sim.step(q, Z, params=params),
        "rollout()": lambda: sim.rollout(q, Z, steps=1, params=params),
    }
    if not place:
        calls["Simulator()"] = lambda: fb.Simulator(CARTPOLE, params=params)
    for where, call in calls.items():
        with pytest.raises(ParameterError) as caught:
            call()
        assert str(caught.value) == f"{where}: {message}"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inertias_of_rods_are_taken(dtype: Any) -> None:
    """Take a matrix whose least eigenvalue is zero, to the rounding of its numbers."""
    sim = fb.Simulator(CARTPOLE)
    seed = 8
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    below = 0
    for _ in range(200):
        rod = rng.normal(size=3) * 10 ** rng.uniform(-3, 3)
        matrix = (rod @ rod * np.eye(3) - np.outer(rod, rod)).astype(dtype)
        moments, products = CARTPOLE.params["body_inertia"].copy(), np.zeros((3, 3), dtype)
        moments[2], products[2] = np.diag(matrix), matrix[[0, 0, 1], [1, 2, 2]]
        below += np.linalg.eigvalsh(matrix.astype(float))[0] < 0
        params = {"body_inertia": moments.astype(dtype), "body_inertia_products": products}
        sim.step(Z, Z, params=params)
    assert below > 20
