"""Jammed robots with much friction, whose interior path turns back, are solved too."""

from __future__ import annotations

import numpy as np
import pytest

import featherback as fb

LEG = """<body pos="{x} {y} 0">
<joint axis="0 1 0" range="-60 60" limited="true" frictionloss="10" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0.05 0 -0.2" size="0.02"/>
<body pos="0.05 0 -0.2"><joint axis="0 1 0" range="-90 60" limited="true" frictionloss="10"/>
<geom type="capsule" fromto="0 0 0 -0.05 0 -0.2" size="0.02"/></body></body>"""
FOOT = """<body pos="{x:g} {y:g} 0">
<joint axis="{roll} {pitch} 0" damping="0.1" stiffness="5" frictionloss="3"/>
<geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.2" mass="0.1"/></body>"""
LINK = '<geom type="capsule" size="0.02" fromto="0 0 0 0.08 0 0" mass="0.1"/>'


def on_floor(bodies: str, friction: float) -> fb.Model:
    """Return bodies on a floor, all with the same friction."""
    return fb.load(
        f"""<mujoco><option timestep="0.002"/><default><geom friction="{friction:g}"/></default>
        <worldbody><geom type="plane" size="9 9 1"/>{bodies}</worldbody></mujoco>"""
    )


def quadruped() -> fb.Model:
    """Return a robot whose joints rub with 10 N m, on rubber feet."""
    legs = "".join(LEG.format(x=x, y=y) for x in (-0.2, 0.2) for y in (-0.1, 0.1))
    trunk = '<freejoint/><geom type="box" size="0.25 0.12 0.05" mass="8"/>'
    return on_floor(f'<body pos="0 0 0.45">{trunk}{legs}</body>', 10.0)


def table() -> fb.Model:
    """Return a table on twelve feet that turn on dry hinges."""
    feet = "".join(
        FOOT.format(x=0.2 * (i % 4), y=0.2 * (i // 4), roll=i % 2, pitch=1 - i % 2)
        for i in range(12)
    )
    top = '<freejoint/><geom type="box" size="0.4 0.4 0.02" pos="0.3 0.3 0.05" mass="5"/>'
    return on_floor(f'<body pos="0 0 0.221">{top}{feet}</body>', 10.0)


def chain(links: int, start: tuple[float, float, float]) -> str:
    """Return a chain of links with dry hinges, axes in turn."""
    text = ""
    for i in range(links):
        joint = (
            f'<joint axis="0 {i % 2} {1 - i % 2}" frictionloss="0.3" damping="0.002"/>'
            if i
            else "<freejoint/>"
        )
        place = "0.1 0 0" if i else "{} {} {}".format(*start)
        text += f'<body pos="{place}">{joint}{LINK}'
    return text + "</body>" * links


def chains() -> fb.Model:
    """Return a heap of four chains of twelve links."""
    heap = "".join(chain(12, (0.03 * i, 0.05 * i, 0.1 + 0.06 * i)) for i in range(4))
    return on_floor(heap, 10.0)


def falling(
    model: fb.Model, worlds: int, steps: int, speed: float, seed: int = 1, dtype: str = "float64"
) -> tuple[fb.Simulator, fb.Rollout]:
    """Return random first velocities followed for some steps."""
    print("seed", seed)
    sim = fb.Simulator(model, dtype=dtype, max_contacts=400)
    v = speed * np.random.default_rng(seed).normal(size=(worlds, model.nv))
    roll = sim.rollout(np.tile(model.q0, (worlds, 1)), v, steps=steps)
    print("residual", roll.residual.max())
    return sim, roll


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_quadrupeds_with_much_friction(dtype: str) -> None:
    """Solve every step of 32 quadrupeds that fall on rubber feet with dry joints."""
    assert falling(quadruped(), 32, 150, 0.5, dtype=dtype)[1].ok


def test_tables_on_hinged_feet() -> None:
    """Solve every step of 16 tables that land on twelve feet each."""
    assert falling(table(), 16, 60, 0.3)[1].ok


def test_heaps_of_chains() -> None:
    """Solve every step of seven heaps of chains."""
    assert falling(chains(), 7, 30, 0.5, seed=2)[1].ok


def test_turned_paths_keep_bits_and_derivatives() -> None:
    """Step alone as in the batch, and have the derivative of differences, forward and reverse."""
    sim, roll = falling(quadruped(), 32, 80, 0.5)
    rng = np.random.default_rng(0)
    for world, step in ((18, 73), (19, 78), (31, 69)):
        q, v = roll.q[world, step], roll.v[world, step]
        assert np.array_equal(sim.step(q, v)[1], roll.v[world, step + 1])
        dv, bar = rng.normal(size=(2, len(v)))
        near = [sim.step(q, v + e * dv)[1] @ bar for e in (1e-6, -1e-6)]
        forward = sim.jvp(q, v, dv=dv)[1] @ bar
        assert forward == pytest.approx((near[0] - near[1]) / 2e-6, rel=1e-6)
        assert sim.vjp(q, v, v_bar=bar).v @ dv == pytest.approx(forward, rel=1e-9)
