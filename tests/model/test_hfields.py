"""Height fields in files: heights, sizes, pairs, what is missing or too large."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ModelError
from featherback.model import hfields

HEIGHTS = np.array([[0.0, 0.25, 0.5], [1.0, 0.75, 0.125]])
ELEVATION = " ".join(map(str, HEIGHTS.ravel()))
FIELD = f'<hfield name="f" nrow="2" ncol="3" size="2 1 0.4 0.1" elevation="{ELEVATION}"/>'


def text(asset: str = FIELD, extra: str = "") -> str:
    """Return a ball and a plane with a height field."""
    return (
        f'<mujoco><asset>{asset}</asset><worldbody><geom name="t" type="hfield" hfield="f"/>'
        '<geom name="floor" type="plane" size="1 1 1" pos="0 0 -1"/>'
        '<body pos="0 0 1"><freejoint/><geom name="g" size="0.1"/></body></worldbody>'
        f"{extra}</mujoco>"
    )


def test_loads_as_mujoco_compiles_it() -> None:
    """Take heights, sizes and grid from the compiled model, without a word in the report."""
    model = fb.load(text())
    m, tables = model.mujoco, model.structure.tables
    assert model.structure.sizes["nhfield"] == 1
    np.testing.assert_array_equal(model.params["hfield_size"], [[2, 1, 0.4]])
    field = model.structure.vert[tables["geom_vert"][0] :]
    assert tables["geom_nvert"].tolist() == [6, 0, 0]
    np.testing.assert_array_equal(tables["hull"][tables["geom_hull"][0] :][:2], [2, 3])
    np.testing.assert_array_equal(field[:6], [*np.eye(3), [0, 0, 0], [2, 1, 0.4], [0.1, 0, 0]])
    np.testing.assert_allclose(field[6:8].ravel(), 0.4 * m.hfield_data, rtol=1e-7)
    assert "hfield" not in str(model.report())


def test_meets_solids_alone() -> None:
    """Pair the field with the ball and not with the plane, also where a <pair> names both."""
    both = '<contact><pair geom1="t" geom2="floor"/></contact>'
    for extra in ("", both):
        pairs = fb.load(text(extra=extra)).parsed.pairs
        assert sorted(zip(pairs.geom1.tolist(), pairs.geom2.tolist(), strict=True)) == [
            (0, 2),
            (1, 2),
        ]


def test_file_of_heights(tmp_path: Path) -> None:
    """Read heights from MuJoCo's own format beside the model."""
    data = struct.pack("<2i6f", 2, 3, *HEIGHTS.ravel())
    (tmp_path / "ground.bin").write_bytes(data)
    (tmp_path / "m.xml").write_text(text('<hfield name="f" size="2 1 0.4 0.1" file="ground.bin"/>'))
    model = fb.load(tmp_path / "m.xml")
    np.testing.assert_allclose(model.mujoco.hfield_data.reshape(2, 3), HEIGHTS, rtol=1e-6)


def test_missing_file() -> None:
    """Refuse a field without its file by name, or leave it out with its geoms when dropped."""
    asset = '<hfield name="f" size="2 1 0.4 0.1" file="nowhere.png"/>'
    with pytest.raises(ModelError) as caught:
        fb.load(text(asset))
    assert str(caught.value).startswith(
        '<string>:1: <hfield name="f">: there is no file "nowhere.png"'
    )
    model = fb.load(text(asset), on_unsupported="drop")
    assert model.mujoco.ngeom == 2
    assert "the height field and the geoms that use it are left out" in str(model.report())


def test_too_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say how many cells a field has and how many it may have."""
    monkeypatch.setattr(hfields, "MOST_TRIANGLES", 2)
    with pytest.raises(ModelError) as caught:
        fb.load(text())
    assert str(caught.value) == (
        'hfield "f": it has 2 x 3 points and so 2 cells; at most 1 are allowed. '
        "Give it fewer rows and columns."
    )
