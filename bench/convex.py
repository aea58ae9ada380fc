"""How long the convex routine takes against MuJoCo's, pair by pair, in one program on one core.

    python bench/convex.py [--worlds 2000] [--rounds 5]

Shapes of 5 to 15 cm, turned at random, in three bands of gaps. Ours is all that a step needs:
contact points of shapes nearer than 5 mm, with their records; its adjoint is that of all points.
MuJoCo's are mj_geomDistance and the collision function of the pair with a margin of 5 mm. Needs a
build with FEATHERBACK_ORACLE, which brings the shapes to their gaps, and g++.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
from report import ROOT
from timing import one_core

sys.path.insert(0, str(ROOT))
from featherback._core import shape_types
from tests.core.placing import SIZES, rotations
from tests.core.test_collision import CONVEX, NO_MESH, Array, Reference, framed, pairs, words_of

SHAPES = dict(shape_types())
FLAGS = (
    "-std=c++20 -O3 -march=native -fno-math-errno -ffp-contract=off -fno-tree-vectorize "
    "-fno-tree-slp-vectorize -fPIC -shared -DFB_ISA=bench -Wno-psabi"
).split()
BANDS = {"30..100 mm": (0.03, 0.1), "0..5 mm": (0.0, 0.005), "-3..0 mm": (-0.003, 0.0)}
MARGIN = 0.005
HULLS = (32, 500)


class Placements(ctypes.Structure):
    """The struct of the same name in bench/profiling/convex.cpp."""

    _fields_ = (
        ("type", ctypes.c_int * 2),
        ("worlds", ctypes.c_int),
        ("rows", ctypes.c_int),
        ("words", ctypes.c_int),
        *((name, ctypes.c_void_p) for name in ("a", "b", "vert", "hull")),
    )


def build(folder: Path) -> ctypes.CDLL:
    """Compile the program's library."""
    package = Path(mujoco.__file__).parent
    library = next(package.glob("libmujoco.so*"))
    target = folder / "convex.so"
    source = ROOT / "bench" / "profiling" / "convex.cpp"
    command = [
        "g++",
        *FLAGS,
        f"-I{ROOT}",
        f"-I{package / 'include'}",
        str(source),
        "-o",
        str(target),
    ]
    subprocess.run([*command, str(library), f"-Wl,-rpath,{package}"], check=True)
    found = ctypes.CDLL(str(target))
    for name in ("time_ours", "time_adjoint", "time_mujoco"):
        getattr(found, name).restype = ctypes.c_double
    return found


def placed(kind: str, band: tuple[float, float], worlds: int, vert: Array) -> tuple[Array, Array]:
    """Return shapes turned at random, at gaps within a band."""
    rng = np.random.default_rng(1)
    one, two = kind.split("-")
    a, b = np.zeros((worlds, 15)), np.zeros((worlds, 15))
    for name, table in ((one, a), (two, b)):
        table[:, 3:12] = rotations(rng, worlds).reshape(-1, 9)
        table[:, 12:] = SIZES[name]
    b[:, :3] = 0.1 * rng.normal(size=(worlds, 3))
    gap = rng.uniform(*band, worlds)
    for _ in range(2):
        found = pairs(kind, a, b, vert).closest()
        b[:, :3] += found[:, 1:4] * (gap - found[:, 0])[:, None]
    return a, b


def mujoco_poses(reference: Reference, a: Array, b: Array) -> Array:
    """Return (worlds, 24), positions and rotations of both geoms as MuJoCo has them."""
    data, rows = reference.data, []
    for pair in zip(a, b, strict=True):
        reference.distance(*pair)
        rows.append(np.concatenate([np.r_[data.geom_xpos[k], data.geom_xmat[k]] for k in range(2)]))
    return np.ascontiguousarray(rows)


def timed(call: Callable[[], float], rounds: int) -> float:
    """Return the least of some rounds."""
    return min(call() for _ in range(rounds))


def row(library: ctypes.CDLL, kind: str, points: int, options: argparse.Namespace) -> str:
    """Measure one pair; its name, and per band ours, its adjoint, MuJoCo's distance, collision."""
    rng = np.random.default_rng(points)
    x = rng.normal(size=(points, 3))
    x = x / np.linalg.norm(x, axis=1, keepdims=True) * [0.1, 0.08, 0.07]
    vert = framed(x) if "mesh" in kind else NO_MESH
    words, reference = words_of(vert), Reference(kind, vert)
    types = [SHAPES[name] for name in kind.split("-")]
    total, margin = ctypes.c_double(0), ctypes.c_double(MARGIN)
    model, data = (ctypes.c_void_p(x._address) for x in (reference.model, reference.data))
    native = ctypes.CDLL(str(next(Path(mujoco.__file__).parent.glob("libmujoco.so*"))))
    count = int(mujoco.mjtGeom.mjNGEOMTYPES)
    table = (ctypes.c_void_p * (count * count)).in_dll(native, "mjCOLLISIONFUNC")
    collide = ctypes.c_void_p(table[types[0] * count + types[1]])
    distance = ctypes.cast(native.mj_geomDistance, ctypes.c_void_p)
    cells = []
    for band in BANDS.values():
        a, b = placed(kind, band, options.worlds, vert)
        poses = mujoco_poses(reference, a, b)
        given = Placements(
            (ctypes.c_int * 2)(*types),
            len(a),
            len(vert),
            len(words),
            *(array.ctypes.data for array in (a, b, vert, words)),
        )
        at = (ctypes.byref(given), margin, ctypes.byref(total))
        theirs = (model, data, ctypes.c_void_p(poses.ctypes.data), len(a))
        end = (margin, ctypes.byref(total))
        cells += [
            timed(lambda at=at: library.time_ours(*at), options.rounds),
            timed(lambda at=at: library.time_adjoint(*at), options.rounds),
            timed(
                lambda t=theirs, e=end: library.time_mujoco(*t, distance, None, *e), options.rounds
            ),
            timed(
                lambda t=theirs, e=end: library.time_mujoco(*t, None, collide, *e), options.rounds
            ),
        ]
    name = kind.replace("mesh", f"mesh{points}") if "mesh" in kind else kind
    return f"{name:20}" + "".join(f"{x:9.0f}" for x in cells)


def main() -> None:
    """Print the table in nanoseconds."""
    parser = argparse.ArgumentParser(description="Time the convex routine against MuJoCo's.")
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with one_core(), tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        print("ns a placement: ours, its adjoint, mj_geomDistance, MuJoCo's collision function")
        print(" " * 20 + "".join(f"{band:>36}" for band in BANDS))
        for kind in CONVEX:
            for points in HULLS if "mesh" in kind else HULLS[:1]:
                print(row(library, kind, points, options), flush=True)


if __name__ == "__main__":
    main()
