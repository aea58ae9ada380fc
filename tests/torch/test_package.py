"""The PyTorch bridge as a package: light import, missing torch, page, example, benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """Run Python in a process of its own and return what it prints."""
    done = subprocess.run(
        (sys.executable, *arguments), capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_featherback_does_not_import_torch() -> None:
    """Leave torch alone until featherback.torch is asked for, whatever else is used."""
    code = (
        "import sys, featherback as fb\n"
        "sim = fb.Simulator(fb.models.pendulum(2))\n"
        "sim.rollout([0, 1], [0, 0], steps=3).vjp([[1, 1]] * 4)\n"
        "print([x for x in ('torch', 'jax', 'featherback.torch') if x in sys.modules])"
    )
    assert run("-c", code) == "[]\n"


def test_page_works_as_printed() -> None:
    """Run all code of docs/torch.md in order."""
    blocks = (ROOT / "docs" / "torch.md").read_text().split("```python\n")[1:]
    code = "\n".join(block.partition("```")[0] for block in blocks)
    assert run("-c", code).splitlines() == [
        "torch.Size([100, 1])",
        "torch.Size([2, 3]) torch.Size([2, 3])",
        "torch.Size([8, 2])",
        "torch.Size([1, 4])",
        "['body_mass'] torch.Size([101, 2])",
        "torch.Size([16, 201, 1, 3])",
    ]


def test_example_balances() -> None:
    """Run the example, which asserts its own result, in at most 60 lines."""
    file = ROOT / "examples" / "torch_cartpole.py"
    assert len(file.read_text().splitlines()) <= 60
    assert run(str(file)) == "poles that stay up for 10 s: 256 of 256\n"


def test_benchmark_prints_its_figures() -> None:
    """Print the cost of a call and the memory of each way to keep the graph."""
    lines = run(str(ROOT / "bench" / "torch_bridge.py"), "--quick").splitlines()
    for name in ("core", "numpy", "torch", "torch, recorded"):
        assert any(line.startswith(name + " ") for line in lines)
    ways = [line for line in lines if line.startswith("memory=")]
    assert [line.split()[0] for line in ways] == [
        'memory="states"',
        'memory="checkpoint"',
        'memory="graph"',
    ]
    assert all(" MB " in line and line.endswith("us per step") for line in ways)
