"""Contacts that wait for rows until a solve closes them, and solves that begin where one ended."""

import numpy as np
import pytest

import featherback as fb
from featherback.sim import Status

BAD = int(Status.UNCONVERGED | Status.NONFINITE | Status.CONTACT_OVERFLOW)
OCTAHEDRON = "0.06 0 0 -0.06 0 0 0 0.06 0 0 -0.06 0 0 0 0.05 0 0 -0.05"


def heap(friction=0.6, bodies=24, dtype="float64", **options):
    """Return a simulator of boxes, balls and hulls that fall on each other."""
    rng = np.random.default_rng(5)
    kinds = (
        'type="box" size="0.06 0.05 0.04"',
        'type="sphere" size="0.05"',
        'type="mesh" mesh="stone"',
    )
    parts = ""
    for i in range(bodies):
        x, y = rng.uniform(-0.12, 0.12, 2)
        euler = " ".join(f"{a:.3f}" for a in rng.uniform(-180, 180, 3))
        parts += f'<body pos="{x:.3f} {y:.3f} {0.08 + 0.045 * i:.3f}" euler="{euler}"><freejoint/>'
        parts += f'<geom {kinds[i % 3]} mass="0.3" friction="{friction}"/></body>'
    walls = "".join(
        f'<geom type="box" size="0.3 0.02 0.3" pos="{x} {y} 0.3" euler="0 0 {a}"/>'
        for x, y, a in ((0, 0.28, 0), (0, -0.28, 0), (0.28, 0, 90), (-0.28, 0, 90))
    )
    model = fb.load(
        f'<mujoco><asset><mesh name="stone" vertex="{OCTAHEDRON}"/></asset>'
        f'<worldbody><geom type="plane" size="2 2 1"/>{walls}{parts}</worldbody></mujoco>'
    )
    return fb.Simulator(model, dtype=dtype, **options)


def states_of(sim, steps=700, every=35):
    """Return states of a heap while it falls and when it lies."""
    roll = sim.rollout(sim.model.q0, np.zeros(sim.model.nv), steps=steps)
    assert not int(roll.status) & BAD
    return roll.q[::every], roll.v[::every]


@pytest.fixture(scope="module")
def fallen():
    """States of the heap while it falls and when it lies."""
    return states_of(heap())


@pytest.mark.parametrize("bodies", [4, 24])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_worlds_have_the_same_bits_alone_and_beside_those_that_are_solved_again(bodies, dtype):
    """Keep a world's bits where others in its lanes need more solves of a step than it does."""
    sim = heap(dtype=dtype, bodies=bodies)
    # of few bodies, whose rows are solved side by side, contacts close while they fall
    given = states_of(heap(bodies=bodies), *((400, 4) if bodies == 4 else ()))
    q, v = (np.asarray(a, dtype) for a in given)
    alone = [sim.rollout(q[i], v[i], steps=3) for i in range(len(q))]
    for order in (np.arange(len(q)), np.random.default_rng(1).permutation(len(q))):
        batch = sim.rollout(q[order], v[order], steps=3)
        for place, i in enumerate(order):
            assert np.array_equal(batch.q[place], alone[i].q)
            assert np.array_equal(batch.v[place], alone[i].v)
            assert batch.factorisations[place] == alone[i].factorisations
            assert batch.residual[place] == alone[i].residual


def test_tangents_are_those_of_a_world_alone(fallen):
    """Keep a world's tangents where others in its lanes need more solves of a step than it does."""
    sim = heap()
    q, v = fallen
    rng = np.random.default_rng(2)
    dv, v_bar = rng.standard_normal((2, *v.shape))
    both = sim.rollout(q, v, steps=1)
    tangents = both.jvp(dv=dv)[1][:, -1]
    gradient = both.vjp(v_bar=v_bar).v
    curved = both.hessian_vector_product(v_bar=v_bar, direction=(None, dv, None)).v
    for i in range(len(q)):
        alone = sim.rollout(q[i], v[i], steps=1)
        assert np.array_equal(alone.jvp(dv=dv[i])[1][-1], tangents[i])
        second = alone.hessian_vector_product(v_bar=v_bar[i], direction=(None, dv[i], None))
        assert np.array_equal(second.v, curved[i])
        forward, reverse = v_bar[i] @ tangents[i], gradient[i] @ dv[i]
        assert abs(forward - reverse) < 1e-7 * (1 + abs(reverse))


