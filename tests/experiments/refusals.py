"""What experiments refuse: saved states, files, packages that are missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from featherback.errors import FeatherbackError, OptimizationError, ParameterError, ShapeError
from featherback.experiments import Context, Recording, Trace, registry, run, runner
from featherback.experiments.files import load_arrays, save_arrays, write_bytes
from featherback.experiments.film import make_film
from featherback.experiments.least_squares import run_least_squares
from featherback.experiments.named import ant_identify
from tests.experiments.problems import Stairs, bowl_experiment
from tests.golden.sentences import module_as, raises, returns

pytest.importorskip("scipy")
pytest.importorskip("cma")
pytest.importorskip("matplotlib")


def _bowl(folder: Path, **options: Any) -> None:
    """Run the bowl."""
    named = registry.Named("bowl", bowl_experiment())
    with mock.patch.object(runner, "find", lambda name: named):
        run("bowl", out=folder, show=False, **options)


def _other_seed(folder: Path) -> None:
    """Resume with another seed."""
    _bowl(folder)
    _bowl(folder, seed=1, resume=True)


def _other_point(folder: Path) -> None:
    """Resume from a state that another program made."""
    _bowl(folder)
    state = folder / "bowl-state.npz"
    arrays = load_arrays(state)
    arrays["ours.x"][2] += 1.0
    save_arrays(state, arrays)
    _bowl(folder, resume=True)


def _other_loss() -> None:
    """Walk over a saved iteration with another loss."""
    trace = Trace("bowl", [3.0, 2.0], [0.1, 0.2], [1, 2])
    trace.add(3.0)
    trace.add(2.5)


def _missing(module: str, name: str, folder: Path) -> None:
    """Run an experiment where a package is not installed."""
    with module_as(module):
        run(name, out=folder, show=False)


def _without(package: str, call: Any) -> Any:
    """Call something where a package cannot be found."""
    real = importlib.util.find_spec

    def hidden(name: str, *rest: Any) -> Any:
        return None if name == package else real(name, *rest)

    with mock.patch.object(importlib.util, "find_spec", hidden):
        return call()


def _write(folder: Path) -> None:
    """Write a file whose folder is a file."""
    (folder / "file").write_text("in the way")
    write_bytes(folder / "file" / "new.npz", b"x")


def _search(folder: Path, start: list[float]) -> None:
    """Search from a bad start."""
    context = Context("stairs", 0, True, folder, show=False)
    run_least_squares(context, Stairs(), np.array(start), max_iterations=2, tolerance=0.1)


def _damaged(folder: Path) -> None:
    """Load a recording that is no archive."""
    (folder / "m.npz").write_bytes(b"not an archive")
    Recording.load(folder / "m.npz")


def _no_recording(folder: Path) -> None:
    """Load an archive of something else."""
    Recording.load(save_arrays(folder / "m.npz", {"a": np.zeros(3)}))


RESUME = [
    raises(
        "resume: nothing saved",
        ParameterError,
        lambda folder: _bowl(folder, resume=True),
        "run bowl",
        "FOLDER/bowl-state.npz",
    ),
    raises("resume: another seed", ParameterError, _other_seed, "seed=0", "seed=1"),
    raises("resume: another point", ParameterError, _other_point, "evaluation 2"),
    raises("resume: another loss", ParameterError, _other_loss, "iteration 1", "2.5", "2.0"),
]

LENGTHS = [
    raises(
        "run: quick and full",
        ParameterError,
        lambda folder: run("ant-samples", quick=True, full=True, out=folder, show=False),
        "run ant-samples",
        "--full",
    ),
    raises(
        "run: no longer run",
        ParameterError,
        lambda folder: run("throw", full=True, out=folder, show=False),
        "run throw",
        "--full",
    ),
]

MISSING = [
    raises(
        "run: no matplotlib",
        FeatherbackError,
        lambda folder: _missing("matplotlib.figure", "throw", folder),
        "matplotlib",
    ),
    *(
        raises(
            f"run: no torch for {name}",
            FeatherbackError,
            lambda folder, name=name: _missing("torch", name, folder),
            f"run {name}",
            "torch",
        )
        for name in (
            "arm-reach",
            "quadruped-gait",
            "ant-samples",
            "ant-transfer",
            "pendulum-policy",
            "shac-locomotion",
        )
    ),
    raises(
        "run: no gymnasium",
        FeatherbackError,
        lambda: _without("gymnasium", ant_identify.ant_file),
        "run ant-identify",
        "gymnasium",
    ),
    raises(
        "run: a gymnasium without the ant",
        FeatherbackError,
        lambda folder: _no_ant(folder),
        "run ant-identify",
        "ant.xml",
    ),
    returns(
        "film: no pillow",
        lambda: _without("PIL", lambda: make_film(Path("m.npz"))[1]),
        "m.gif",
        "pillow",
    ),
]

FILES = [
    raises(
        "files: objects",
        FeatherbackError,
        lambda folder: save_arrays(folder / "a.npz", {"a": np.array([object()])}),
        "FOLDER/a.npz",
        '"a"',
    ),
    raises("files: a file in the way", FeatherbackError, _write, "FOLDER/file/new.npz"),
    raises("recording: damaged", FeatherbackError, _damaged, "FOLDER/m.npz"),
    raises("recording: another archive", FeatherbackError, _no_recording, "FOLDER/m.npz"),
    raises(
        "recording: missing",
        FeatherbackError,
        lambda folder: Recording.load(folder / "m.npz"),
        "FOLDER/m.npz",
    ),
]

SEARCH = [
    raises(
        "run_least_squares: NaN",
        ParameterError,
        lambda folder: _search(folder, [1.0, np.nan]),
        "run_least_squares()",
        "start",
    ),
    raises(
        "run_least_squares: another shape",
        ShapeError,
        lambda folder: _search(folder, [0.0] * 3),
        "run_least_squares()",
        "(3,)",
    ),
    raises(
        "run_least_squares: no errors",
        OptimizationError,
        lambda folder: _search(folder, [8.5, 0.0]),
        "run_least_squares()",
        "start",
    ),
]


def _no_ant(folder: Path) -> None:
    """Look for the ant in a gymnasium that does not bring it."""
    spec = SimpleNamespace(origin=str(folder / "__init__.py"))
    with mock.patch.object(importlib.util, "find_spec", lambda name: spec):
        ant_identify.ant_file()


CASES = [*RESUME, *LENGTHS, *MISSING, *FILES, *SEARCH]
