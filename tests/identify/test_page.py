"""The example of docs/identify.md finds mass and friction of the box."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from featherback import identify

pytest.importorskip("scipy")

PAGE = (Path(__file__).parents[2] / "docs" / "identify.md").read_text(encoding="utf-8")


REPORT = """
import json
print(json.dumps([*estimate.values.values(), estimate.misfit, better.params["body_mass"][1]]))
"""


def test_example_finds_mass_and_friction() -> None:
    """Run the code as it is printed, and find 1.7 kg and 0.35 within 2 %."""
    code = PAGE.partition("```python\n")[2].partition("```")[0] + REPORT
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    mass, friction, misfit, better = json.loads(last)
    assert abs(mass / 1.7 - 1.0) < 0.02 and abs(friction / 0.35 - 1.0) < 0.02
    assert f"It finds {mass:.2f} kg and {friction:.3f}." in PAGE
    assert f"Here it is {misfit:.1f} instead of 1" in PAGE
    assert lines[0].startswith("body_mass[box]")
    assert better == mass


def test_table_names_arguments_that_exist() -> None:
    """Name functions and arguments of the table as the code has them."""
    table = PAGE.partition("```python")[0]
    calls = re.findall(r"^\| `(\w+)\(([^)]*)\)`", table, re.M)
    assert {name for name, _ in calls} == {
        "Log",
        "identify",
        "inertia_of",
        "scale_factor",
        "unknown",
    }
    for name, arguments in calls:
        known = inspect.signature(getattr(identify, name)).parameters
        for argument in arguments.split(", "):
            assert argument.rstrip("=") in known, f"{name}: {argument}"
