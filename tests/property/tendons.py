"""Random models with fixed tendons, all their terms, actuators on them and couplings."""

from __future__ import annotations

import mujoco
import numpy as np

import featherback as fb
from featherback.model.tendons import branches
from tests.property import random_models
from tests.property.random_models import Rng, Vector, text
from tests.property.soft import solimp, solref
from tests.property.test_random_gradients import grounded_tree

SCALAR = (int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE))


def _joints(m: mujoco.MjModel, rng: Rng, narrow: bool) -> list[str]:
    """Return the names of some scalar joints, on two branches at most if narrow."""
    scalar = [j for j in range(m.njnt) if m.jnt_type[j] in SCALAR]
    count = min(len(scalar), int(rng.integers(1, 5)))
    picked = [int(j) for j in rng.permutation(scalar)[:count]]
    while narrow and len(branches(m, sorted((m.jnt_dofadr[j] for j in picked), reverse=True))) > 2:
        picked.pop()
    return [m.joint(j).name for j in picked]


def _tendon(rng: Rng, name: str, joints: list[str], length: float) -> str:
    """Return one fixed tendon near whose length, at the reference, its ends and its spring are."""
    more = f'name="{name}"'
    if rng.random() < 0.6:
        more += f' stiffness="{text(10.0 ** rng.uniform(-1, 2))}"'
        wide = rng.uniform(0, 0.3) if rng.random() < 0.5 else 0.0
        if rng.random() < 0.7:
            more += f' springlength="{text(np.sort(rng.uniform(0, 0.5) + np.array([0, wide])))}"'
    if rng.random() < 0.6:
        more += f' damping="{text(10.0 ** rng.uniform(-2, 1))}"'
    if rng.random() < 0.5:
        ends = [length - rng.uniform(0, 0.3), length + rng.uniform(0.01, 0.3)]
        more += f' range="{text(ends)}" margin="{text(rng.uniform(0, 0.1))}"'
        more += f' solreflimit="{solref(rng)}" solimplimit="{solimp(rng)}"'
    if rng.random() < 0.4:
        more += f' frictionloss="{text(10.0 ** rng.uniform(-2, 0))}"'
        more += f' solreffriction="{solref(rng)}" solimpfriction="{solimp(rng)}"'
    inner = "".join(f'<joint joint="{j}" coef="{text(rng.uniform(-2, 2))}"/>' for j in joints)
    return f"<fixed {more}>{inner}</fixed>"


def _actuator(rng: Rng, name: str, tendon: str) -> str:
    """Return an actuator on a tendon: motor, servo, or one whose gain knows length and speed."""
    kind = ("motor", "position", "velocity", "general")[rng.integers(4)]
    more = f'name="{name}" tendon="{tendon}" gear="{text(rng.uniform(-2, 2))}"'
    if kind == "position":
        more += f' kp="{text(rng.uniform(1, 50))}" kv="{text(rng.uniform(0.1, 5))}"'
    if kind == "velocity":
        more += f' kv="{text(rng.uniform(0.1, 5))}"'
    if kind == "general":
        more += f' gaintype="affine" gainprm="{text(rng.uniform(-2, 2, 3))}" biastype="affine"'
        more += f' biasprm="{text([rng.uniform(-2, 2), -rng.uniform(0, 9), -rng.uniform(0, 3)])}"'
    if rng.random() < 0.4:
        more += f' forcerange="{text([-rng.uniform(1, 10), rng.uniform(1, 10)])}"'
    return f"<{kind} {more}/>"


def with_tendons(xml: str, rng: Rng, narrow: bool = False) -> str:
    """Return a file with up to four fixed tendons more, and what acts on them.

    Args:
        xml: a mechanism of random_tree.
        rng: source of every random number.
        narrow: whether tendons and couplings lie on two branches at most, as the hard law asks.
    """
    m = mujoco.MjModel.from_xml_string(xml)
    tendons = [_joints(m, rng, narrow) for _ in range(int(rng.integers(1, 5)))]
    tendons = [joints for joints in tendons if joints]
    if not tendons:
        return xml
    parts = [_tendon(rng, f"t{k}", joints, 0.0) for k, joints in enumerate(tendons)]
    acts = [_actuator(rng, f"ta{k}", f"t{k}") for k in range(len(tendons)) if rng.random() < 0.7]
    equal = ""
    if rng.random() < 0.4:
        dofs = {int(m.jnt_dofadr[m.joint(j).id]) for pair in tendons[:2] for j in pair}
        two = len(tendons) > 1 and not (narrow and len(branches(m, sorted(dofs, reverse=True))) > 2)
        poly = [rng.uniform(-0.1, 0.1), *rng.uniform(-1, 1, 2), 0.1, 0.05]
        second = 'tendon2="t1"' if two else ""
        equal = (
            f'<equality><tendon tendon1="t0" {second} polycoef="{text(poly)}" '
            f'solref="{solref(rng)}" solimp="{solimp(rng)}"/></equality>'
        )
    more = f"<tendon>{''.join(parts)}</tendon><actuator>{''.join(acts)}</actuator>{equal}"
    return xml.replace("</mujoco>", f"{more}</mujoco>")


def draw_tendons(seed: int, narrow: bool = False) -> tuple[fb.Model, Vector, Vector, Rng]:
    """Return a model with tendons and a state of it."""
    rng = np.random.default_rng((seed, 21))
    xml = grounded_tree(rng, bodies=int(rng.integers(2, 9)), mass_ratio=100.0)
    model = fb.load(with_tendons(xml, rng, narrow))
    q, v = random_models.random_state(model, rng, spread=0.3)
    return model, q, v, rng
