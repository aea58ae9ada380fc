"""Robots with neural controllers on a device, and what bench/gpu.py tells of them."""

from __future__ import annotations

import importlib
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

from featherback.experiments.neural import sensing
from featherback.sim import cuda
from tests.cuda.host_device import HostDevice
from tests.cuda.paper_device import PaperDevice

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return bench/gpu_degrave.py."""
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("gpu_degrave")


def check_robots(tolerance: float) -> None:
    """Give the processor's distance and gradient, with simulator and network on the device."""
    found: list[list[Any]] = []
    for device in ("cuda", "cpu"):
        network = sensing.make_network((6,), 2)
        robots = sensing.SensingRobots(3, network, np.random.default_rng(4), device)
        distance = robots.distance(12)
        bars = torch.autograd.grad(distance, list(network.parameters()))
        found.append([x.detach().cpu() for x in (distance, *bars)])
        timing = robots.measure(4)
        assert 0.0 < timing.forward < timing.both < math.inf
        assert timing.gradient > 0.0 and not timing.flagged and not timing.missing
    for x, y in zip(*found, strict=True):
        assert float((x - y).abs().max()) <= tolerance * float(y.abs().max())


@pytest.mark.slow
def test_robots_on_the_host(device: HostDevice, bench: ModuleType) -> None:
    """Run them, and the rows that are measured, by the kernels' own code on the processor."""
    check_robots(1e-2)
    row = bench.measure(2, "1.3 k", lambda: 0.0)
    assert row["error"].startswith("it takes about") and row["error"].endswith(" 0 s were left")
    bench_steps, sensing.STEPS = sensing.STEPS, 8
    try:
        row = bench.measure(2, "1.3 k", lambda: 1e9)
    finally:
        sensing.STEPS = bench_steps
    assert 0.0 < row["kernels_forward_s"] < row["forward_s"]
    assert row["kernels_forward_s"] < row["kernels_gradient_s"] < row["gradient_s"]
    assert row["weights"] == 1358 and not row["flagged"]


@pytest.mark.gpu
def test_robots_on_a_gpu() -> None:
    """Run them on a GPU, with torch on the same one."""
    missing = sensing.missing_gpu()
    if missing:
        pytest.skip(missing)
    check_robots(1e-2)


def test_why_no_gpu_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say in a sentence which part is missing."""
    with monkeypatch.context() as patch:
        patch.setattr(cuda, "_devices", {})
        patch.setitem(sys.modules, "cuda.core", None)
        assert "pip install 'featherback[cuda]'" in sensing.missing_gpu()
    monkeypatch.setattr(cuda, "_devices", {0: PaperDevice()})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert sensing.missing_gpu() == "torch has no CUDA here; install a torch that is built with it."
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert not sensing.missing_gpu()


def test_rows_say_what_is_missing(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give one row without a GPU, and one for each size where all of them fail."""
    monkeypatch.setattr(sensing, "missing_gpu", lambda: "there is none.")
    assert list(bench.measured(lambda: 1.0)) == [{"error": "there is none."}]
    monkeypatch.setattr(sensing, "missing_gpu", lambda: "")

    def fail(*given: Any) -> None:
        raise MemoryError("no memory\nis left")

    monkeypatch.setattr(sensing, "SensingRobots", fail)
    rows = list(bench.measured(lambda: 1.0))
    assert [row["error"] for row in rows] == 6 * ["no memory is left"]
    assert {(row["robots"], row["network"]) for row in rows} == set(bench.ROWS)


def test_the_text_of_rows(bench: ModuleType) -> None:
    """Write a line for each row, beside the times of Degrave et al."""
    times = {"forward_s": 2.0, "gradient_s": 9.0, "flagged": 0}
    times |= {"kernels_forward_s": 1.5, "kernels_gradient_s": 4.0}
    lines = bench.text(
        [
            {"robots": 65536, "network": "1.15 M", "forward_s": 7.0, "error": "out of memory"},
            {"robots": 128, "network": "1.3 k", **times},
        ]
    )
    assert lines[-3:] == [
        "| 128, 1.3 k | 2.00 s (1.50) | 9.00 s (4.00) | 4.5 | 17.8 and 128 s |",
        "| 65 536, 1.15 M | 7.00 s | out of memory | | - |",
        "",
    ]
    assert bench.text([]) == []
    assert bench.text([{"error": "there is none."}]) == [
        "Quadrupeds with neural controllers were not measured: there is none."
    ]


def test_rows_of_a_process_of_its_own(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Pass on what it prints, and name the rows that it does not come to."""
    script = tmp_path / "rows.py"
    monkeypatch.setattr(bench, "__file__", str(script))
    script.write_text('print(\'{"error": "there is none."}\')')
    assert list(bench.apart(1.0)) == [{"error": "there is none."}]
    script.write_text(
        "import sys\n"
        "assert float(sys.argv[1]) == 7.0\n"
        'print(\'{"robots": 128, "network": "1.3 k", "forward_s": 1.0}\', flush=True)\n'
        "sys.exit(3)\n"
    )
    first, *others = bench.apart(7.0)
    assert first == {"robots": 128, "network": "1.3 k", "forward_s": 1.0}
    assert [row["error"] for row in others] == 5 * ["the process ended with code 3"]
