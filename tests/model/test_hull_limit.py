"""Hulls with fewer vertices on request."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import featherback as fb
from featherback.model.hull_limit import hull_distance
from featherback.model.hulls import hull_triangles, hull_vertices
from featherback.model.load import parse
from tests.model.helpers import INERTIAL, mjcf, notes, urdf


def ball(count: int, seed: int = 4) -> np.ndarray:
    """Return points on a unit sphere."""
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1)[:, None]


def cloud(points: np.ndarray) -> str:
    """Return an asset whose mesh has these points."""
    text = " ".join(repr(float(x)) for x in points.reshape(-1))
    return f'<asset><mesh name="m" vertex="{text}"/></asset>'


def distance_by_search(whole: np.ndarray, part: np.ndarray) -> float:
    """Return the largest distance of points from a hull, by descent on its weights."""
    worst = 0.0
    for point in whole:
        # Frank and Wolfe's method with steps back: the nearest point as a mean of the vertices
        weights = np.full(len(part), 1.0 / len(part))
        for _ in range(4000):
            gradient = part @ (weights @ part - point)
            low = int(np.argmin(gradient))
            high = int(np.argmax(np.where(weights > 0, gradient, -np.inf)))
            line = part[low] - part[high]
            square = float(line @ line)
            if square == 0 or gradient[high] - gradient[low] < 1e-13:
                break
            step = min((gradient[high] - gradient[low]) / square, weights[high])
            weights[low] += step
            weights[high] -= step
        worst = max(worst, float(np.linalg.norm(weights @ part - point)))
    return worst


def test_hulls_have_at_most_so_many_vertices() -> None:
    """Limit the hull under both engines, keep masses, and tell the error that was made."""
    text = mjcf('<geom type="mesh" mesh="m" pos="1 0 0"/>', before=cloud(ball(300)))
    whole, less = parse(text), parse(text, hull_vertices=40)
    assert len(hull_vertices(whole.mujoco, 0)) > 250
    assert 30 <= len(hull_vertices(less.mujoco, 0)) <= 40
    assert less.mujoco.body_mass == pytest.approx(whole.mujoco.body_mass, rel=1e-12)
    (note,) = notes(less, "approximated")
    assert '"m"' in note and "hull_vertices=40" in note
    assert not notes(whole, "approximated")
    told = float(note.split("at most ")[1].split(" m")[0])
    assert 0.02 < told < 0.3
    model = fb.load(text, hull_vertices=40)
    assert "approximated" in model.report()
    assert model.structure.sizes["nvert"] < fb.load(text).structure.sizes["nvert"] - 200


def test_masses_that_come_from_hulls_stay(tmp_path: Path) -> None:
    """Keep mass, inertia and centre of a link whose shape gives them."""
    points = ball(200) * [0.1, 0.2, 0.3]
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in points.tolist()]
    # a mesh needs triangles; its hull is that of the points
    rows += [f"f {i + 1} {i + 2} {i + 3}" for i in range(0, 198, 3)]
    (tmp_path / "m.obj").write_text("\n".join([*rows, "f 199 200 1"]))
    path = tmp_path / "robot.urdf"
    shape = '<collision><geometry><mesh filename="m.obj"/></geometry></collision>'
    path.write_text(urdf(link=shape, base=INERTIAL))
    whole, less = parse(path), parse(path, hull_vertices=20)
    assert len(hull_vertices(less.mujoco, 0)) <= 20
    for name in ("body_mass", "body_inertia", "body_ipos", "body_subtreemass", "dof_invweight0"):
        ours, theirs = (getattr(m.mujoco, name) for m in (less, whole))
        assert ours == pytest.approx(theirs, rel=1e-9), name


def test_small_hulls_are_left_alone() -> None:
    """Leave hulls that are within the limit as they are, without a notice."""
    text = mjcf('<geom type="mesh" mesh="m"/>', before=cloud(ball(30)))
    whole, same = parse(text), parse(text, hull_vertices=30)
    assert np.array_equal(whole.mujoco.mesh_graph, same.mujoco.mesh_graph)
    assert not notes(same, "approximated")


@pytest.mark.parametrize("most", [5, 12, 60])
def test_the_error_is_the_largest_distance(most: int) -> None:
    """Compare the distance of the two hulls with a search that knows no triangles."""
    text = mjcf('<geom type="mesh" mesh="m"/>', before=cloud(ball(120, most) * [1, 2, 0.5]))
    less = parse(text, hull_vertices=most).mujoco
    part = hull_vertices(less, 0)
    points = less.mesh_vert.astype(float)
    found = hull_distance(points, part, hull_triangles(less, 0))
    assert found == pytest.approx(distance_by_search(points, part), abs=1e-4)
    assert found > 0


@pytest.mark.parametrize("value", [3, 0, -1, 2.5, True, "40"])
def test_a_limit_that_is_none_is_refused(value: object) -> None:
    """Refuse what is not a whole number of at least four."""
    with pytest.raises(fb.ParameterError, match=r"^load\(\): hull_vertices is .*integer >= 4"):
        fb.load(mjcf(), hull_vertices=value)  # type: ignore[arg-type]
