"""Hulls with fewer vertices on request, and how far they are from the whole ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featherback._typing import Array, Ints
from featherback.model.compiler import Locator, compile_spec
from featherback.model.hulls import hull_triangles, hull_vertices, outward
from featherback.model.report import Findings
from featherback.model.xmltree import clip

if TYPE_CHECKING:
    import mujoco

FEWEST = 4
"""Vertices that a hull has at least."""
_CHUNK = 200_000
"""Pairs of a point and a triangle that are looked at together."""

_INERTIAS = ("body_mass", "body_inertia", "body_ipos", "body_iquat")


def compile_limited(
    spec: mujoco.MjSpec, most: int, locator: Locator, findings: Findings
) -> mujoco.MjModel:
    """Return a spec compiled with hulls of at most so many vertices; masses are the whole hulls'.

    Every hull that loses vertices is noted with the largest distance between the two hulls.
    """
    # a spec whose meshes have no faces cannot be compiled twice
    copy = spec.copy()
    whole = compile_spec(copy, locator)
    large = [k for k in range(whole.nmesh) if _count(whole, k) > most]
    for mesh, copied in zip(spec.meshes, copy.meshes, strict=True):
        if copied.id in large:
            mesh.maxhullvert = most
    less = compile_spec(spec, locator)
    for k in large:
        before, after = (_in_file(m, k) for m in (whole, less))
        gap = hull_distance(before, after, hull_triangles(less, k))
        findings.note(
            "approximated",
            locator.shown,
            f'the hull of mesh "{clip(whole.mesh(k).name)}" has {len(after)} of {len(before)} '
            f"vertices on request (hull_vertices={most}); the two hulls are at most {gap:.3g} m "
            "apart.",
        )
    _keep_inertias(whole, less)
    return less


def _count(model: mujoco.MjModel, mesh: int) -> int:
    """Return how many vertices the hull of a mesh has; 0 if it has none."""
    graph = int(model.mesh_graphadr[mesh])
    return int(model.mesh_graph[graph]) if graph >= 0 else 0


def _in_file(model: mujoco.MjModel, mesh: int) -> Array:
    """Return float64[n, 3], the vertices of a hull in the axes of its file, scaled."""
    import mujoco

    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.mesh_quat[mesh])
    return hull_vertices(model, mesh) @ turn.reshape(3, 3).T + model.mesh_pos[mesh]


def _keep_inertias(model: mujoco.MjModel, less: mujoco.MjModel) -> None:
    """Give a model the masses of another one, which had them from whole hulls."""
    import mujoco

    if all(np.array_equal(getattr(model, name), getattr(less, name)) for name in _INERTIAS):
        return
    for name in _INERTIAS:
        getattr(less, name)[:] = getattr(model, name)
    mujoco.mj_setConst(less, mujoco.MjData(less))


def hull_distance(whole: Array, part: Array, triangles: Ints) -> float:
    """Return the largest distance of a point of one hull from another one inside of it.

    The distance from a convex body is a convex function, so that it is largest in a vertex.

    Args:
        whole: float64[n, 3], vertices of the outer hull.
        part: float64[m, 3], vertices of the inner hull.
        triangles: int32[k, 3], its surface.
    """
    corners = part[outward(part, triangles)]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(across, axis=1)
    corners, normal = corners[length > 0], across[length > 0] / length[length > 0, None]
    height = np.max(whole @ normal.T - np.einsum("ij,ij->i", normal, corners[:, 0]), axis=1)
    outside = whole[height > 0]
    step = max(1, _CHUNK // max(len(corners), 1))
    nearest = [
        _to_triangles(outside[i : i + step], corners).min(axis=1)
        for i in range(0, len(outside), step)
    ]
    return float(np.sqrt(max((float(x.max()) for x in nearest), default=0.0)))


def _to_triangles(points: Array, corners: Array) -> Array:
    """Return float64[n, k], squares of the distances of points from triangles."""
    best = np.full((len(points), len(corners)), np.inf)
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    for start, end in ((a, b), (b, c), (c, a)):
        edge = end - start
        from_start = points[:, None] - start
        share = np.einsum("nki,ki->nk", from_start, edge)
        share /= np.maximum(np.einsum("ki,ki->k", edge, edge), 1e-300)
        off = from_start - np.clip(share, 0.0, 1.0)[:, :, None] * edge
        best = np.minimum(best, np.einsum("nki,nki->nk", off, off))
    # above the inside of a triangle its plane is nearest
    u, v = b - a, c - a
    uu, uv, vv = (np.einsum("ki,ki->k", x, y) for x, y in ((u, u), (u, v), (v, v)))
    area = np.maximum(uu * vv - uv * uv, 1e-300)
    from_a = points[:, None] - a
    along_u, along_v = (np.einsum("nki,ki->nk", from_a, x) for x in (u, v))
    s, t = (vv * along_u - uv * along_v) / area, (uu * along_v - uv * along_u) / area
    off = from_a - s[:, :, None] * u - t[:, :, None] * v
    inside = (s >= 0) & (t >= 0) & (s + t <= 1)
    return np.where(inside, np.minimum(best, np.einsum("nki,nki->nk", off, off)), best)