def bridged(heights, dtype):
    """Return a simulator of two stacks of boxes in each other and of a bar that may lie on both."""
    parts = "".join(
        f'<body pos="{x} 0 {z}"><freejoint/><geom type="box" size="0.1 0.1 0.05" mass="1"/></body>'
        for x in (-0.3, 0.3)
        for z in heights
    )
    bar = '<body pos="0 0 1"><freejoint/><geom type="box" size="0.5 0.05 0.02" mass="0.5"/></body>'
    xml = f'<mujoco><worldbody><geom type="plane" size="3 3 1"/>{parts}{bar}</worldbody></mujoco>'
    return fb.Simulator(fb.load(xml), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_recovery_of_an_island_does_not_see_what_other_worlds_join(dtype):
    """Take back errors of two islands alike, alone and beside worlds in which a bar joins them."""
    sim = bridged((0.045, 0.14, 0.238), dtype)
    rng = np.random.default_rng(7)
    q = np.tile(np.asarray(sim.model.q0, dtype), (48, 1))
    q[:, 2 : 6 * 7 : 7] -= rng.uniform(0, 0.02, (48, 6))
    q[::2, 6 * 7 + 2] = 0.29 + rng.uniform(-0.02, 0.002, 24)
    v = 0.02 * rng.standard_normal((48, sim.model.nv)).astype(dtype)
    batch = sim.rollout(q, v, steps=4)
    assert not (batch.status & BAD).any()
    for i in range(len(q)):
        alone = sim.rollout(q[i], v[i], steps=4)
        assert np.array_equal(batch.q[i], alone.q)
        assert np.array_equal(batch.v[i], alone.v)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pairs_that_sleep_change_no_bits(fallen, dtype):
    """Move and differentiate a heap alike where there is no room for pairs that sleep."""
    q, v = (np.asarray(a, dtype) for a in fallen)
    v_bar = np.random.default_rng(3).standard_normal(v.shape).astype(dtype)
    wide = heap(dtype=dtype)
    free = wide.rollout(q, v, steps=3)
    states = zip(free.q.reshape(-1, q.shape[1]), free.v.reshape(-1, v.shape[1]), strict=True)
    most = max(int(wide.contacts(*state).count) for state in states)
    for room in (most, most + 8, most + 40):
        tight = heap(dtype=dtype, max_contacts=room).rollout(q, v, steps=3)
        assert not (tight.status & int(Status.CONTACT_OVERFLOW)).any()
        assert np.array_equal(tight.q, free.q)
        assert np.array_equal(tight.v, free.v)
        assert np.array_equal(tight.vjp(v_bar=v_bar).v, free.vjp(v_bar=v_bar).v)


@pytest.mark.parametrize("speed", [0.0, 0.5, 3.0])
def test_a_pair_that_sleeps_wakes_where_another_contact_drives_it(speed):
    """Hit a box that stands still 4 mm from another one: what sleeps is found when it is pushed."""
    box = '<freejoint/><geom type="box" size="0.1 0.1 0.1" mass="{}"/></body>'
    model = fb.load(
        '<mujoco><option gravity="0 0 0" timestep="0.005"/><worldbody>'
        f'<body>{box.format(1)}<body pos="0.204 0 0">{box.format(1)}'
        f'<body pos="-0.2001 0 0">{box.format(20)}</worldbody></mujoco>'
    )
    v = np.zeros(18)
    v[12] = speed
    waits, rows = (
        fb.Simulator(model, solver=s).rollout(model.q0, v, steps=12) for s in ("newton", "interior")
    )
    assert not (int(waits.status) | int(rows.status)) & BAD
    assert np.abs(waits.q - rows.q).max() < 1e-8
    gap = waits.q[:, 7] - waits.q[:, 0] - 0.2
    assert gap.min() > -1e-8
    assert (waits.v[-1, 6] > 0.5 * speed) == (speed > 0)


def test_waiting_changes_no_motion(fallen):
    """Move a heap without friction as the interior path does, which has all rows from the start."""
    here, there = heap(friction=0), heap(friction=0, solver="interior")
    q, v = fallen
    one, other = (s.rollout(q, v, steps=1) for s in (here, there))
    assert not ((one.status | other.status) & BAD).any()
    apart = np.abs(one.v[:, 1] - other.v[:, 1]).max(axis=1)
    print(f"apart: median {np.median(apart):.1e}, largest {apart.max():.1e}")
    assert apart.max() < 1e-7


def test_gradients_of_a_heap_are_those_of_differences(fallen):
    """Differentiate steps of a heap that were solved more than once."""
    sim = heap()
    q, v = fallen
    for k in (5, len(q) - 1):
        found = fb.check_gradients(sim, q=q[k], v=v[k], steps=1, draws=2)
        assert found.ok, str(found)
