"""Tensors of torch on the simulator's device, where the device is the processor."""

from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

from tests.cuda import cases, torch_cases
from tests.cuda.host_device import HostDevice

# torch's own modules warn of their own functions
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

CHECKS = (
    torch_cases.check_rollout,
    torch_cases.check_one_world,
    torch_cases.check_closed_loop,
    torch_cases.check_transformed,
    torch_cases.check_outputs,
    torch_cases.check_layer,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_tensors(device: HostDevice, check: Callable[[float], None]) -> None:
    """Give what the processor gives, by the kernels."""
    before = len(device.launches)
    check(1e-9)
    assert any(name == "job" for name, _, _ in device.launches[before:])


def test_refusals(device: HostDevice) -> None:
    """Say what is wrong as the processor does."""
    torch_cases.check_refusals()


def test_streams(device: HostDevice) -> None:
    """Name a stream in every call on tensors, and none in those on NumPy's arrays."""
    sim, _, given = torch_cases.simulators(2, 3)
    q, v, u = torch_cases.leaves(sim, given)
    roll = torch_cases.fbt.rollout(sim, q, v, u)
    assert device.streams == [0]
    roll.q.sum().backward()
    assert device.streams == [0, 0]
    cases.check_single_world()
    assert device.streams == [0, 0]


def test_tensors_speak_dlpack(device: HostDevice) -> None:
    """Take tensors in the calls on arrays of the device."""
    cases.check_device_arrays(torch_cases.torch.from_numpy)
