"""Tests of the picture strip; they need MuJoCo and no engine."""

import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest

from featherback.errors import FeatherbackError
from featherback.experiments import strip

pytest.importorskip("matplotlib")

SHAPES = """
<mujoco>
  <asset><mesh name="wedge" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/></asset>
  <worldbody>
    <geom type="plane" size="1 1 .1"/>
    <body pos="0 0 .5">
      <freejoint/>
      <geom type="sphere" size=".1"/>
      <geom type="capsule" size=".03 .1" pos=".2 0 0"/>
      <geom type="cylinder" size=".05 .1" pos=".4 0 0"/>
      <geom type="ellipsoid" size=".05 .08 .1" pos=".6 0 0"/>
      <geom type="box" size=".05 .08 .1" pos=".8 0 0"/>
      <geom type="mesh" mesh="wedge" pos="1 0 0"/>
      <geom type="sphere" size=".1" rgba="0 0 0 0"/>
    </body>
  </worldbody>
</mujoco>
"""


def volume(surface: strip.Surface) -> float:
    """Return the volume inside a surface by the divergence theorem, negative if inside out."""
    a, b, c, d = (surface.points[surface.faces[:, k]] for k in range(4))
    total = np.einsum("ij,ij->i", a, np.cross(b, c)) + np.einsum("ij,ij->i", a, np.cross(c, d))
    return float(total.sum() / 6.0)


@pytest.mark.parametrize(
    ("surface", "exact"),
    [
        (strip.capsule(0.1, 0.0), 4.0 / 3.0 * np.pi * 1e-3),
        (strip.capsule(0.1, 0.2), 4.0 / 3.0 * np.pi * 1e-3 + np.pi * 0.01 * 0.4),
        (strip.cylinder(0.1, 0.2), np.pi * 0.01 * 0.4),
        (strip.box(np.array([0.1, 0.2, 0.3])), 8.0 * 0.006),
    ],
    ids=["sphere", "capsule", "cylinder", "box"],
)
def test_surfaces_are_closed_and_wind_outwards(surface: strip.Surface, exact: float) -> None:
    """Enclose the volume of the shape, up to the 28 corners of a circle."""
    assert 0.97 * exact < volume(surface) <= exact * (1.0 + 1e-12)


def test_camera_is_right_handed() -> None:
    """Keep right, up and towards orthonormal, with up pointing up."""
    axes = np.stack(strip.camera())
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-15)
    assert np.linalg.det(axes) > 0.0
    assert axes[1, 2] > 0.9


def test_draws_every_shape(tmp_path: Path) -> None:
    """Write a PNG with one drawing per moment, planes and invisible geoms left out."""
    model = mujoco.MjModel.from_xml_string(SHAPES)
    drawn = [strip.geom_surface(model, geom) is not None for geom in range(model.ngeom)]
    assert drawn == [False, True, True, True, True, True, True, False]
    q = np.repeat(model.qpos0[None], 2, axis=0)
    path = strip.draw_strip(model, q, (0.0, 1.0), tmp_path / "new" / "strip.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_model_without_geoms_has_its_sentence(tmp_path: Path) -> None:
    """Refuse a model that shows nothing."""
    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><geom type='plane' size='1 1 1'/></worldbody></mujoco>"
    )
    with pytest.raises(FeatherbackError) as caught:
        strip.draw_strip(model, np.zeros((1, 0)), (0.0,), tmp_path / "strip.png")
    assert str(caught.value) == (
        "draw_strip(): the model has no visible geoms; give one a size and alpha."
    )


def test_missing_matplotlib_has_its_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Name the extra to install when matplotlib is missing."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    model = mujoco.MjModel.from_xml_string(SHAPES)
    with pytest.raises(FeatherbackError) as caught:
        strip.draw_strip(model, model.qpos0[None], (0.0,), tmp_path / "strip.png")
    assert str(caught.value) == (
        "draw_strip(): matplotlib is not installed; pictures need it: "
        "pip install 'featherback[plot]'."
    )
