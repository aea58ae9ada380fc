"""Gradients on random models whose bodies are held at their contacts, against differences."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

import featherback as fb
from tests.property.test_random_gradients import grounded_tree
from tests.property.test_tendons import derivatives_apart

Drawn = tuple[fb.Model, np.ndarray, np.ndarray, np.ndarray]


def draw_adhesion(seed: int) -> Drawn:
    """Return a random tree on the ground whose bodies are held there, a state and controls."""
    rng = np.random.default_rng((seed, 23))
    xml = grounded_tree(rng, bodies=int(rng.integers(2, 7)), mass_ratio=100.0)
    m = mujoco.MjModel.from_xml_string(xml)
    bodies = [m.body(int(b)).name for b in sorted({*m.geom_bodyid.tolist()} - {0})]
    held = "".join(
        f'<adhesion body="{name}" gain="{rng.uniform(1, 50)}" ctrlrange="0 1"/>' for name in bodies
    )
    xml = xml.replace("</mujoco>", f"<actuator>{held}</actuator></mujoco>")
    model = fb.load(xml.replace("actuatorfrcrange", "user"))
    q, v = model.q0.copy(), rng.normal(size=model.nv) * 0.3
    q[m.jnt_qposadr[m.jnt_type > 1]] += rng.normal(size=int((m.jnt_type > 1).sum())) * 0.1
    return model, q, v, rng.uniform(0, 1.2, model.nu)


@pytest.mark.parametrize("seed", range(10))
def test_gradients_agree_with_differences(seed: int) -> None:
    """Pass check_gradients with states, controls and parameters."""
    model, q, v, u = draw_adhesion(seed)
    sim = fb.Simulator(model, contact="mujoco")
    names = ("actuator_gainprm", "actuator_ctrlrange", "geom_pos", "body_mass")
    report = fb.check_gradients(sim, q=q, v=v, u=u, steps=3, draws=4, params=names)
    print(f"seed {seed}", report)
    assert report.ok
    held = sim.rollout(q, v, np.tile(u, (3, 1))).vjp(v_bar=np.ones((4, model.nv)))
    assert np.abs(held.u).max() > 0 or sim.contacts(q, v, u).count == 0


def test_linearize_and_tangents_agree_with_reverse_mode() -> None:
    """Give one derivative by columns, by dual numbers and by cotangents, to 1e-9."""
    drawn = [(*draw_adhesion(seed)[:3], np.random.default_rng(seed)) for seed in range(15)]
    apart = [derivatives_apart(each, seed, False) for seed, each in enumerate(drawn)]
    print(apart)
    assert max(error for error in apart if error is not None) < 1e-9
