"""How long a convex hull on a plane takes against MuJoCo's routine, on one core.

    python bench/plane_hull.py [--worlds 2000] [--rounds 5]

Hulls of points on an ellipsoid, turned at random, which reach 1 mm into the plane. Ours is walked
and scanned, one world and several in a number; hulls of few vertices are always scanned. Needs g++.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
from convex import FLAGS
from report import ROOT
from timing import one_core

from featherback.model.hulls import hull_triangles, hull_vertices, hull_words

POINTS = (8, 32, 100, 500, 5000)
# worlds in a number, and whether it is float32
NUMBERS = {"double": (1, 0), "4 doubles": (4, 0), "float": (1, 1), "8 floats": (8, 1)}
DEPTH = 0.001
Array = np.ndarray


class Hulls(ctypes.Structure):
    """The struct of the same name in bench/profiling/plane_hull.cpp."""

    _fields_ = (
        ("worlds", ctypes.c_int),
        ("nvert", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("pose", "vert", "hull")),
    )


def build(folder: Path) -> ctypes.CDLL:
    """Compile the program's library."""
    package = Path(mujoco.__file__).parent
    target = folder / "plane_hull.so"
    source = ROOT / "bench" / "profiling" / "plane_hull.cpp"
    includes = [f"-I{ROOT}", f"-I{package / 'include'}"]
    subprocess.run(["g++", *FLAGS, *includes, str(source), "-o", str(target)], check=True)
    found = ctypes.CDLL(str(target))
    for name in ("time_ours", "time_mujoco"):
        getattr(found, name).restype = ctypes.c_double
    return found


def model_of(points: int) -> mujoco.MjModel:
    """Return a plane and the hull of points on an ellipsoid."""
    x = np.random.default_rng(points).normal(size=(points, 3))
    x = x / np.linalg.norm(x, axis=1, keepdims=True) * [0.1, 0.08, 0.07]
    text = " ".join(str(v) for v in x.ravel())
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><asset><mesh name="h" vertex="{text}"/></asset><worldbody><geom type="plane" '
        'size="0 0 1"/><body><freejoint/><geom type="mesh" mesh="h"/></body></worldbody></mujoco>'
    )


def placed(vertices: Array, worlds: int) -> Array:
    """Return (worlds, 12), poses that reach into the plane."""
    rng = np.random.default_rng(1)
    turns, _ = np.linalg.qr(rng.normal(size=(worlds, 3, 3)))
    turns *= np.linalg.det(turns)[:, None, None]
    poses = np.zeros((worlds, 12))
    poses[:, 3:] = turns.reshape(-1, 9)
    poses[:, 2] = -(turns[:, 2] @ vertices.T).min(axis=1) - DEPTH
    return poses


def timed(call: Callable[[], float], rounds: int) -> float:
    """Return the least of some rounds."""
    return min(call() for _ in range(rounds))


def row(library: ctypes.CDLL, points: int, options: argparse.Namespace) -> str:
    """Measure one hull: walked and scanned in each number, then MuJoCo's."""
    model = model_of(points)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    vertices = hull_vertices(model, 0)
    words = hull_words(vertices, hull_triangles(model, 0))
    poses = placed(vertices, options.worlds)
    numbers = np.concatenate([np.eye(3).ravel(), np.zeros(3), np.ones(3), vertices.ravel()])
    total, far, cells = ctypes.c_double(0), ctypes.c_double(DEPTH), []
    tables = poses.ctypes.data, numbers.ctypes.data
    for how in NUMBERS.values():
        for hull in (words.ctypes.data, None):
            given = Hulls(len(poses), len(vertices), *tables, hull)
            at = (ctypes.byref(given), *how, far, ctypes.byref(total))
            cells.append(timed(lambda at=at: library.time_ours(*at), options.rounds))
    native = ctypes.CDLL(str(next(Path(mujoco.__file__).parent.glob("libmujoco.so*"))))
    count, kinds = int(mujoco.mjtGeom.mjNGEOMTYPES), model.geom_type
    table = (ctypes.c_void_p * (count * count)).in_dll(native, "mjCOLLISIONFUNC")
    collide = ctypes.c_void_p(table[int(kinds[0]) * count + int(kinds[1])])
    theirs = tuple(ctypes.c_void_p(x) for x in (model._address, data._address, tables[0]))
    end = (len(poses), collide, ctypes.c_double(0), ctypes.byref(total))
    cells.append(timed(lambda: library.time_mujoco(*theirs, *end), options.rounds))
    return f"{points:8}" + "".join(f"{x:10.0f}" for x in cells)


def main() -> None:
    """Print the table in nanoseconds."""
    parser = argparse.ArgumentParser(description="Time hulls on a plane against MuJoCo's routine.")
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with one_core(), tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        print("ns a placement: walked and scanned in each number, then MuJoCo's collision function")
        print("vertices" + "".join(f"{name:>20}" for name in NUMBERS) + f"{'MuJoCo':>10}")
        for points in POINTS:
            print(row(library, points, options), flush=True)


if __name__ == "__main__":
    main()
