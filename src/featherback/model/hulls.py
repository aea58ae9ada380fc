"""Convex hulls of meshes as the core reads them: vertices, neighbours, faces.

MuJoCo's compiler gives the vertices of a hull and its triangles. Triangles that lie in one plane
are merged here into faces, since a face against a face touches in several points.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from featherback._typing import Array, Ints
from featherback.errors import ModelError

if TYPE_CHECKING:
    import mujoco

COPLANAR = 4e-4
"""Triangles whose normals differ by less [rad] from that of the largest among them are one face."""
MOST_CORNERS = 32
"""Corners of a face that the core can cut; of more, those that span least area are left out."""
HULL_GRID = 8
"""Cells along each edge of the cube on whose sides the farthest vertices are known."""
MOST_VERTICES = 65_536
"""Vertices that the feature of a contact point can number."""


def hull_vertices(m: mujoco.MjModel, mesh: int) -> Array:
    """Return float64[n, 3], the vertices of a mesh's convex hull."""
    first = m.mesh_vertadr[mesh]
    points = m.mesh_vert[first : first + m.mesh_vertnum[mesh]].astype(np.float64)
    graph = m.mesh_graphadr[mesh]
    if graph < 0:
        return points
    n = int(m.mesh_graph[graph])
    if n > MOST_VERTICES:
        raise ModelError(
            f'mesh "{m.mesh(mesh).name}": its hull has {n} vertices; at most {MOST_VERTICES} are '
            'allowed. Give it maxhullvert="500", or fewer vertices.'
        )
    return points[m.mesh_graph[graph + 2 + n : graph + 2 + 2 * n]]


def hull_triangles(m: mujoco.MjModel, mesh: int) -> Ints:
    """Return int32[k, 3], the triangles of a hull by its vertices; none if it was not computed."""
    graph = m.mesh_graphadr[mesh]
    if graph < 0:
        return np.zeros((0, 3), np.int32)
    n, faces = (int(x) for x in m.mesh_graph[graph : graph + 2])
    own = m.mesh_graph[graph + 2 + n : graph + 2 + 2 * n]
    start = graph + 2 + 3 * n + 3 * faces
    corners = m.mesh_graph[start : start + 3 * faces]
    number = np.zeros(int(max(own.max(), corners.max())) + 1, np.int32)
    number[own] = np.arange(n)
    return number[corners].reshape(-1, 3)


def hull_words(points: Array, triangles: Ints) -> Ints:
    """Return the topology of a hull as the core reads it (`core/collision/convex_shape.hpp`).

    The number of faces; where the neighbours of each vertex, the corners of each face and the faces
    of each vertex begin, and after the last of them end; then those lists, and for each direction
    of a grid on the sides of a cube the vertex that lies farthest along it.
    """
    if len(triangles) == 0:
        return np.zeros(1, np.int32)
    n = len(points)
    triangles = outward(points, triangles)
    merged = merged_faces(points, triangles)
    faces = [_thinned(points, loop) for loop, _ in merged]
    neighbours: list[set[int]] = [set() for _ in range(n)]
    for i, j, k in triangles.tolist():
        neighbours[i].update((j, k))
        neighbours[j].update((i, k))
        neighbours[k].update((i, j))
    around: list[list[int]] = [[] for _ in range(n)]
    for number, (_, members) in enumerate(merged):
        for vertex in members:
            around[vertex].append(number)
    lists = [*(sorted(x) for x in neighbours), *faces, *around]
    heads = (n + 1) + (len(faces) + 1) + (n + 1)
    words = [len(faces)]
    at = 1 + heads
    for part in (lists[:n], lists[n : n + len(faces)], lists[n + len(faces) :]):
        for entry in part:
            words.append(at)
            at += len(entry)
        words.append(at)
    lists.append(farthest_vertices(points))
    return np.array(words + [k for entry in lists for k in entry], np.int32)


