"""Random models with tendons around spheres and cylinders, and all that acts on them."""

from __future__ import annotations

import mujoco
import numpy as np

import featherback as fb
from featherback.model.tendons import body_dofs
from tests.core.references import tendon_moments
from tests.property import random_models
from tests.property.random_models import Rng, Vector, text
from tests.property.tendons import Path, few, with_paths
from tests.property.test_random_gradients import grounded_tree

SIDES = ("none", "outside", "inside")


def _local(m: mujoco.MjModel, body: int, place: Vector) -> Vector:
    """Return where on a body a place in the world is at the reference."""
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    return data.xmat[body].reshape(3, 3).T @ (place - data.xpos[body])


def _round(
    spec: mujoco.MjSpec, m: mujoco.MjModel, rng: Rng, ends: Vector, body: int, side: str
) -> str:
    """Add a geom near the middle of two places, perhaps with a side site; return its element."""
    name = f"w{len(spec.geoms)}"
    apart = float(np.linalg.norm(ends[1] - ends[0]))
    radius = float(rng.uniform(0.05, 0.4)) * apart
    centre = ends.mean(axis=0) + rng.normal(size=3) * 0.5 * radius
    kinds = mujoco.mjtGeom
    spec.bodies[body].add_geom(
        name=name,
        type=(kinds.mjGEOM_SPHERE, kinds.mjGEOM_CYLINDER)[rng.integers(2)],
        size=[radius, 0.05, 0],
        pos=_local(m, body, centre),
        quat=random_models.unit(rng, 4),
        mass=0,
        contype=0,
        conaffinity=0,
    )
    if side == "none":
        return f'<geom geom="{name}"/>'
    far = rng.uniform(1.1, 3) if side == "outside" else rng.uniform(0, 0.8)
    spot = centre + random_models.unit(rng, 3) * far * radius
    spec.bodies[body].add_site(name=f"side_{name}", pos=_local(m, body, spot))
    return f'<geom geom="{name}" sidesite="side_{name}"/>'


def _wrapped(
    spec: mujoco.MjSpec, m: mujoco.MjModel, rng: Rng, narrow: bool, sides: tuple[str, ...]
) -> tuple[str, frozenset[int]] | None:
    """Return a path through two to four sites and around geoms between them, and its dofs."""
    data = mujoco.MjData(m)
    mujoco.mj_kinematics(m, data)
    picked = [int(k) for k in rng.permutation(m.nsite)[: int(rng.integers(2, 5))]]
    inner, dofs = "", set[int]()
    for k, site in enumerate(picked):
        body = int(m.site_bodyid[site])
        more = dofs | set(body_dofs(m, body))
        if narrow and not few(m, more):
            break
        last = k + 1 == len(picked)
        if inner:
            ends = data.site_xpos[[picked[k - 1], site]]
            body = int(rng.integers(m.nbody))
            wider = more | set(body_dofs(m, body))
            if np.ptp(ends, axis=0).max() > 1e-3 and not (narrow and not few(m, wider)):
                inner += _round(spec, m, rng, ends, body, sides[int(rng.integers(len(sides)))])
                more = wider
        inner += f'<site site="{m.site(site).name}"/>'
        if 0 < k and not last and rng.random() < 0.3:
            divisor = text(rng.uniform(1, 3))
            inner += f'<pulley divisor="{divisor}"/><site site="{m.site(site).name}"/>'
        dofs = more
    # the last element is a site that ends a part
    count = inner.count("<site")
    if count < 2 or not dofs:
        return None
    if inner.split("<pulley")[-1].count("<site") < 2:
        inner = inner[: inner.rindex("<pulley")]
    return inner, frozenset(dofs)


def _lengths(xml: str) -> tuple[Vector, Vector]:
    """Return the lengths of tendons at the reference and the sizes of their moments."""
    m = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    return data.ten_length, np.abs(tendon_moments(m, data)).max(axis=1)


def draw_wraps(
    seed: int, narrow: bool = False, sides: tuple[str, ...] = SIDES
) -> tuple[fb.Model, Vector, Vector, Rng]:
    """Return a model with tendons around geoms and a state of it.

    Args:
        seed: of all numbers.
        narrow: whether tendons lie on two branches at most, as rows of the hard law ask.
        sides: where side sites may be, of "none", "outside", "inside".
    """
    rng = np.random.default_rng((seed, 22))
    xml = grounded_tree(rng, bodies=int(rng.integers(2, 7)), mass_ratio=100.0)
    spec = mujoco.MjSpec.from_string(xml)
    for k in range(len(spec.bodies)):
        spec.bodies[k].add_site(name=f"more{k}", pos=rng.uniform(-0.4, 0.4, 3))
    m = spec.compile()
    drawn = [_wrapped(spec, m, rng, narrow, sides) for _ in range(int(rng.integers(1, 5)))]
    paths = [path for path in drawn if path]
    spec.compile()
    xml = spec.to_xml()
    if paths:
        bare = "".join(f"<spatial>{inner}</spatial>" for inner, _ in paths)
        bare = xml.replace("</mujoco>", f"<tendon>{bare}</tendon></mujoco>")
        # a path within one link has no moment
        known = [
            Path(inner, dofs, float(length), "spatial")
            for (inner, dofs), length, moment in zip(paths, *_lengths(bare), strict=True)
            if moment > 1e-3
        ]
        xml = with_paths(xml, m, known, rng, narrow)
    model = fb.load(xml)
    q, v = random_models.random_state(model, rng, spread=0.3)
    return model, q, v, rng
