"""A picture strip: one robot at several moments, side by side on one ground line.

Shapes are tessellated, seen by a parallel projection from the side and a little above, shaded by
one lamp and painted from back to front. Planes are the ground; height fields are left out.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from featherback.errors import FeatherbackError
from featherback.experiments.files import write_bytes

if TYPE_CHECKING:
    import mujoco

Array = NDArray[np.float64]

AZIMUTH = np.deg2rad(24.0)  # turn of the camera from the plain side view [rad]
ELEVATION = np.deg2rad(12.0)  # height of the camera over the horizon [rad]
LAMP = np.array([0.25, -0.45, 0.86])  # direction towards the lamp, world axes
GAP = 0.22  # space between two moments, relative to the width of one
ROUND = 28  # corners of a circle
FACETS = 10  # cells along the edge of a box face

SKY = "#ffffff"
GROUND = "#e9ebee"
SHADOW = "#ccd0d6"
LINE = "#9aa1ab"
INK = "#2b2f36"


@dataclass(frozen=True)
class Surface:
    """Closed surface: points float64[n, 3] and quadrilaterals int[m, 4] that wind outwards."""

    points: Array
    faces: NDArray[np.intp]


@dataclass(frozen=True)
class Picture:
    """Faces of one moment on the screen, unordered, and the shadow they throw."""

    faces: Array  # float64[m, 4, 2]
    depth: Array  # float64[m], larger is nearer
    colour: Array  # float64[m, 3]
    shadow: Array  # float64[k, 4, 2]


def camera() -> tuple[Array, Array, Array]:
    """Return the unit vectors right, up and towards the camera, in world axes."""
    ca, sa = np.cos(AZIMUTH), np.sin(AZIMUTH)
    ce, se = np.cos(ELEVATION), np.sin(ELEVATION)
    right = np.array([ca, sa, 0.0])
    towards = np.array([sa * ce, -ca * ce, se])
    return right, np.cross(towards, right), towards


def grid_faces(rows: int, columns: int) -> NDArray[np.intp]:
    """Return the cells of a grid of ``rows`` x ``columns`` points as quadrilaterals."""
    index = np.arange(rows * columns).reshape(rows, columns)
    corners = (index[:-1, :-1], index[:-1, 1:], index[1:, 1:], index[1:, :-1])
    return np.stack([corner.ravel() for corner in corners], axis=1)


def revolved(radius: Array, height: Array) -> Surface:
    """Return the profile (radius, height), bottom to top, turned about z."""
    angle = np.linspace(0.0, 2.0 * np.pi, ROUND + 1)
    x, y = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)
    z = np.broadcast_to(height[:, None], x.shape)
    return Surface(np.stack([x, y, z], axis=-1).reshape(-1, 3), grid_faces(len(radius), ROUND + 1))


def capsule(radius: float, half: float) -> Surface:
    """Return a capsule along z; a sphere when ``half`` is zero."""
    polar = np.linspace(-0.5 * np.pi, 0.5 * np.pi, ROUND // 2 + 2)
    stretch = np.where(polar < 0.0, -half, half)
    return revolved(radius * np.cos(polar), radius * np.sin(polar) + stretch)


def cylinder(radius: float, half: float) -> Surface:
    """Return a cylinder along z, its side cut into cells so that it sorts by depth."""
    height = np.linspace(-half, half, FACETS)
    rim = np.full(FACETS, radius)
    return revolved(np.r_[0.0, rim, 0.0], np.r_[-half, height, half])


def box(half: Array) -> Surface:
    """Return a box with half edges ``half``."""
    edge = np.linspace(-1.0, 1.0, FACETS + 1)
    first, second = (side.ravel() for side in np.meshgrid(edge, edge, indexing="ij"))
    cells = grid_faces(FACETS + 1, FACETS + 1)
    points: list[Array] = []
    faces: list[NDArray[np.intp]] = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            side = np.empty((first.size, 3))
            side[:, axis] = sign
            side[:, (axis + 1) % 3], side[:, (axis + 2) % 3] = first, second
            # (axis, axis + 1, axis + 2) is right-handed and the grid winds against it
            turned = cells[:, ::-1] if sign > 0.0 else cells
            faces.append(turned + len(points) * first.size)
            points.append(side)
    return Surface(np.concatenate(points) * half, np.concatenate(faces))


def mesh(model: mujoco.MjModel, mesh_id: int) -> Surface:
    """Return a mesh of the model, triangles as quadrilaterals with a repeated corner."""
    points = model.mesh_vert[model.mesh_vertadr[mesh_id] :][: model.mesh_vertnum[mesh_id]]
    faces = model.mesh_face[model.mesh_faceadr[mesh_id] :][: model.mesh_facenum[mesh_id]]
    return Surface(np.array(points, float), np.array(faces, np.intp)[:, [0, 1, 2, 2]])


def geom_surface(model: mujoco.MjModel, geom: int) -> Surface | None:
    """Return the surface of a geom in its own frame, or None where there is nothing to draw."""
    import mujoco

    size = np.array(model.geom_size[geom], float)
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))
    if model.geom_rgba[geom, 3] == 0.0:
        return None
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return capsule(size[0], 0.0)
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return capsule(size[0], size[1])
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        unit = capsule(1.0, 0.0)
        return Surface(unit.points * size, unit.faces)
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return cylinder(size[0], size[1])
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return box(size)
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        return mesh(model, int(model.geom_dataid[geom]))
    return None


def shade(normal: Array, rgb: Array) -> Array:
    """Return face colours float64[m, 3] from unit normals: a lamp, the sky, a highlight."""
    lamp = LAMP / np.linalg.norm(LAMP)
    half = lamp + camera()[2]
    half /= np.linalg.norm(half)
    diffuse = 0.5 + 0.5 * normal @ lamp
    gloss = np.clip(normal @ half, 0.0, 1.0) ** 24
    colour = (
        rgb * (0.38 + 0.72 * diffuse[:, None]) + 0.10 * diffuse[:, None] + 0.22 * gloss[:, None]
    )
    return np.clip(colour, 0.0, 1.0)


def picture(model: mujoco.MjModel, data: mujoco.MjData) -> Picture:
    """Return the faces of all drawable geoms at the poses in ``data``."""
    right, up, towards = camera()
    screen = np.stack([right, up], axis=1)
    parts: list[tuple[Array, Array, Array, Array]] = []
    for geom in range(model.ngeom):
        surface = geom_surface(model, geom)
        if surface is None:
            continue
        points = surface.points @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
        corners = points[surface.faces]
        # the cross product of the diagonals is right for triangles too, where two corners coincide
        normal = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
        area = np.linalg.norm(normal, axis=1)
        keep = area > 1e-12
        corners, normal = corners[keep], normal[keep] / area[keep, None]
        seen = normal @ towards > 0.0
        dropped = corners - corners[..., 2:] * (LAMP / LAMP[2])
        lit = normal @ LAMP > 0.0
        parts.append(
            (
                corners[seen] @ screen,
                corners[seen].mean(axis=1) @ towards,
                shade(normal[seen], np.array(model.geom_rgba[geom, :3], float)),
                dropped[lit] @ screen,
            )
        )
    if not parts:
        raise FeatherbackError(
            "draw_strip(): the model has no visible geoms; give one a size and alpha."
        )
    faces, depth, colour, shadow = (np.concatenate(group) for group in zip(*parts, strict=True))
    return Picture(faces, depth, colour, shadow)


def pictures(model: mujoco.MjModel, q: Array) -> list[Picture]:
    """Return one picture per row of ``q``, float64[moments, nq]."""
    import mujoco

    data = mujoco.MjData(model)
    result: list[Picture] = []
    for row in q:
        data.qpos[:] = row
        mujoco.mj_kinematics(model, data)
        result.append(picture(model, data))
    return result


def paint(axes: Any, moment: Picture, offset: float) -> None:
    """Paint one moment, shifted to the right by ``offset`` [m]."""
    from matplotlib.collections import PolyCollection

    shift = np.array([offset, 0.0])
    axes.add_collection(
        PolyCollection(list(moment.shadow + shift), facecolors=SHADOW, edgecolors=SHADOW)
    )
    order = np.argsort(moment.depth, kind="stable")
    colour = moment.colour[order]
    axes.add_collection(
        PolyCollection(
            list(moment.faces[order] + shift), facecolors=colour, edgecolors=colour, linewidths=0.7
        )
    )


def paint_ground(axes: Any, left: float, right: float, bottom: float, horizon: float) -> None:
    """Paint the ground and its far edge."""
    axes.fill_between([left, right], bottom, horizon, color=GROUND, linewidth=0.0, zorder=0)
    axes.plot([left, right], [horizon, horizon], color=LINE, linewidth=0.9, zorder=0)


def draw_strip(model: mujoco.MjModel, q: Array, times: Sequence[float], path: Path) -> Path:
    """Draw a model at several moments and save the picture.

    Args:
        model: compiled MuJoCo model; only its geoms and kinematics are used.
        q: configurations, float64[moments, nq].
        times: the moments [s], one per row of ``q``.
        path: file to write; the suffix names the format.

    Returns:
        ``path``.

    Raises:
        FeatherbackError: matplotlib is not installed, or the model shows nothing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FeatherbackError(
            "draw_strip(): matplotlib is not installed; pictures need it: "
            "pip install 'featherback[plot]'."
        ) from None
    moments = pictures(model, q)
    corners = np.concatenate([p.faces.reshape(-1, 2) for p in moments])
    ground = np.concatenate([p.shadow.reshape(-1, 2) for p in moments])
    low, high = corners.min(axis=0), corners.max(axis=0)
    width, height = high - low
    pitch = width * (1.0 + GAP)

    # limits: the ground reaches a little behind and before everything that stands on it
    left, right = low[0] - 0.6 * GAP * width, low[0] + pitch * len(moments) - 0.4 * GAP * width
    bottom = min(low[1], ground[:, 1].min()) - 0.30 * height
    top = high[1] + 0.12 * height
    horizon = ground[:, 1].max() + 0.06 * height

    inches = 15.0
    figure = Figure(
        figsize=(inches, inches * (top - bottom) / (right - left)), dpi=150, facecolor=SKY
    )
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_axis_off()
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    paint_ground(axes, left, right, bottom, horizon)
    for index, (moment, time) in enumerate(zip(moments, times, strict=True)):
        paint(axes, moment, index * pitch)
        centre = low[0] + 0.5 * width + index * pitch
        axes.text(
            centre, bottom + 0.09 * height, f"{time:.2f} s", ha="center", color=INK, fontsize=13
        )
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return write_bytes(path, picture.getvalue())
