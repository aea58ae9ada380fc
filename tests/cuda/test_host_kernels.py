"""The kernels' own code on the processor: words, strides, pieces and jobs, without a GPU."""

import pytest

from tests.cuda import cases
from tests.cuda.host_device import HostDevice

pytestmark = pytest.mark.slow


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


def test_jvp(device: HostDevice) -> None:
    """Give the directional derivatives of the processor."""
    cases.check_jvp(1e-9)
