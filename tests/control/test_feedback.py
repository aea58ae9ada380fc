"""iLQR, multiple shooting and receding horizons, against known answers."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.control import (
    RecedingHorizon,
    ilqr,
    multiple_shooting,
    optimize,
    run_closed_loop,
    tracking,
)
from featherback.errors import OptimizationError
from featherback.model.manifold import difference
from tests.control.helpers import push, swing
from tests.golden.sentences import refused

pytest.importorskip("scipy")

SLIDER = """<mujoco><option gravity="0 0 0" timestep="0.1"/><worldbody>
<body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="2"/></body></worldbody>
<actuator><motor joint="x"/></actuator></mujoco>"""


def riccati(A: np.ndarray, B: np.ndarray, running: float, effort: float, steps: int) -> np.ndarray:
    """Return the gains of the linear-quadratic regulator, by its recursion."""
    V = 1e1 * np.eye(2)
    gains = np.zeros((steps, 1, 2))
    for t in range(steps - 1, -1, -1):
        gains[t] = -np.linalg.solve(effort * np.eye(1) + B.T @ V @ B, B.T @ V @ A)
        V = running * np.eye(2) + A.T @ V @ (A + B @ gains[t])
    return gains


def test_difference_is_mujocos() -> None:
    """Agree with mj_differentiatePos on free, ball, hinge and slide joints."""
    print("seed 1")
    rng = np.random.default_rng(1)
    model = fb.load(
        """<mujoco><worldbody><body><freejoint/><geom size="0.1"/><body><joint type="ball"/>
        <geom size="0.1"/><body><joint axis="1 0 0"/><geom size="0.1"/><body>
        <joint type="slide"/><geom size="0.1"/></body></body></body></body></worldbody></mujoco>"""
    )
    start, end = rng.standard_normal((2, 40, model.nq))
    for quaternion in (slice(3, 7), slice(7, 11)):
        for q in (start, end):
            q[:, quaternion] /= np.linalg.norm(q[:, quaternion], axis=1, keepdims=True)
    found = difference(model, start, end)
    wanted = np.zeros(model.nv)
    for row, (a, b) in enumerate(zip(start, end, strict=True)):
        mujoco.mj_differentiatePos(model.mujoco, wanted, 1.0, a, b)
        assert np.abs(found[row] - wanted).max() < 1e-13


def test_ilqr_solves_a_linear_problem_in_one_step() -> None:
    """Find the gains of the Riccati recursion and the minimum at once, where all is linear.

    The step of a mass m on a slide is v+ = v + h u / m, x+ = x + h v+.
    """
    model = fb.load(SLIDER)
    sim = fb.Simulator(model)
    h, m, steps = 0.1, 2.0, 30
    A, B = np.array([[1.0, h], [0.0, 1.0]]), np.array([[h * h / m], [h / m]])
    cost = tracking(model, [0.0], running=0.5, effort=0.2, final=10.0)
    policy = ilqr(sim, [1.0], [0.0], np.zeros((steps, 1)), cost)
    gains = riccati(A, B, 0.5, 0.2, steps)
    x, total = np.array([1.0, 0.0]), 0.0
    for t in range(steps):
        u = gains[t] @ x
        total += 0.5 * (0.5 * x @ x + 0.2 * u @ u)
        assert np.abs(policy.u[t] - u).max() < 1e-5
        x = A @ x + B @ u
    total += 0.5 * 10.0 * x @ x
    assert np.abs(policy.gains - gains).max() < 1e-5
    assert policy.cost == pytest.approx(total, rel=1e-8)
    assert policy.costs[1] == pytest.approx(total, rel=1e-6)
    assert policy.converged


def test_ilqr_within_limits_is_the_bounded_minimum() -> None:
    """Agree with a bounded minimization of the same cost where the limits act."""
    from scipy.optimize import lsq_linear

    model = fb.load(SLIDER)
    steps, limit = 20, 0.6
    h, m = 0.1, 2.0
    cost = tracking(model, [0.0], running=0.5, effort=0.2, final=10.0)
    policy = ilqr(
        fb.Simulator(model), [1.0], [0.0], np.zeros((steps, 1)), cost, lower=-limit, upper=limit
    )
    # the cost as squares of a linear function of all controls
    A, B = np.array([[1.0, h], [0.0, 1.0]]), np.array([[h * h / m], [h / m]])
    state, way = np.array([1.0, 0.0]), np.zeros((2, steps))
    rows, shift = [], []
    for t in range(steps + 1):
        weight = np.sqrt(10.0 if t == steps else 0.5)
        rows.append(weight * way)
        shift.append(-weight * state)
        if t < steps:
            step = np.zeros((2, steps))
            step[:, t] = B[:, 0]
            state, way = A @ state, A @ way + step
    rows.append(np.sqrt(0.2) * np.eye(steps))
    shift.append(np.zeros(steps))
    bounded = lsq_linear(np.concatenate(rows), np.concatenate(shift), (-limit, limit), tol=1e-14)
    assert np.abs(policy.u).max() == limit
    assert np.count_nonzero(np.abs(policy.u) == limit) >= 3
    assert np.abs(policy.u[:, 0] - bounded.x).max() < 1e-4
    assert policy.cost == pytest.approx(bounded.cost, rel=1e-6)


def test_ilqr_swings_a_pole_up_within_its_limits() -> None:
    """Bring a cart-pole from hanging to upright with at most 10 N."""
    print("seed 0")
    model = fb.models.cartpole()
    sim = fb.Simulator(model, dt=0.02)
    q, v = model.keyframe("hanging")
    cost = tracking(
        model,
        model.keyframe("upright")[0],
        running=[0.01, 0.01, 0.001, 0.001],
        effort=1e-3,
        final=[100, 100, 10, 10],
    )
    guess = 0.1 * np.random.default_rng(0).standard_normal((150, 1))
    policy = ilqr(sim, q, v, guess, cost, max_iterations=200)
    roll = sim.rollout(q, v, policy.u)
    assert np.abs(roll.q[-1]).max() < 0.02
    assert np.abs(roll.v[-1]).max() < 0.05
    assert np.abs(policy.u).max() <= 10.0
    assert np.all(np.diff(policy.costs) < 0.0)


def test_ilqr_moves_a_robot_with_contacts() -> None:
    """Lower a standing Laikago, whose feet stay on the floor, by 3 cm."""
    model = fb.models.laikago()
    sim = fb.Simulator(model)
    q, v = (np.array(part) for part in model.keyframe("stand"))
    goal = q.copy()
    goal[2] -= 0.03
    weights = np.zeros(2 * model.nv)
    weights[:6] = 1.0
    cost = tracking(model, goal, u=q[7:], running=weights, effort=1e-3, final=100.0 * weights)
    policy = ilqr(sim, q, v, np.tile(q[7:], (60, 1)), cost, max_iterations=15)
    assert policy.cost < 0.25 * policy.costs[0]
    assert abs(policy.q[-1, 2] - goal[2]) < 0.01


def test_ilqr_pushes_a_box_that_sticks() -> None:
    """Find a push that breaks a box loose, from none: only a smooth law has a slope there."""
    text = """<mujoco><option timestep="0.01"/><worldbody>
    <geom type="plane" size="0 0 1" friction="0.4 0 0"/><body pos="0 0 0.1">
    <joint name="x" type="slide" axis="1 0 0"/><joint type="slide" axis="0 0 1"/>
    <geom type="box" size="0.1 0.1 0.1" mass="1"/></body></worldbody>
    <actuator><motor joint="x"/></actuator></mujoco>"""
    model = fb.load(text)
    goal = np.array([0.2, 0.0])
    cost = tracking(model, goal, effort=1e-5, final=np.array([10.0, 0.0, 0.1, 0.0]))
    start, still = model.q0, np.zeros(model.nv)
    reached = []
    for smoothing in (0.0, 0.05):
        sim = fb.Simulator(model, smoothing=smoothing)
        policy = ilqr(sim, start, still, np.zeros((50, 1)), cost, max_iterations=60)
        reached.append(policy.q[-1, 0])
    assert abs(reached[0]) < 1e-6
    assert abs(reached[1] - 0.2) < 0.02


def test_a_receding_horizon_balances_another_robot_than_its_own() -> None:
    """Hold a pole upright on a cart that is a tenth heavier than the controller believes."""
    model = fb.models.cartpole()
    cost = tracking(model, [0.0, 0.0], running=[0.1, 1.0, 0.01, 0.01], effort=1e-3, final=50.0)
    controller = RecedingHorizon(fb.Simulator(model, dt=0.02), cost, np.zeros((60, 1)))
    heavy = {"body_mass": model.params["body_mass"] * np.array([1.0, 1.1, 0.9])}
    plant = fb.Simulator(model, dt=0.01, params=heavy)
    motion = run_closed_loop(controller, plant, [0.2, 0.2], [0.0, 0.0], 300, every=2)
    assert np.abs(motion.q[-1]).max() < 0.02
    assert np.abs(motion.u).max() <= 10.0
    assert np.array_equal(motion.u[0::2], motion.u[1::2])
    assert controller.plan is not None
    # without control the pole falls
    fallen = plant.rollout([0.2, 0.2], [0.0, 0.0], steps=300)
    assert abs(fallen.q[-1, 1]) > 1.0


def test_multiple_shooting_ends_at_a_cost_of_zero() -> None:
    """End where a problem is solved to rounding, though its cost still changes."""
    found = multiple_shooting(push(dynamics=""), 4)
    assert found.cost < 1e-20 and found.rounds < 5


def test_multiple_shooting_agrees_with_single_shooting() -> None:
    """Close the gaps and come to the cost that single shooting finds."""
    problem = swing(steps=120, hold=4, effort=0.05)
    single = optimize(problem, max_evaluations=400)
    cut = multiple_shooting(problem, 6, tolerance=1e-6)
    assert cut.gap <= 1e-6
    assert cut.cost == pytest.approx(single.cost, rel=0.01)
    assert cut.rollout_cost == pytest.approx(cut.cost, rel=1e-2)
    roll = problem.rollout(cut.x)
    assert np.abs(roll.q - cut.q).max() < 1e-4
    assert np.array_equal(roll.u, cut.u)


def test_gaps_that_do_not_close_raise() -> None:
    """Raise with the gap that is left where the maximum of rounds is reached."""
    problem = swing(steps=120)
    options = {"max_rounds": 1, "max_evaluations": 2, "tolerance": 1e-12}
    refused(
        lambda: multiple_shooting(problem, 6, **options),
        OptimizationError,
        "multiple_shooting(): after 1 rounds a gap of ",
        "tolerance 1e-12",
    )


def test_a_plan_that_explodes_names_the_step() -> None:
    """Name the step of the plant at which no plan could be made, and keep what was run."""
    model = fb.models.pendulum(2)
    cost = tracking(model, [0.0, 0.0])
    controller = RecedingHorizon(fb.Simulator(model, dt=0.5), cost, np.full((400, 2), 1e6))
    with pytest.raises(
        OptimizationError, match=r"run_closed_loop\(\): step 0 of 5: ilqr"
    ) as caught:
        run_closed_loop(controller, fb.Simulator(model), [0, 0], [0, 0], 5)
    assert caught.value.outcome.q.shape == (1, 2)
