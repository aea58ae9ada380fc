"""A GPU through NVIDIA's package cuda.core: its memory, and the kernels of `make cuda`."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from featherback._optional import import_optional
from featherback.errors import FeatherbackError, ParameterError
from featherback.sim.memory import readable

KERNELS = Path(__file__).resolve().parent.parent / "kernels"
"""Where `make cuda` puts the kernels."""

_LEAVE = "or leave device out to run on the processor"


def read_device(where: str, device: Any) -> tuple[int, ...]:
    """Return the numbers of GPUs from "cuda", "cuda:1" or "cuda:0,1", none for "cpu"."""
    if device == "cpu":
        return ()
    kind, colon, text = device.partition(":") if isinstance(device, str) else ("", "", "")
    numbers = text.split(",") if colon else ["0"]
    whole = all(number.isascii() and number.isdigit() for number in numbers)
    if kind != "cuda" or not whole or len({int(n) for n in numbers}) < len(numbers):
        raise ParameterError(
            f'{where}: device is {device!r}; it must be "cpu", "cuda", a GPU by its number such as '
            '"cuda:1", or several such as "cuda:0,1".'
        )
    return tuple(int(number) for number in numbers)


def _file_of(job: str, real: str) -> Path:
    """Return where the kernels of a job for a number type are, if they are built."""
    return KERNELS / f"{job}_{real}.fatbin"


def kernel_file(where: str, job: str, real: str) -> Path:
    """Return the file of a job's kernels for a number type, or say that it is not built."""
    file = _file_of(job, real)
    if not file.exists():
        raise FeatherbackError(
            f"{where}: the kernels for a GPU are not built, {file} is not there; run make cuda in "
            f"the sources, which needs NVIDIA's nvcc, {_LEAVE}."
        )
    return file


