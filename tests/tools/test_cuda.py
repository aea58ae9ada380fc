"""Tests of tools/check/cuda.py."""

from pathlib import Path

import pytest

from tools.check import cuda


def fake_nvcc(folder: Path, body: str) -> str:
    """Write a script that stands for nvcc and return its path."""
    script = folder / "nvcc"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_source_includes_every_header_and_names_every_entry(tmp_path: Path) -> None:
    """Make nvcc read each header of a GPU and compile each entry whose header exists."""
    for name in ("core/step.hpp", "core/number/scalar.hpp", "engine/jobs/rollout.hpp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "engine" / "pool.hpp").write_text("threads of a host")
    assert cuda.source(tmp_path, cuda.entries_of(tmp_path)) == (
        "#define FB_ISA cuda\n"
        '#include "core/number/scalar.hpp"\n'
        '#include "core/step.hpp"\n'
        '#include "engine/jobs/rollout.hpp"\n'
        "namespace fb::cuda {\n"
        "__global__ void entries(void** out) {\n"
        "  out[0] = (void*)&step<double, double>;\n"
        "  out[1] = (void*)&step<float, float>;\n"
        "  out[2] = (void*)&step_adjoint<double, double>;\n"
        "  out[3] = (void*)&step_adjoint<float, float>;\n"
        "  out[4] = (void*)&run_rollout<double, double>;\n"
        "  out[5] = (void*)&run_rollout<float, float>;\n"
        "}\n"
        "}  // namespace fb::cuda\n"
    )


def test_says_that_nvcc_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Say so and succeed where there is no nvcc."""
    monkeypatch.setenv("NVCC", str(tmp_path / "none"))
    assert cuda.main([]) == 0
    assert capsys.readouterr().out == (
        "cuda: there is no nvcc here, so nothing is compiled for a GPU\n"
    )


def test_repeats_what_nvcc_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fail with the compiler's own words, warnings included."""
    monkeypatch.setenv(
        "NVCC", fake_nvcc(tmp_path, "echo 'core/step.hpp(3): error: no' >&2; exit 2")
    )
    assert cuda.main([]) == 1
    assert capsys.readouterr().out == (
        "core/step.hpp(3): error: no\n"
        "cuda: the headers do not compile for sm_90; correct them as nvcc says.\n"
    )
    assert (
        cuda.compile_headers(fake_nvcc(tmp_path, "exit 3"), tmp_path, [])
        == "nvcc ended with code 3"
    )


@pytest.mark.slow
def test_headers_compile_for_a_gpu() -> None:
    """Compile entries to machine code, double and float, without a word from nvcc."""
    nvcc = cuda.find_nvcc()
    if nvcc is None:
        pytest.skip("there is no nvcc here")
    entries = [e for e in cuda.entries_of(cuda.ROOT) if e.startswith("run_output")]
    assert len(entries) == 4
    for entry in entries:
        assert cuda.compile_headers(nvcc, cuda.ROOT, [entry], cuda.FULL) == ""


@pytest.mark.slow
def test_host_code_is_refused(tmp_path: Path) -> None:
    """Refuse a function of a GPU that calls one of the host, which the quick stage must find."""
    nvcc = cuda.find_nvcc()
    if nvcc is None:
        pytest.skip("there is no nvcc here")
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "step.hpp").write_text(
        "#include <cstdlib>\n"
        "namespace fb::cuda {\n"
        "template <class A, class B> __device__ void step() {}\n"
        'template <class A, class B> __device__ void step_adjoint() { std::getenv("A"); }\n'
        "}\n"
    )
    assert "getenv" in cuda.compile_headers(nvcc, tmp_path, cuda.entries_of(tmp_path))
