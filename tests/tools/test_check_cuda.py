"""Tests of tools/check_cuda.py."""

from pathlib import Path

import check_cuda
import pytest


def fake_nvcc(folder: Path, body: str) -> str:
    """Write a script that stands for nvcc and return its path."""
    script = folder / "nvcc"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_source_includes_every_header_and_names_every_entry(tmp_path: Path) -> None:
    """Write a file that makes nvcc read each header and compile each entry."""
    for stem in ("step", "scalar"):
        (tmp_path / f"{stem}.hpp").write_text("")
    assert check_cuda.source(tmp_path, ("step<double, double>", "step<float, float>")) == (
        "#define FB_ISA cuda\n"
        '#include "core/scalar.hpp"\n'
        '#include "core/step.hpp"\n'
        "namespace fb::cuda {\n"
        "__global__ void entries(void** out) {\n"
        "  out[0] = (void*)&step<double, double>;\n"
        "  out[1] = (void*)&step<float, float>;\n"
        "}\n"
        "}  // namespace fb::cuda\n"
    )


def test_says_that_nvcc_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Say so and succeed where there is no nvcc."""
    monkeypatch.setenv("NVCC", str(tmp_path / "none"))
    assert check_cuda.main() == 0
    assert capsys.readouterr().out == (
        "check_cuda: there is no nvcc here, so the core is not compiled for a GPU.\n"
    )


def test_repeats_what_nvcc_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fail with the compiler's own words, warnings included."""
    monkeypatch.setenv(
        "NVCC", fake_nvcc(tmp_path, "echo 'core/step.hpp(3): error: no' >&2; exit 2")
    )
    assert check_cuda.main() == 1
    assert capsys.readouterr().out == (
        "core/step.hpp(3): error: no\n"
        "check_cuda: core/ does not compile for sm_90; correct it as nvcc says.\n"
    )
    assert check_cuda.compile_core(fake_nvcc(tmp_path, "exit 3"), tmp_path) == (
        "nvcc ended with code 3"
    )


@pytest.mark.slow
def test_core_compiles_for_a_gpu() -> None:
    """Compile step and its adjoint, double and float, without a word from nvcc."""
    nvcc = check_cuda.find_nvcc()
    if nvcc is None:
        pytest.skip("there is no nvcc here")
    assert check_cuda.compile_core(nvcc, check_cuda.ROOT) == ""