class CudaDevice:
    """One GPU of this process, in its primary context.

    Attributes:
        name: of the GPU.
        multiprocessors: of it.
        threads: that a multiprocessor holds at once.
        place: name of the device that its addresses belong to, as torch writes it.
        dlpack: the same as DLPack writes it: its kind of device and its number.
    """

    def __init__(self, where: str, ordinal: int) -> None:
        """Open the GPU; a sentence says what is missing."""
        self._core: Any = import_optional(where, "cuda.core", "cuda")
        self._driver: Any = import_optional(where, "cuda.bindings.driver", "cuda")
        try:
            found = len(self._core.Device.get_all_devices())
        # no library of a driver, or one that finds no GPU: cuda.core has an error for each
        except Exception as error:
            raise FeatherbackError(
                f"{where}: there is no GPU to be used ({_first_line(error)}); install NVIDIA's "
                f"driver, {_LEAVE}."
            ) from error
        if ordinal >= found:
            raise ParameterError(
                f'{where}: device is "cuda:{ordinal}" and there are {found} GPUs here; the first '
                f'is "cuda:0", {_LEAVE}.'
            )
        self.ordinal, self.place, self.dlpack = ordinal, f"cuda:{ordinal}", (2, ordinal)
        self._local = threading.local()
        self._device = self._core.Device(ordinal)
        self._device.set_current()
        self.name = str(self._device.name)
        properties = self._device.properties
        self.multiprocessors = int(properties.multiprocessor_count)
        self.threads = int(properties.max_threads_per_multiprocessor)
        self._files: dict[Path, Any] = {}

    def _get(self, answer: tuple[Any, ...]) -> Any:
        """Return what a call of the driver gave, or raise its error."""
        error = answer[0]
        if int(error) == int(self._driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY):
            raise MemoryError(f"the GPU {self.name} has no memory left")
        if int(error):
            _, text = self._driver.cuGetErrorString(error)
            said = text.decode() if isinstance(text, bytes) else str(error)
            raise FeatherbackError(
                f"the GPU {self.name} failed: {said}; after some errors it works again only in a "
                "new process."
            )
        return answer[1] if len(answer) > 1 else None

    def activate(self) -> None:
        """Make this the GPU of the calling thread."""
        self._device.set_current()

    @property
    def stream(self) -> int:
        """Handle of the stream on which this thread copies and launches; 0: the default one."""
        return getattr(self._local, "stream", 0)

    @contextmanager
    def on_stream(self, handle: int) -> Generator[None]:
        """Copy and launch on another stream within the block."""
        before, self._local.stream = self.stream, handle
        try:
            yield
        finally:
            self._local.stream = before

    def free_bytes(self) -> int:
        """Return the bytes of memory that are free."""
        error, free, _ = self._driver.cuMemGetInfo()
        self._get((error,))
        return int(free)

    def allocate(self, count: int) -> int:
        """Return the address of new memory."""
        return int(self._get(self._driver.cuMemAlloc(max(count, 16))))

    def release(self, address: int) -> None:
        """Give memory back."""
        self._get(self._driver.cuMemFree(address))

    def send(self, address: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to the GPU, before what is launched next."""
        if array.nbytes:
            own = (address, array.ctypes.data, array.nbytes, self.stream)
            self._get(self._driver.cuMemcpyHtoDAsync(*own))

    def fetch(self, array: np.ndarray[Any, Any], address: int) -> None:
        """Copy from the GPU into a contiguous array; waits for what was launched before."""
        if array.nbytes:
            own = (array.ctypes.data, address, array.nbytes, self.stream)
            self._get(self._driver.cuMemcpyDtoHAsync(*own))
            self._get(self._driver.cuStreamSynchronize(self.stream))

    def reserve_local(self, count: int) -> bool:
        """Let every thread have `count` bytes of local memory; False where that is too much.

        The GPU sets it aside for all threads that it can hold at once, and keeps it.
        """
        limit = self._driver.CUlimit.CU_LIMIT_STACK_SIZE
        have = int(self._get(self._driver.cuCtxGetLimit(limit)))
        if have >= count:
            return True
        more = (count - have) * self.multiprocessors * self.threads
        if more > int(0.8 * self.free_bytes()):
            return False
        error = self._driver.cuCtxSetLimit(limit, count)[0]
        return int(error) == 0

    def has_kernel(self, job: str, real: str) -> bool:
        """Return whether a job's kernel is built."""
        return _file_of(job, real).exists()

    def kernel(self, where: str, job: str, real: str, name: str) -> Any:
        """Return a kernel of a job, loading its file once."""
        file = kernel_file(where, job, real)
        if file not in self._files:
            self._files[file] = self._core.ObjectCode.from_fatbin(file.read_bytes())
        return self._files[file].get_kernel(name)

    def launch(self, kernel: Any, threads: int, block: int, *words: int) -> None:
        """Start a kernel with at least this many threads."""
        config = self._core.LaunchConfig(grid=-(-threads // block), block=block)
        handle = self.stream
        stream = (
            self._core.Stream.from_handle(handle) if handle else self._core.LEGACY_DEFAULT_STREAM
        )
        self._core.launch(stream, config, kernel, *words)

    def start_clock(self) -> None:
        """Begin to measure what is launched from here on."""
        if not hasattr(self._local, "events"):
            # of this thread, since others may launch at the same time
            self._local.events = [self._get(self._driver.cuEventCreate(0)) for _ in range(2)]
        self._get(self._driver.cuEventRecord(self._local.events[0], self.stream))

    def stop_clock(self) -> float:
        """Wait for what was launched; return the seconds since `start_clock`."""
        first, last = self._local.events
        self._get(self._driver.cuEventRecord(last, self.stream))
        self._get(self._driver.cuEventSynchronize(last))
        return 1e-3 * float(self._get(self._driver.cuEventElapsedTime(first, last)))

    def figures(self, kernel: Any) -> dict[str, int]:
        """Return registers and bytes of local memory of a kernel's threads."""
        a = kernel.attributes
        return {"registers": int(a.num_regs), "local_bytes": int(a.local_size_bytes)}

    def __str__(self) -> str:
        """Return the name and the free memory."""
        return f"{self.name}, {readable(self.free_bytes())} free"


def _first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
