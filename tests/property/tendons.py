"""Random models with tendons, all their terms, actuators on them and couplings."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

import featherback as fb
from featherback.model.tendons import body_dofs, branches
from tests.property import random_models
from tests.property.random_models import Rng, Vector, text
from tests.property.soft import solimp, solref
from tests.property.test_random_gradients import grounded_tree

SCALAR = (int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE))


def few(m: mujoco.MjModel, dofs: set[int]) -> bool:
    """Return whether dofs lie on two branches at most."""
    return len(branches(m, sorted(dofs, reverse=True))) <= 2


@dataclass(frozen=True)
class Path:
    """The path of a tendon: its elements, the dofs that move it, its length at the reference."""

    inner: str
    dofs: frozenset[int]
    length: float
    kind: str


def _fixed(m: mujoco.MjModel, rng: Rng, narrow: bool) -> Path | None:
    """Return a path over some scalar joints, on two branches at most if narrow."""
    scalar = [j for j in range(m.njnt) if m.jnt_type[j] in SCALAR]
    picked = [int(j) for j in rng.permutation(scalar)[: int(rng.integers(1, 5))]]
    while narrow and not few(m, {int(m.jnt_dofadr[j]) for j in picked}):
        picked.pop()
    if not picked:
        return None
    coefs = rng.uniform(-2, 2, len(picked))
    inner = "".join(
        f'<joint joint="{m.joint(j).name}" coef="{text(c)}"/>'
        for j, c in zip(picked, coefs, strict=True)
    )
    return Path(inner, frozenset(int(m.jnt_dofadr[j]) for j in picked), 0.0, "fixed")


def _spatial(m: mujoco.MjModel, rng: Rng, narrow: bool) -> Path | None:
    """Return a path through two to four sites, some of them with a pulley between two branches."""
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    picked = [int(k) for k in rng.permutation(m.nsite)[: int(rng.integers(2, 5))]]
    while True:
        dofs = {d for k in picked for d in body_dofs(m, int(m.site_bodyid[k]))}
        if not narrow or len(picked) < 2 or few(m, dofs):
            break
        picked.pop()
    if len(picked) < 2 or not dofs:
        return None
    names = [f'<site site="{m.site(k).name}"/>' for k in picked]
    spots = data.site_xpos[picked]
    length = float(np.linalg.norm(np.diff(spots, axis=0), axis=1).sum())
    inner = "".join(names)
    if rng.random() < 0.4:
        divisor = rng.uniform(1, 3)
        inner += f'<pulley divisor="{text(divisor)}"/>{names[-1]}{names[0]}'
        length += float(np.linalg.norm(spots[0] - spots[-1])) / divisor
    return Path(inner, frozenset(dofs), length, "spatial")


def _tendon(rng: Rng, name: str, path: Path, heavy: bool) -> str:
    """Return one tendon near whose length, at the reference, its ends and its spring are."""
    more = f'name="{name}"'
    if heavy:
        more += f' armature="{text(10.0 ** rng.uniform(-2, 1))}"'
    if rng.random() < 0.6:
        more += f' stiffness="{text(10.0 ** rng.uniform(-1, 2))}"'
        wide = rng.uniform(0, 0.3) if rng.random() < 0.5 else 0.0
        if rng.random() < 0.7:
            more += f' springlength="{text(rng.uniform(0, 0.5) + np.array([0, wide]))}"'
    if rng.random() < 0.6:
        more += f' damping="{text(10.0 ** rng.uniform(-2, 1))}"'
    if rng.random() < 0.5:
        ends = [path.length - rng.uniform(0, 0.3), path.length + rng.uniform(0.01, 0.3)]
        more += f' range="{text(ends)}" margin="{text(rng.uniform(0, 0.1))}"'
        more += f' solreflimit="{solref(rng)}" solimplimit="{solimp(rng)}"'
    if rng.random() < 0.4:
        more += f' frictionloss="{text(10.0 ** rng.uniform(-2, 0))}"'
        more += f' solreffriction="{solref(rng)}" solimpfriction="{solimp(rng)}"'
    return f"<{path.kind} {more}>{path.inner}</{path.kind}>"


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


def with_tendons(xml: str, rng: Rng, narrow: bool = False, heavy: bool = False) -> str:
    """Return a file with up to four tendons more, and what acts on them.

    Args:
        xml: a mechanism of random_tree.
        rng: source of every random number.
        narrow: whether tendons and couplings lie on two branches at most, as the hard law asks.
        heavy: whether tendons have armature.
    """
    m = mujoco.MjModel.from_xml_string(xml)
    made = (_fixed, _spatial)
    drawn = [made[int(rng.integers(2))](m, rng, narrow) for _ in range(int(rng.integers(1, 5)))]
    return with_paths(xml, m, [path for path in drawn if path], rng, narrow, heavy)


def with_paths(
    xml: str, m: mujoco.MjModel, paths: list[Path], rng: Rng, narrow: bool, heavy: bool = False
) -> str:
    """Return a file with tendons of these paths, and what acts on them."""
    if not paths:
        return xml
    parts = [_tendon(rng, f"t{k}", path, heavy) for k, path in enumerate(paths)]
    acts = [_actuator(rng, f"ta{k}", f"t{k}") for k in range(len(paths)) if rng.random() < 0.7]
    equal = ""
    if rng.random() < 0.4:
        two = len(paths) > 1 and not (narrow and not few(m, {*paths[0].dofs, *paths[1].dofs}))
        poly = [rng.uniform(-0.1, 0.1), *rng.uniform(-1, 1, 2), 0.1, 0.05]
        second = 'tendon2="t1"' if two else ""
        equal = (
            f'<equality><tendon tendon1="t0" {second} polycoef="{text(poly)}" '
            f'solref="{solref(rng)}" solimp="{solimp(rng)}"/></equality>'
        )
    more = f"<tendon>{''.join(parts)}</tendon><actuator>{''.join(acts)}</actuator>{equal}"
    return xml.replace("</mujoco>", f"{more}</mujoco>")


def joins_branches(model: fb.Model, q: Vector) -> bool:
    """Return whether MuJoCo's inertia, without what joins branches, is no longer positive."""
    m, data = model.mujoco, mujoco.MjData(model.mujoco)
    data.qpos[:] = q
    mujoco.mj_fwdPosition(m, data)
    M = np.zeros((m.nv, m.nv))
    mujoco.mj_fullM(m, data, M)
    size = np.sqrt(np.abs(np.diag(M)))
    return bool(np.linalg.eigvalsh(M / np.outer(size, size)).min() < 1e-3)


def draw_tendons(
    seed: int, narrow: bool = False, heavy: bool = False
) -> tuple[fb.Model, Vector, Vector, Rng]:
    """Return a model with tendons, with armature on them if they are heavy, and a state of it."""
    rng = np.random.default_rng((seed, 22 if heavy else 21))
    xml = grounded_tree(rng, bodies=int(rng.integers(2, 9)), mass_ratio=100.0)
    model = fb.load(with_tendons(xml, rng, narrow, heavy))
    q, v = random_models.random_state(model, rng, spread=0.3)
    return model, q, v, rng
