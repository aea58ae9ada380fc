"""The host in the place of a GPU, for tests that compile the kernels for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from featherback.sim import cuda
from tests.cuda.host_device import HostDevice


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which kernels are compiled once."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def device(folder: Path) -> Iterator[HostDevice]:
    """Put the host in the place of the first GPU."""
    before = cuda._devices.copy()
    cuda._devices[0] = device = HostDevice(folder)
    yield device
    cuda._devices.clear()
    cuda._devices.update(before)
