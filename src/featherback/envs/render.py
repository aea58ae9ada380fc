"""Pictures of a world by casting rays in NumPy: no display, GL library or window is needed.

Spheres, capsules, cylinders, ellipsoids, boxes and planes are drawn as they are; meshes as the box
around them. A picture of a robot takes a few milliseconds to some tens of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from featherback._typing import Array
from featherback.errors import ParameterError
from featherback.model import Model

if TYPE_CHECKING:
    from featherback.envs.task import Task

WIDTH, HEIGHT = 320, 240
VIEW = np.deg2rad(45.0)  # angle between the upper and the lower edge
SKY = np.array([0.78, 0.87, 0.96])
FLOOR = (np.array([0.80, 0.80, 0.80]), np.array([0.70, 0.70, 0.72]))
SUN = np.array([0.35, -0.45, 0.82])
AMBIENT = 0.45
FAR = 1e9
VISIBLE_GROUPS = 3


def check_render_mode(where: str, mode: str | None) -> str | None:
    """Refuse what is no way to show a world."""
    if mode not in (None, "rgb_array"):
        raise ParameterError(f'{where}: render_mode is {mode!r}; it must be "rgb_array" or None.')
    return mode


class Camera:
    """Takes pictures of one world of a model."""

    def __init__(self, task: Task, model: Model) -> None:
        """Note where to look from."""
        self._model, self._followed = model.mujoco, task.followed
        stat = self._model.stat
        default = (*stat.center, 2.0 * stat.extent, 90.0, -15.0)
        *look, self._distance, azimuth, elevation = task.camera or default
        if task.followed and task.camera is None:
            self._distance = max(1.5, 1.2 * float(stat.extent))
        self._look = np.array(look)
        a, e = np.deg2rad([azimuth, elevation])
        forward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
        right = np.array([np.sin(a), -np.cos(a), 0.0])
        self._axes = np.stack([right, np.cross(right, forward), forward])
        self._data: Any = None
        half = np.tan(0.5 * VIEW)
        y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
        across = (2.0 * (x + 0.5) - WIDTH) / HEIGHT * half
        down = (2.0 * (y + 0.5) / HEIGHT - 1.0) * half
        rays = np.stack([across, -down, np.ones_like(across)], -1) @ self._axes
        self._rays = rays / np.linalg.norm(rays, axis=-1, keepdims=True)

    def picture(self, q: Array) -> NDArray[np.uint8]:
        """Return the picture of a configuration, uint8[height, width, 3]."""
        m = self._model
        if self._data is None:
            self._data = mujoco.MjData(m)
        self._data.qpos[:] = q
        mujoco.mj_kinematics(m, self._data)
        look = self._look.copy()
        if self._followed:
            look = self._data.xpos[self._followed].copy()
        origin = look - self._distance * self._axes[2]
        depth = np.full((HEIGHT, WIDTH), FAR)
        colour = np.broadcast_to(SKY, (HEIGHT, WIDTH, 3)).copy()
        for geom in range(m.ngeom):
            self._draw(geom, origin, depth, colour)
        return np.asarray(np.clip(255.0 * colour, 0.0, 255.0), np.uint8)

    def _draw(self, geom: int, origin: Array, depth: Array, colour: Array) -> None:
        """Draw one geom where it is nearest."""
        m, d = self._model, self._data
        rgba = self._rgba(geom)
        if rgba[3] == 0.0 or m.geom_group[geom] >= VISIBLE_GROUPS:
            return
        place, turn = d.geom_xpos[geom], d.geom_xmat[geom].reshape(3, 3)
        rows = self._window(origin, place, float(m.geom_rbound[geom]))
        if rows is None:
            return
        rays = self._rays[rows]
        kind, size = int(m.geom_type[geom]), m.geom_size[geom]
        if kind == int(mujoco.mjtGeom.mjGEOM_MESH):
            place = place + turn @ m.geom_aabb[geom, :3]
            kind, size = int(mujoco.mjtGeom.mjGEOM_BOX), m.geom_aabb[geom, 3:]
        o, w = (origin - place) @ turn, rays @ turn
        with np.errstate(all="ignore"):
            t, normal = _hit(kind, size, o, w)
        near = (t > 0.0) & (t < depth[rows])
        if not near.any():
            return
        light = AMBIENT + (1.0 - AMBIENT) * np.clip((normal @ turn.T) @ SUN, 0.0, 1.0)
        paint = np.broadcast_to(rgba[:3], rays.shape)
        if kind == int(mujoco.mjtGeom.mjGEOM_PLANE):
            spot = o + t[..., None] * w
            odd = (np.floor(spot[..., 0]) + np.floor(spot[..., 1])) % 2.0 == 1.0
            paint = np.where(odd[..., None], FLOOR[1], FLOOR[0])
            # the floor fades into the sky
            fade = np.clip(t / (8.0 * self._distance), 0.0, 1.0)[..., None]
            shown = paint * light[..., None] * (1.0 - fade) + SKY * fade
        else:
            shown = paint * light[..., None]
        depth[rows] = np.where(near, t, depth[rows])
        colour[rows] = np.where(near[..., None], shown, colour[rows])

    def _rgba(self, geom: int) -> Array:
        """Return the colour of a geom, that of its material where it has one."""
        m = self._model
        material = int(m.geom_matid[geom])
        return np.array(m.mat_rgba[material] if material >= 0 else m.geom_rgba[geom], np.float64)

    def _window(self, origin: Array, place: Array, radius: float) -> Any:
        """Return the part of the picture that a ball covers, None where it is not seen."""
        if radius <= 0.0:
            return slice(None), slice(None)
        x, y, z = self._axes @ (place - origin)
        if z < -radius:
            return None
        if z <= 2.0 * radius:
            return slice(None), slice(None)
        scale = 0.5 * HEIGHT / np.tan(0.5 * VIEW)
        reach = scale * radius / (z - radius) * 1.2 + 2.0
        column, row = 0.5 * WIDTH + scale * x / z, 0.5 * HEIGHT - scale * y / z
        top, bottom = max(int(row - reach), 0), min(int(row + reach) + 1, HEIGHT)
        left, right = max(int(column - reach), 0), min(int(column + reach) + 1, WIDTH)
        return None if top >= bottom or left >= right else (slice(top, bottom), slice(left, right))


def _hit(kind: int, size: Array, o: Array, w: Array) -> tuple[Array, Array]:
    """Return how far rays o + t w go to a geom in its own frame, and its normal there."""
    shape = mujoco.mjtGeom(kind)
    if shape == mujoco.mjtGeom.mjGEOM_PLANE:
        t = np.where(w[..., 2] < 0.0, -o[2] / w[..., 2], FAR)
        return np.where(t > 0.0, t, FAR), np.broadcast_to([0.0, 0.0, 1.0], w.shape)
    if shape == mujoco.mjtGeom.mjGEOM_SPHERE:
        return _ellipsoid(np.full(3, size[0]), o, w)
    if shape == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        return _ellipsoid(size, o, w)
    if shape == mujoco.mjtGeom.mjGEOM_BOX:
        return _box(size, o, w)
    parts = [_tube(size, o, w)]
    if shape == mujoco.mjtGeom.mjGEOM_CAPSULE:
        for end in (-size[1], size[1]):
            parts.append(_ellipsoid(np.full(3, size[0]), o - [0.0, 0.0, end], w))
    elif shape == mujoco.mjtGeom.mjGEOM_CYLINDER:
        parts.extend(_lid(size, sign, o, w) for sign in (-1.0, 1.0))
    else:
        return np.full(w.shape[:-1], FAR), np.zeros_like(w)
    t, normal = parts[0]
    for other, turned in parts[1:]:
        nearer = other < t
        t, normal = np.where(nearer, other, t), np.where(nearer[..., None], turned, normal)
    return t, normal


def _ellipsoid(radii: Array, o: Array, w: Array) -> tuple[Array, Array]:
    """Return the near side of an ellipsoid."""
    a, b = o / radii, w / radii
    t = _root((b * b).sum(-1), (a * b).sum(-1), (a * a).sum(-1) - 1.0)
    normal = (o + t[..., None] * w) / radii**2
    return t, normal / np.linalg.norm(normal, axis=-1, keepdims=True)


def _tube(size: Array, o: Array, w: Array) -> tuple[Array, Array]:
    """Return the near side of an open cylinder about z."""
    a, b = o[:2], w[..., :2]
    t = _root((b * b).sum(-1), (a * b).sum(-1), (a * a).sum(-1) - size[0] ** 2)
    spot = o + t[..., None] * w
    t = np.where(np.abs(spot[..., 2]) <= size[1], t, FAR)
    return t, spot * [1.0, 1.0, 0.0] / size[0]


def _lid(size: Array, sign: float, o: Array, w: Array) -> tuple[Array, Array]:
    """Return one end of a cylinder."""
    t = (sign * size[1] - o[2]) / w[..., 2]
    spot = o[:2] + t[..., None] * w[..., :2]
    inside = (t > 0.0) & ((spot * spot).sum(-1) <= size[0] ** 2)
    return np.where(inside, t, FAR), np.broadcast_to([0.0, 0.0, sign], w.shape)


def _box(size: Array, o: Array, w: Array) -> tuple[Array, Array]:
    """Return the near side of a box."""
    one, other = (-size - o) / w, (size - o) / w
    first, last = np.minimum(one, other), np.maximum(one, other)
    t, axis = first.max(-1), first.argmax(-1)
    t = np.where((t <= last.min(-1)) & (t > 0.0), t, FAR)
    return t, np.eye(3)[axis] * -np.sign(w)


def _root(a: Array, b: Array, c: Array) -> Array:
    """Return the smaller root of a t^2 + 2 b t + c that is > 0, FAR where there is none."""
    inside = b * b - a * c
    t = (-b - np.sqrt(np.maximum(inside, 0.0))) / a
    return np.where((inside >= 0.0) & (t > 0.0), t, FAR)
