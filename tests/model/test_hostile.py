"""Files that would bring MuJoCo's reader or the file system down are refused before they can."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import featherback as fb
from featherback.errors import ModelError
from tests.golden.sentences import refused
from tests.model.helpers import mjcf, notes, read


def test_percent_sign_elsewhere_is_a_letter() -> None:
    """Accept a percent sign in any other name."""
    assert read(mjcf('<geom name="%n%s" size="1"/>')).mujoco.geom(1).name == "%n%s"


@pytest.mark.parametrize(
    ("before", "element", "anchor", "left"),
    [
        (
            '<asset><mesh name="m"><plugin/></mesh></asset>',
            '<plugin> in <mesh name="m">',
            "plugin",
            "<mesh>",
        ),
        ("<asset><mesh><plugin/></mesh></asset>", "<plugin>", "plugin", "<mesh>"),
        ("<default><mesh><plugin/></mesh></default>", "<plugin>", "plugin", "<mesh>"),
        ("<asset><model/></asset>", "<model>", "attach", "<model>"),
        (
            '<asset><model name="x" file="x.xml"/></asset>',
            '<model name="x">',
            "attach",
            "<model>",
        ),
    ],
)
def test_plugins_and_attached_models_never_reach_mujoco(
    before: str, element: str, anchor: str, left: str
) -> None:
    """Refuse elements whose lack of attributes crashes MuJoCo's reader, and leave them out."""
    text = mjcf(before=before)
    refused(lambda: read(text), ModelError, f"<string>:2: {element}: ", f"support.md#{anchor}")
    (notice,) = notes(read(text, on_unsupported="drop"), "dropped")
    assert notice.startswith(f"<string>:2: {element}: {left}")


def test_loading_leaves_no_log_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """List MuJoCo's warning of a singular inertia, which it would write into MUJOCO_LOG.TXT."""
    monkeypatch.chdir(tmp_path)
    model = fb.load(mjcf('<joint name="same"/>'))
    (notice,) = map(str, model.notices)
    assert notice.startswith("<string>: MuJoCo warns") and "DOF 0" in notice
    fb.Simulator(model).rollout(model.q0, model.v0, steps=2)
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")
