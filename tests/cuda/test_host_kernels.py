"""The kernels' own code on the processor: words, strides, pieces and jobs, without a GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest

import featherback as fb
from featherback.sim import cuda
from tests.cuda import cases, job_cases
from tests.cuda.host_device import HostDevice

pytestmark = pytest.mark.slow

CHECKS = (job_cases.check_linearize, job_cases.check_contacts, job_cases.check_every_output)


def test_laikago(device: HostDevice) -> None:
    """Give the rollouts and gradients of the processor."""
    cases.check_laikago(1e-9)


def test_random_scenes(device: HostDevice) -> None:
    """Give the rollouts and gradients of the processor in random scenes with contacts."""
    cases.check_random_scenes(20, 1e-9)


def test_mujocos_law(device: HostDevice) -> None:
    """Give the rollouts and gradients of the processor under MuJoCo's law."""
    cases.check_random_scenes(6, 1e-9, contact="mujoco")


def test_scratch_in_memory(device: HostDevice) -> None:
    """Give the same where scratch does not fit local memory."""
    device.local = False
    cases.check_laikago(1e-9)


def test_bits_do_not_depend_on_the_batch(device: HostDevice) -> None:
    """Give the same bits for any number of worlds, place among them and size of blocks."""
    cases.check_bits()


def test_bad_worlds_stay_alone(device: HostDevice) -> None:
    """Leave all other worlds as they are where some leave the finite numbers."""
    cases.check_bad_worlds()


def test_pieces(device: HostDevice) -> None:
    """Run the worlds in pieces for want of memory, with the same bits."""
    cases.check_pieces(device, 2**28 + 200_000)
    worlds = [threads for name, threads, _ in device.launches if name == "set_rows"]
    assert len(worlds) > 2
    assert sum(worlds[1:]) == worlds[0] == 30


def test_single_world(device: HostDevice) -> None:
    """Step, differentiate and checkpoint one world as the processor does."""
    cases.check_single_world()


@pytest.mark.parametrize("on", [cases.OnDevice, cases.Speaks])
def test_device_arrays(device: HostDevice, on: type) -> None:
    """Roll out and differentiate arrays of the device in place, with the bits of NumPy's."""
    cases.check_device_arrays(on)


@pytest.mark.parametrize("kind", job_cases.KINDS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_other_jobs(device: HostDevice, kind: str, check: Callable[[str, float], None]) -> None:
    """Give the Jacobians, contacts and outputs of the processor, by the kernels."""
    check(kind, 1e-9)
    assert any(name == "job" for name, _, _ in device.launches)


@pytest.mark.parametrize("kind", job_cases.KINDS)
def test_dual_numbers(device: HostDevice, kind: str) -> None:
    """Give the directional derivatives of the processor, and those of its gradients."""
    job_cases.check_second_order(kind, 1e-9)


def test_jobs_without_a_kernel(device: HostDevice) -> None:
    """Run on the processor what has no kernel, with its bits."""
    device.jobs = ()
    cases.check_jvp(0.0)
    assert not any(name == "job" for name, _, _ in device.launches)


@pytest.mark.parametrize("worlds", [1, 5])
def test_several_devices(device: HostDevice, folder: Path, worlds: int) -> None:
    """Give the bits of one device where two share the worlds."""
    other = cuda._devices[1] = HostDevice(folder)
    cases.check_several(worlds)
    threads = [count for name, count, _ in other.launches if name == "job"]
    assert set(threads) == ({2} if worlds > 1 else set())


def test_a_device_that_fails(device: HostDevice, folder: Path) -> None:
    """Raise what went wrong on any of several devices, once all are done."""
    other = cuda._devices[1] = HostDevice(folder)
    model, q, v, u = cases.laikago(5, 4)
    sim = fb.Simulator(model, device="cuda:0,1", **cases.SMALL)

    def fail(*words: int) -> None:
        raise fb.FeatherbackError("the GPU failed")

    other.launch = fail  # type: ignore[method-assign]
    with pytest.raises(fb.FeatherbackError, match="the GPU failed"):
        sim.rollout(q, v, u)
    assert any(name == "job" for name, _, _ in device.launches)