def farthest_vertices(points: Array) -> list[int]:
    """Return the vertices farthest along the middles of the cells on the sides of a cube.

    Sides go from the lower to the upper one of each axis; cells of one by the axis after that, then
    by the one before it.
    """
    middle = (2 * np.arange(HULL_GRID) + 1) / HULL_GRID - 1
    u, w = (x.ravel() for x in np.meshgrid(middle, middle, indexing="ij"))
    found: list[int] = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            along = np.empty((3, u.size))
            along[axis], along[(axis + 1) % 3], along[(axis + 2) % 3] = side, u, w
            found += np.argmax(points @ along, axis=0).tolist()
    return found


def merged_faces(points: Array, triangles: Ints) -> list[tuple[list[int], list[int]]]:
    """Return the faces of a hull: corners, counter-clockwise from outside, and all vertices."""
    corner = points[triangles]
    across = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    area = np.linalg.norm(across, axis=1)
    normal = across / np.maximum(area, 1e-300)[:, None]
    # plain lists: a hull of a robot has thousands of triangles, most of them faces by themselves
    corners: list[list[int]] = triangles.tolist()
    owner = {(t[k], t[(k + 1) % 3]): i for i, t in enumerate(corners) for k in range(3)}
    normals: list[list[float]] = normal.tolist()
    free = [True] * len(corners)
    faces: list[tuple[list[int], list[int]]] = []
    for seed in np.argsort(-area, kind="stable").tolist():
        if not free[seed]:
            continue
        group = _flood(seed, corners, normals, owner, free)
        loop = _boundary([corners[i] for i in group])
        if len(loop) > 2:
            faces.append((loop, sorted({k for i in group for k in corners[i]})))
        else:
            faces += [(corners[i], corners[i]) for i in group]
    return faces


def outward(points: Array, triangles: Ints) -> Ints:
    """Return the triangles with normals that point away from the middle."""
    corner = points[triangles]
    across = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    inward = np.einsum("ij,ij->i", across, corner.mean(axis=1) - points.mean(axis=0)) < 0
    out = triangles.copy()
    out[inward] = out[inward][:, ::-1]
    return out


def _flood(
    seed: int,
    triangles: list[list[int]],
    normal: list[list[float]],
    owner: dict[tuple[int, int], int],
    free: list[bool],
) -> list[int]:
    """Take the free triangles around a seed whose normal is the seed's."""
    group: list[int] = []
    todo = [seed]
    free[seed] = False
    x, y, z = normal[seed]
    while todo:
        i = todo.pop()
        group.append(i)
        a, b, c = triangles[i]
        for edge in ((b, a), (c, b), (a, c)):
            j = owner.get(edge)
            if j is None or not free[j]:
                continue
            u, v, w = normal[j]
            across = math.hypot(y * w - z * v, z * u - x * w, x * v - y * u)
            if across < COPLANAR and x * u + y * v + z * w > 0:
                free[j] = False
                todo.append(j)
    return group


def _boundary(triangles: list[list[int]]) -> list[int]:
    """Return the loop around some triangles; empty if it is not one."""
    edges = {(t[k], t[(k + 1) % 3]) for t in triangles for k in range(3)}
    after = dict(edge for edge in edges if edge[::-1] not in edges)
    if not after:
        return []
    start = min(after)
    loop = [start]
    while (vertex := after.get(loop[-1], start)) != start and len(loop) <= len(after):
        loop.append(vertex)
    return loop if len(loop) == len(after) == sum(e[::-1] not in edges for e in edges) else []


def _thinned(points: Array, loop: list[int]) -> list[int]:
    """Return a loop of at most MOST_CORNERS corners; those that take least area away go first."""
    loop = list(loop)
    while len(loop) > MOST_CORNERS:
        x = points[loop]
        cut = np.cross(x - np.roll(x, 1, axis=0), np.roll(x, -1, axis=0) - x)
        del loop[int(np.argmin(np.linalg.norm(cut, axis=1)))]
    return loop
