"""What is refused and told without a GPU, and how words and pieces are cut."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import featherback as fb
from featherback.errors import FeatherbackError, ParameterError
from featherback.sim import cuda, cuda_arrays, cuda_device
from tests.cuda.cases import OnDevice, Speaks, engine_of
from tests.cuda.paper_device import PaperDevice
from tools import cuda as build


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:", "cuda:x", "cuda:-1", "CUDA", 0, None, "cuda:0,0"]
)
def test_unknown_device(device: Any) -> None:
    """Refuse what is not a device."""
    with pytest.raises(ParameterError) as error:
        fb.Simulator(fb.models.pendulum(), device=device)
    assert str(error.value) == (
        f'Simulator(): device is {device!r}; it must be "cpu", "cuda", a GPU by its number such as '
        '"cuda:1", or several such as "cuda:0,1".'
    )


def test_the_processor_is_the_default() -> None:
    """Run on the processor unless told otherwise."""
    assert fb.Simulator(fb.models.pendulum()).device == "cpu"
    assert cuda_device.read_device("", "cuda") == (0,)
    assert cuda_device.read_device("", "cuda:3") == (3,)
    assert cuda_device.read_device("", "cuda:2,0") == (2, 0)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the extra where NVIDIA's package is missing."""
    monkeypatch.setattr(cuda, "_devices", {})
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(FeatherbackError, match=r"pip install 'featherback\[cuda\]'"):
        fb.Simulator(fb.models.pendulum(), device="cuda")


def fake_package(monkeypatch: pytest.MonkeyPatch, devices: Any) -> None:
    """Put a package in the place of NVIDIA's whose devices are those of a function."""
    core, driver = ModuleType("cuda.core"), ModuleType("cuda.bindings.driver")
    core.Device = type("Device", (), {"get_all_devices": staticmethod(devices)})  # type: ignore
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    monkeypatch.setattr(cuda, "_devices", {})


def test_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say that there is no GPU where the driver is missing."""

    def fail() -> None:
        raise RuntimeError("no library.\nmore")

    fake_package(monkeypatch, fail)
    with pytest.raises(FeatherbackError) as error:
        fb.Simulator(fb.models.pendulum(), device="cuda")
    assert str(error.value) == (
        "Simulator(): there is no GPU to be used (no library); install NVIDIA's driver, or leave "
        "device out to run on the processor."
    )


def test_too_few_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Say how many GPUs there are."""
    fake_package(monkeypatch, lambda: [0])
    with pytest.raises(ParameterError) as error:
        fb.Simulator(fb.models.pendulum(), device="cuda:1")
    assert str(error.value) == (
        'Simulator(): device is "cuda:1" and there are 1 GPUs here; the first is "cuda:0", or '
        "leave device out to run on the processor."
    )


def test_missing_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Say how kernels are built where they are not."""
    monkeypatch.setattr(cuda_device, "KERNELS", tmp_path)
    with pytest.raises(FeatherbackError) as error:
        cuda_device.kernel_file("Simulator()", "rollout", "float64")
    assert str(error.value) == (
        f"Simulator(): the kernels for a GPU are not built, {tmp_path}/rollout_float64.fatbin is "
        "not there; run make cuda in the sources, which needs NVIDIA's nvcc, or leave device out "
        "to run on the processor."
    )


def test_worlds_and_steps_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cover every world and every step once where memory is short."""
    device = PaperDevice()
    monkeypatch.setattr(cuda, "_devices", {0: device})
    model = fb.models.cartpole()
    sim = fb.Simulator(model, device="cuda")
    worlds, steps = 1000, 7
    engine_of(sim).close_arrays()
    device.free = 2**28 + 100_000
    x = np.zeros((worlds, steps + 1, model.nq + model.nv))
    u = np.zeros((worlds, steps, model.nu))
    status, step = np.zeros(worlds, np.uint32), np.zeros(worlds, np.int32)
    done: list[int] = []
    engine_of(sim).rollout(x, u, None, status, step, steps=steps, progress=done.append)
    jobs = [words for kernel, _, _, words in device.launches if kernel == "rollout job"]
    # words: theta, derived, own, worlds, x (3), u (3), x_out, first, last
    covered = np.zeros(steps, int)
    for words in jobs:
        covered[words[11] : words[12]] += words[3]
        assert words[5] == (steps + 1) * (model.nq + model.nv)
    assert np.all(covered == worlds)
    assert len({words[3] for words in jobs}) >= 1 and len(jobs) > steps // 4
    assert done[-1] == steps and done == sorted(done)


def test_words_of_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the same words to a kernel for NumPy's arrays and for those of the device."""
    device = PaperDevice()
    monkeypatch.setattr(cuda, "_devices", {0: device})
    sim = fb.Simulator(fb.models.cartpole(), device="cuda")
    x, u, bar = np.ones((3, 5, 4)), np.ones((3, 4, 1)), np.ones((3, 4))
    roll = sim.rollout(x[:, 0, :2], x[:, 0, 2:], u)
    roll.vjp(np.ones_like(roll.q), np.ones_like(roll.v))
    count = len(device.launches)
    given = [OnDevice(a) for a in (x, u, bar, u.copy(), x.copy())]
    cuda_arrays.vjp(sim, *given)
    for words in (device.launches[i][3] for i in (count - 1, -1)):
        # theta, derived, own, worlds, x (3), u (3), steps, first, last
        assert words[2:4] == [0, 3] and words[5:7] == [20, 4] and words[8:10] == [4, 1]
        assert words[10] == 4 and words[11] == 0 and 0 < words[12] <= 4
        # x_cot and its rows, x_bar, u_bar and theta_bar with their strides, finish
        assert words[14] == 5 and words[16] == 4 and words[18] == 4 and words[19] == 0
        assert all(words[i] for i in (4, 7, 13, 15, 17, 22, 23)) and words[26] == 0
    addresses = [device.launches[-1][3][i] for i in (4, 7, 15, 17, 13)]
    assert addresses == [a.array.ctypes.data for a in given]


