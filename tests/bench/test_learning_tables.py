"""The tables of learning on the pages are those of the files that the programs have written."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

BENCH = Path(__file__).resolve().parents[2] / "bench"
DOCS = BENCH.parent / "docs"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a file of bench/."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module(name)


def stored(name: str) -> Any:
    """Return what a program has written."""
    return json.loads((BENCH / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("program", "page"),
    [
        ("learners", "learning"),
        ("ablations", "learning"),
        ("enhancements", "learning"),
        ("env_speed", "environments"),
    ],
)
def test_tables_are_those_of_the_files(
    program: str, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Have the text that the program makes of its file."""
    text = load("env_speed_text" if program == "env_speed" else program, monkeypatch).text
    assert text(stored(program)) in (DOCS / f"{page}.md").read_text()


def test_experiments_show_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have table and picture of every experiment that is kept, with all of its seeds."""
    curves, page = load("curves", monkeypatch), (DOCS / "experiments.md").read_text()
    kept = stored("curves")
    assert set(kept) == set(curves.TEXTS) == set(curves.PICTURES)
    for name, own in kept.items():
        assert curves.TEXTS[name](own) in page and curves.origin(own) in page
        picture = f"curves_{name.replace('-', '_')}.png"
        assert f"({picture})" in page and (DOCS / picture).exists()
        for panel in curves.PICTURES[name].values():
            assert all(set(own["curves"][row]) == set(own["seeds"]) for row in panel.values())


def test_curves_of_a_run_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep figures and evaluations of every seed that has ended; leave the rest out."""
    curves = load("curves", monkeypatch)
    for seed in (0, 1, 2):
        row = tmp_path / f"seed{seed}" / "ant-samples-sac-alone"
        row.mkdir(parents=True)
        log = "iteration,steps,cpu_seconds,evaluation\n1,500,1.5,nan\n2,1000,2.5,7.25\n"
        (row / "log.csv").write_text(log)
        content = {"versions": {}, "full": False, "figures": {"sac, alone: steps": 1000.0 + seed}}
        if seed < 2:
            (tmp_path / f"seed{seed}" / "ant-samples.json").write_text(json.dumps(content))
    kept = curves.keep("ant-samples", tmp_path)
    assert kept["seeds"] == ["0", "1"]
    assert kept["figures"] == {"sac, alone: steps": {"0": 1000.0, "1": 1001.0}}
    wanted = {"steps": [1000.0], "seconds": [2.5], "return": [7.25]}
    assert kept["curves"] == {"sac-alone": {"0": wanted, "1": wanted}}
    assert curves.cells(kept["figures"], "sac, alone: steps", ".0f") == "1000, 1001"
    assert curves.cells({"x": {"0": None}}, "x", ".2f") == "stopped"


def test_a_program_goes_on_where_its_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Train what the file lacks only, and keep rows and seeds in order."""
    seeds = load("seeds", monkeypatch)
    (tmp_path / "own.json").write_text(json.dumps({"rows": {"b": {"1": {"return": 5.0}}}}))
    trained: list[tuple[str, int]] = []

    def measure(row: str, seed: int) -> dict[str, float]:
        trained.append((row, seed))
        return {"return": float(seed)}

    monkeypatch.setattr("sys.argv", ["own.py", "--save", "--seeds", "2"])
    own = seeds.Program(str(tmp_path / "own.py"), "Own.", ("a", "b"), measure, lambda _: "")
    own.main()
    assert trained == [("a", 0), ("b", 0), ("a", 1)]
    rows = json.loads((tmp_path / "own.json").read_text())["rows"]
    assert list(rows) == ["a", "b"] and list(rows["b"]) == ["0", "1"]
    assert seeds.values(rows["b"], "return") == [0.0, 5.0]
    assert seeds.middle(rows["b"], "return") == "2.5"
