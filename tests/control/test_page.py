"""docs/control.md is true: its code runs, its signatures are those of the code."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from featherback import control

pytest.importorskip("scipy")

PAGE = (Path(__file__).parents[2] / "docs" / "control.md").read_text(encoding="utf-8")


def plain(arguments: ast.arguments) -> str:
    """Return arguments and defaults without annotations."""
    for argument in (*arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    return ast.unparse(arguments)


def signatures() -> dict[str, str]:
    """Return the arguments that the page's plain code blocks show, by name."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
    blocks = [text for language, text in fenced if not language]
    # a line that begins with a space goes on with the one before
    joined = "\n".join(blocks).replace("\n ", " ").split("\n")
    found: dict[str, str] = {}
    for line in (line for line in joined if "(" in line):
        (function,) = ast.parse(f"def {line}: ...").body
        assert isinstance(function, ast.FunctionDef)
        found[function.name] = plain(function.args)
    return found


def test_code_runs() -> None:
    """Run the code of the page as it is printed, in order."""
    blocks = PAGE.split("```python\n")[1:]
    code = "\n".join(block.partition("```")[0] for block in blocks)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(blocks) == 2


@pytest.mark.parametrize("name", sorted(signatures()))
def test_signatures(name: str) -> None:
    """Have the arguments and defaults that the page shows."""
    ours = inspect.signature(getattr(control, name))
    # what a RecedingHorizon keeps is no argument that a user gives
    given = [
        parameter.replace(annotation=parameter.empty)
        for parameter in ours.parameters.values()
        if parameter.name != "plan"
    ]
    shown = str(ours.replace(parameters=given, return_annotation=ours.empty))
    (function,) = ast.parse(f"def f{shown}: ...").body
    assert isinstance(function, ast.FunctionDef)
    assert plain(function.args) == signatures()[name]


def test_all_methods_are_shown() -> None:
    """Show the signatures of every method and of the cost of iLQR."""
    methods = {"make_controls", "optimize", "multiple_shooting", "ilqr", "run_closed_loop"}
    assert set(signatures()) == {*methods, "RecedingHorizon", "tracking"}
