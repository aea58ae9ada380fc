"""Random models with random settings of MuJoCo's contact law, and MuJoCo run to its end on them."""

from __future__ import annotations

import re
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

import featherback as fb
from tests.property import random_models
from tests.property.random_models import Rng, text
from tests.property.test_random_gradients import draw, grounded_tree

Vector = NDArray[np.float64]


def solref(rng: Rng) -> str:
    """Return a time constant and a damping ratio, or stiffness and damping."""
    if rng.random() < 0.3:
        return text([-rng.uniform(50, 5000), -rng.uniform(1, 100)])
    return text([rng.uniform(0.002, 0.05), rng.uniform(0.3, 1.5)])


def solimp(rng: Rng) -> str:
    """Return the five numbers of an impedance, some of them at their bounds or alike."""
    low, high = np.sort(rng.uniform(0.3, 0.99, 2))
    if rng.random() < 0.2:
        low = high
    power = rng.choice([1.0, 2.0, 3.0, rng.uniform(1, 4)])
    return text([low, high, rng.uniform(0.001, 0.05), rng.uniform(0.2, 0.8), power])


def _settings(rng: Rng, suffix: str = "") -> str:
    return f'solref{suffix}="{solref(rng)}" solimp{suffix}="{solimp(rng)}"'


def decorate(xml: str, rng: Rng, *, condims: tuple[int, ...] = (1, 3, 4, 6)) -> str:
    """Give the geoms, joints and equalities of a file settings of their own, and some pairs."""
    names: list[str] = []

    def geom(found: re.Match[str]) -> str:
        old = re.sub(r' (friction|condim)="[^"]*"', "", found.group(0))
        known = re.search(r' name="([^"]*)"', old)
        names.append(known.group(1) if known else f"geom{len(names)}")
        if not known:
            old = old.replace("<geom", f'<geom name="{names[-1]}"', 1)
        friction = [rng.uniform(0.1, 1.5), rng.uniform(0.001, 0.1), rng.uniform(0.0005, 0.05)]
        more = f' friction="{text(friction)}" condim="{rng.choice(condims)}"'
        if rng.random() < 0.7:
            more += f' {_settings(rng)} solmix="{text(rng.uniform(0.2, 3))}"'
        if rng.random() < 0.4:
            more += f' margin="{text(rng.uniform(0, 0.02))}" gap="0.005"'
        if rng.random() < 0.2:
            more += f' priority="{rng.integers(2)}"'
        return old.replace("<geom", "<geom" + more, 1)

    def joint(found: re.Match[str]) -> str:
        if rng.random() < 0.5:
            return found.group(0)
        more = f"{_settings(rng, 'limit')} {_settings(rng, 'friction')}"
        more += f' margin="{text(rng.uniform(0, 0.1))}"'
        return found.group(0).replace("<joint", f"<joint {more}", 1)

    body, tail, end = xml.partition("</worldbody>")
    body = re.sub(r"<geom [^>]*>", geom, body)
    body = re.sub(r"<joint [^>]*>", joint, body)
    end = re.sub(r"<(connect|weld|joint) ", lambda m: f"{m.group(0)}{_settings(rng)} ", end)
    end = end.replace("</mujoco>", f"<contact>{_pairs(names, rng, condims)}</contact></mujoco>")
    return body + tail + end


def _pairs(names: list[str], rng: Rng, condims: tuple[int, ...]) -> str:
    """Return explicit pairs of the first geom, the floor, with some of the others."""
    out = ""
    for name in names[1:]:
        if rng.random() < 0.3:
            friction = rng.uniform([0.1, 0.1, 0.001, 0.0005, 0.0005], [1.5, 1.5, 0.1, 0.05, 0.05])
            out += (
                f'<pair geom1="{names[0]}" geom2="{name}" condim="{rng.choice(condims)}" '
                f'friction="{text(friction)}" margin="{text(rng.uniform(0, 0.01))}" '
                f'solreffriction="{solref(rng)}" {_settings(rng)}/>'
            )
    return out


def draw_soft(seed: int) -> tuple[fb.Model, Vector, Vector, Rng]:
    """Return a model with every kind of row and any settings, and a state of it."""
    rng = np.random.default_rng((seed, 9))
    closed = seed % 3 == 0
    if seed % 2:
        xml = random_models.random_contact_scene(rng, gap=(-0.003, 0.003))
        spread: float | None = 0.02
    else:
        xml = grounded_tree(rng, equality=closed, bodies=int(rng.integers(1, 9)))
        spread = 0.1 if closed else None
    model = fb.load(decorate(xml, rng), on_unsupported="drop")
    q, v = random_models.random_state(model, rng, spread=spread)
    return model, q, v, rng


def soft_options(seed: int) -> dict[str, Any]:
    """Return cone, impratio and integrator of a seed."""
    ratio = (1.0, 0.3, 10.0)[seed % 3]
    return {
        "contact": "mujoco",
        "cone": ("pyramidal", "elliptic")[seed // 2 % 2],
        "impratio": ratio,
        "integrator": ("euler", "rk4", "implicitfast")[seed // 5 % 3],
    }


def exact_mujoco(model: fb.Model, options: dict[str, Any]) -> mujoco.MjModel:
    """Return the compiled model with the same options and a solver that runs to its end."""
    import copy

    m = copy.deepcopy(model.parsed.mujoco)
    m.opt.cone = int(options["cone"] == "elliptic")
    m.opt.impratio = options["impratio"]
    m.opt.integrator = {"euler": 0, "rk4": 1, "implicitfast": 3}[options["integrator"]]
    m.opt.solver = int(mujoco.mjtSolver.mjSOL_NEWTON)
    m.opt.tolerance, m.opt.iterations = 0.0, 60
    m.opt.ls_tolerance, m.opt.ls_iterations = 1e-12, 200
    # its sparse factor and its islands are not of use here
    m.opt.jacobian = int(mujoco.mjtJacobian.mjJAC_DENSE)
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    m.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_WARMSTART)
    return m


__all__ = ["decorate", "draw", "draw_soft", "exact_mujoco", "soft_options"]
