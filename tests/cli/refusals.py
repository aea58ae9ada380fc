"""What the command line refuses, and what the package says of unknown names."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import featherback as fb
from featherback.cli.bench import checkout
from featherback.cli.main import main
from featherback.errors import FeatherbackError
from featherback.experiments import names as experiments
from tests.golden.sentences import Case, raises, returns


def _command(name: str, arguments: list[str], *names: str) -> Case:
    """Return the case of a command that leaves with status 1 and one line."""

    def call() -> str:
        text = io.StringIO()
        with contextlib.redirect_stderr(text), contextlib.redirect_stdout(io.StringIO()):
            try:
                main(arguments)
            except SystemExit as left:
                assert left.code == 1
        return text.getvalue().removesuffix("\n")

    return returns(f"featherback {name}", call, "featherback: ", *names)


def _in_the_way(folder: Path, *command: str) -> str:
    """Run a command whose folder is a file."""
    file = folder / "file"
    file.write_text("in the way")
    call = _command("", [*command, "--out", str(file)]).call
    return str(call())


CASES = [
    _command("bench: quick figures for the docs", ["bench", "--quick", "--docs"], "--quick"),
    _command("run: a name that is near", ["run", "thrw"], '"thrw"', '"throw"'),
    _command("run: another name", ["run", "xyz"], '"xyz"', experiments()[0]),
    _command("run: a negative seed", ["run", "throw", "--seed", "-1"], "run throw", "seed", "-1"),
    _command("run: a large seed", ["run", "throw", "--seed", "2147483648"], "seed", "2147483648"),
    _command("run: no seeds", ["run", "throw", "--seeds", "0"], "run throw", "seeds", "0"),
    _command(
        "run: both kinds of seeds",
        ["run", "throw", "--seed", "1", "--seeds", "2"],
        "--seed 1",
        "--seeds 2",
    ),
    returns(
        "featherback bench: a file in the way",
        lambda folder: _in_the_way(folder, "bench", "--only", "count"),
        "FOLDER/file",
    ),
    returns(
        "featherback demo: a file in the way",
        lambda folder: _in_the_way(folder, "demo"),
        "FOLDER/file/laikago.npz",
    ),
    raises(
        "bench: no checkout",
        FeatherbackError,
        lambda folder: checkout([folder]),
        "bench",
        "checkout",
    ),
    raises("featherback: an unknown name", AttributeError, lambda: fb.nothing, "'nothing'"),
]