def test_arrays_of_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse arrays that do not lie on the GPU, or have another shape or type."""
    model = fb.models.cartpole()
    x, u = OnDevice(np.zeros((3, 5, 4))), OnDevice(np.zeros((3, 4, 1)))
    with pytest.raises(ParameterError) as error:
        cuda_arrays.rollout(fb.Simulator(model), x, u)
    assert str(error.value) == (
        'cuda_arrays.rollout(): the simulator runs on "cpu"; build it with device="cuda".'
    )
    monkeypatch.setattr(cuda, "_devices", {0: PaperDevice()})
    sim = fb.Simulator(model, device="cuda")
    refused = {
        "x has shape (3, 4)": (OnDevice(np.zeros((3, 4))), u),
        "u is of type ndarray and does not lie on a GPU": (x, np.zeros((3, 4, 1))),
        "u has shape (3, 4, 2); expected (3, 4, 1).": (x, OnDevice(np.zeros((3, 4, 2)))),
        "x has the type float32; the simulator's is float64.": (
            OnDevice(np.zeros((3, 5, 4), np.float32)),
            u,
        ),
        'x lies on "cuda:1" and the simulator computes on "cuda:0"; move it there.': (
            Speaks(np.zeros((3, 5, 4)), (2, 1)),
            u,
        ),
        "u is of type Speaks and does not lie on a GPU": (x, Speaks(np.zeros((3, 4, 1)))),
        "x is not contiguous; pass a contiguous copy.": (
            OnDevice(np.zeros((3, 5, 8))[..., ::2]),
            u,
        ),
    }
    for words, given in refused.items():
        with pytest.raises((ParameterError, fb.ShapeError)) as error:
            cuda_arrays.rollout(sim, *given)
        assert words in str(error.value)
    assert not cuda_arrays.rollout(sim, x, u).any()
    # an axis of one may have any stride
    one = np.zeros((2, 5, 4))[:1], np.zeros((3, 4, 2))[:1, :, :1].copy()
    assert not cuda_arrays.rollout(sim, *(Speaks(a, (2, 0)) for a in one)).any()


def test_blocks() -> None:
    """Give every multiprocessor a block of whole warps."""
    assert cuda._block_size(1, 132) == 32
    assert cuda._block_size(8192, 132) == 64
    assert cuda._block_size(65536, 132) == 256


def test_commands_of_nvcc(tmp_path: Path) -> None:
    """Compile every job for every number, with PTX for later GPUs."""
    words = build.command("nvcc", "vjp", "float32", [100, 80], tmp_path / "x")
    assert "-DFB_REAL=float" in words and "-DFB_JOB_vjp" in words
    assert "arch=compute_80,code=sm_80" in words and "arch=compute_100,code=compute_100" in words
    assert set(build.JOBS) == {"model", *cuda.JOBS, *cuda.OTHER_JOBS}


def test_the_page_is_made_of_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the table of the stored measurements in docs/gpu.md."""
    root = Path(__file__).resolve().parents[2]
    monkeypatch.syspath_prepend(str(root / "bench"))
    bench = importlib.import_module("gpu")
    stored = json.loads((root / "bench" / "gpu.json").read_text())
    page = (root / "docs" / "gpu.md").read_text()
    assert bench.text(stored) in page
    flowing = " ".join(page.split())
    last = json.loads((root / "tests" / "cuda" / "last_run.json").read_text())
    for sentence in (*bench.more_text(stored), bench.gpu_checks.last_run(last)):
        assert sentence in flowing


def test_what_a_gpu_is_measured_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load every scene of the measurements, and step it on the processor."""
    root = Path(__file__).resolve().parents[2]
    monkeypatch.syspath_prepend(str(root / "bench"))
    bench = importlib.import_module("gpu")
    kinds = {(scene.name, kind): scene for scene, _, _, kind in bench.plan()}
    assert {"laikago", "arm with meshes", "64 boxes"} <= {name for name, _ in kinds}
    for (name, kind), scene in kinds.items():
        if kind == "default":
            continue
        sim = fb.Simulator(scene.model, max_contacts=scene.contacts, max_sweeps=bench.SWEEPS)
        q, v = np.tile(scene.start, (2, 1)), np.zeros((2, scene.model.nv))
        roll = sim.rollout(q, v, scene.controls(2, 40))
        assert not roll.status.any(), (name, roll.describe_status())


def test_host_jobs_are_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on the processor what has no kernel, and nothing else."""
    monkeypatch.setattr(cuda, "_devices", {0: PaperDevice()})
    engine = engine_of(fb.Simulator(fb.models.cartpole(), device="cuda"))
    for job in cuda.OTHER_JOBS:
        assert getattr(engine, job).__self__ is engine.host
    with pytest.raises(AttributeError):
        _ = engine.fly  # type: ignore[attr-defined]
