"""The engine's jobs on a GPU, behind the calls of the extension's `Engine`.

Arrays are NumPy's: each call copies what it reads to the GPU and what it wrote back. Where the
arrays of a call exceed the memory of the GPU, worlds are run in pieces. Of `OTHER_JOBS`, those
whose kernels are not built run on the processor, with the same results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from featherback._core import Engine, Options, option_table
from featherback._typing import Ints, Real
from featherback.model import Model
from featherback.sim import cuda_jobs
from featherback.sim.cuda_device import CudaDevice
from featherback.sim.cuda_frame import Array, Frame, backwards, between

JOBS = ("rollout", "vjp")
"""Jobs without whose kernels there is no engine; `step` is a rollout."""
OTHER_JOBS = ("jvp", "hvp", "linearize", "contacts", "output", "output_vjp")
"""Jobs that run on the processor where their kernels are not built."""

MOST_LOCAL = 510 * 1024
"""Bytes that fit the local memory of a thread."""
MOST_THREADS = 256
"""Of a block."""

MODEL = "model "
"""How names of memory begin that is kept as long as the engine."""

_devices: dict[int, CudaDevice] = {}

# seconds that one launch should take, so that an interrupt is answered
_SHORT, _LONG = 0.025, 0.1


def open_engines(
    host: Engine, ordinals: tuple[int, ...], model: Model, theta: Real, options: Options
) -> list[CudaEngine]:
    """Return the engines of a model on GPUs by their numbers."""
    where = "Simulator()"
    for ordinal in ordinals:
        if ordinal not in _devices:
            _devices[ordinal] = CudaDevice(where, ordinal)
    limits = {"max_contacts": options.max_contacts, "max_sweeps": options.max_sweeps}
    packed = model.structure.packed(**limits)
    numbers = (theta, model.structure.vert.astype(theta.dtype))
    engines: list[CudaEngine] = []
    for ordinal in ordinals:
        _devices[ordinal].activate()
        engines.append(CudaEngine(where, host, _devices[ordinal], packed, numbers, options))
    return engines


class CudaEngine:
    """A model on a GPU; calls are those of the extension's `Engine`.

    Attributes:
        host: the engine on the processor, for jobs whose kernels are not built.
        seconds: of the kernels in the last call of each job, without copies.
        total_seconds: of the kernels of each job, since the engine was made.
        world_bytes: of scratch of one world.
        job_bytes: the same for jobs that need more.
        block: threads of a block; chosen by the number of worlds where None.
        local: whether scratch may lie in local memory.
        waits: whether a job is timed and waited for, in pieces; what does not wait is only begun.
    """

    local = waits = True

    def __init__(
        self,
        where: str,
        host: Engine,
        device: CudaDevice,
        packed: tuple[Ints, Ints],
        numbers: tuple[Real, Real],
        options: Options,
    ) -> None:
        """Copy the model to the GPU: sizes and tables, parameters and vertices."""
        self.host, self.device, self._where = host, device, where
        self.theta_size, self.derived_size = host.theta_size, host.derived_size
        self.state_size = host.state_size
        self.seconds: dict[str, float] = {}
        self.total_seconds: dict[str, float] = {}
        self.block: int | None = None
        self._piece: dict[str, int] = {}
        theta, vert = numbers
        self.real, self.itemsize = theta.dtype.name, theta.dtype.itemsize
        self._memory: dict[str, tuple[int, int]] = {}
        self._kernels: dict[str, Any] = {}
        values = _option_numbers(options)
        words = [self._keep("sizes", packed[0]), self._keep("tables", packed[1])]
        words += [self._keep("options", values), self._keep("vert", vert)]
        self._model = self.memory(MODEL + "task", 4096)
        figures = np.zeros(8, np.int64)
        at, given = self.memory("figures", figures.nbytes), self._words(words)
        device.launch(self._kernel("model", "open_model"), 1, 1, given, self._model, at)
        self._theta = self._keep("theta", theta)
        self._derived = self.memory(MODEL + "derived", self.derived_size * self.itemsize)
        self._derive(self._theta, self._derived, 1, False)
        # waits for both, since calls may come on other streams
        device.fetch(figures, at)
        self.world_bytes, linear, dual = (int(n) for n in figures[:3])
        self.job_bytes = {"linearize": linear, "jvp": dual, "hvp": dual}

    # memory and kernels

    def memory(self, name: str, count: int) -> int:
        """Return the address of at least `count` bytes, kept from call to call under a name."""
        address, have = self._memory.get(name, (0, -1))
        if have < count:
            if have >= 0:
                # waits for all that still uses it
                del self._memory[name]
                self.device.release(address)
            address = self.device.allocate(count)
            self._memory[name] = address, count
        return address

    def _keep(self, name: str, array: Array) -> int:
        """Copy an array of the model to the GPU."""
        address = self.memory(MODEL + name, array.nbytes)
        self.device.send(address, np.ascontiguousarray(array))
        return address

    def _words(self, words: list[int]) -> int:
        """Copy the words of a task to the GPU."""
        address = self.memory("words", 1024)
        self.device.send(address, np.array(words, np.int64))
        return address

    def _kernel(self, job: str, name: str) -> Any:
        """Return a kernel, loading it once."""
        key = f"{job} {name}"
        if key not in self._kernels:
            self._kernels[key] = self.device.kernel(self._where, job, self.real, name)
        return self._kernels[key]

    @property
    def uses_memory(self) -> bool:
        """Return whether a job's scratch was too large for local memory."""
        return "scratch" in self._memory

    @property
    def workspace_bytes(self) -> int:
        """Bytes of scratch of the host's engine; that of the GPU is in its local memory."""
        return self.host.workspace_bytes

    def _launch(self, job: str, words: list[int], worlds: int) -> None:
        """Start a job: in local memory where a world's scratch fits there."""
        device, given = self.device, self._words(words)
        need = self.job_bytes.get(job, self.world_bytes)
        block = self.block or _block_size(worlds, device.multiprocessors)
        kernel = self._kernel(job, "job")
        slots, scratch = worlds, 0
        # beside the scratch: what the functions keep, its alignment
        stack = need + device.figures(kernel)["local_bytes"] + 4096
        if not (self.local and stack <= MOST_LOCAL and device.reserve_local(stack)):
            slots = min(worlds, MOST_THREADS * device.multiprocessors)
            held = self._memory.get("scratch", (0, 0))[1]
            need = (need + 63) // 64 * 64
            slots = max(1, min(slots, int(0.8 * (device.free_bytes() + held)) // need))
            scratch = self.memory("scratch", slots * need)
        device.launch(kernel, slots, block, self._model, given, scratch, need, slots)

    def _derive(self, theta: int, derived: int, worlds: int, own: bool) -> None:
        """Derive from parameters what a step reads; one row, or one for every world."""
        given = self._words([theta, derived, int(own), worlds])
        kernel = self._kernel("model", "derive_params")
        self.device.launch(kernel, worlds if own else 1, 32, self._model, given)

    def _set_first_rows(self, frame: Frame, x: Real, part: slice, to: int) -> None:
        """Copy the first row of every world's states to the GPU."""
        start = np.ascontiguousarray(x[part, 0])
        worlds, n = start.shape
        address = frame.read("start", start, shared=True)
        given = self._words([address, to, worlds, n, x.shape[1] * n])
        self.device.launch(self._kernel("model", "set_rows"), worlds, 128, given)

    # pieces of worlds, and of steps

    def parts(self, worlds: int, bytes_per_world: int) -> Iterator[slice]:
        """Cut the worlds so that the arrays of each piece fit the memory that is free."""
        held = sum(count for name, (_, count) in self._memory.items() if not name.startswith(MODEL))
        room = int(0.9 * (self.device.free_bytes() + held)) - 2**28
        most = max(1, room // max(bytes_per_world, 1))
        pieces = -(-worlds // most)
        size = -(-worlds // pieces)
        for first in range(0, worlds, size):
            yield slice(first, min(first + size, worlds))

    def _steps(self, job: str, steps: int, run: Callable[[int, int], None]) -> Iterator[int]:
        """Run all steps in pieces of about 50 ms, long as the last ones; yields the steps done."""
        if not self.waits:
            run(0, steps)
            yield steps
            return
        first, piece = 0, self._piece.get(job, 1)
        while first < steps:
            last = min(first + piece, steps)
            begin = time.perf_counter()
            self.device.start_clock()
            run(first, last)
            self._spent += self.device.stop_clock()
            took = time.perf_counter() - begin
            piece = piece * 2 if took < _SHORT else max(1, piece // 2) if took > _LONG else piece
            self._piece[job] = piece
            first = last
            yield last

    _spent = 0.0

    def run(
        self,
        job: str,
        worlds: int,
        steps: int,
        words: Callable[[int, int], list[int]],
        tell: Callable[[int], None] | None = None,
    ) -> None:
        """Run a job over its steps; words(first, last) are those of its task."""
        self._spent = 0.0
        self.seconds.setdefault(job, 0.0)
        for done in self._steps(job, steps, lambda a, b: self._launch(job, words(a, b), worlds)):
            if tell is not None:
                tell(done)
        self.seconds[job] += self._spent
        self.total_seconds[job] = self.total_seconds.get(job, 0.0) + self._spent

    def own_words(self, worlds: int) -> list[int]:
        """Return the words of the part that every task has, with the simulator's parameters."""
        return [self._theta, self._derived, 0, worlds]

    def theta_words(self, theta: int, worlds: int, own: bool) -> list[int]:
        """Return the same with parameters at an address: one row, or each world its `own`."""
        rows = worlds if own else 1
        derived = self.memory("derived given", rows * self.derived_size * self.itemsize)
        self._derive(theta, derived, worlds, own)
        return [theta, derived, int(own), worlds]

    def put(self, name: str, array: Array) -> int:
        """Copy an array to the GPU; return its address, which the next call may use again."""
        address = self.memory(name, array.nbytes)
        self.device.send(address, array)
        return address

    def common_words(self, frame: Frame, theta: Real | None, worlds: int) -> list[int]:
        """Return the words of the part that every task has."""
        if theta is None:
            return self.own_words(worlds)
        own = theta.ndim == 2
        return self.theta_words(frame.read("theta given", theta, shared=not own), worlds, own)

    # jobs

    def rollout(
        self,
        x: Real,
        u: Real | None,
        theta: Real | None,
        status: Array,
        status_step: Ints,
        *,
        steps: int,
        u_first: int = 0,
        residual: Real | None = None,
        sweeps: Real | None = None,
        factorisations: Real | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Advance x, real[worlds, rows, nx]: rows are steps + 1, or one row that moves."""
        self.device.activate()
        self.seconds.pop("rollout", None)
        worlds, rows, nx = x.shape
        row = nx if rows > 1 else 0
        numbers = rows * nx + steps * (u.shape[-1] if u is not None and u.ndim == 3 else 0)
        for part in self.parts(worlds, (numbers + nx + 8) * self.itemsize):
            frame, count = Frame(self, part), part.stop - part.start
            common = self.common_words(frame, theta, count)
            at = frame.write("x", x)
            self._set_first_rows(frame, x, part, at)
            controls = frame.rows("u", u, u_first, steps)
            notes = {"residual": residual, "sweeps": sweeps, "factorisations": factorisations}
            out = [frame.change("status", status), frame.change("status_step", status_step)]
            out += [frame.change(name, array) for name, array in notes.items()]
            head = [*common, at, rows * nx, row, *controls, at]

            def tell(done: int, part: slice = part) -> None:
                if progress is not None:
                    progress((part.start * steps + (part.stop - part.start) * done) // worlds)

            self.run("rollout", count, steps, partial(between, head, out), tell)
            frame.finish()

    def vjp(
        self,
        x: Real,
        u: Real | None,
        theta: Real | None,
        x_cot: Real | None,
        x_bar: Real,
        u_bar: Real,
        theta_bar: Real | None,
        status: Array,
        status_step: Ints,
        unrolled: Ints,
        ties: Ints,
        *,
        u_first: int = 0,
        finish_params: bool = True,
        trace: Real | None = None,
    ) -> None:
        """Run the adjoint over the states x, real[worlds, steps + 1, nx]."""
        self.device.activate()
        self.seconds.pop("vjp", None)
        worlds, rows, nx = x.shape
        steps, nu = max(rows - 1, 1), u_bar.shape[-1]
        own = [x, x_cot, theta_bar, trace, theta if theta is not None and theta.ndim == 2 else None]
        each = sum(a[:1].nbytes for a in own if a is not None)
        each += (2 * steps * nu + nx + self.derived_size + 8) * self.itemsize
        for part in self.parts(worlds, each):
            frame, count = Frame(self, part), part.stop - part.start
            common = self.common_words(frame, theta, count)
            states = [frame.read("x", x), rows * nx, nx if rows > 1 else 0]
            controls = frame.rows("u", u, u_first, steps)
            given = [frame.read("x_cot", x_cot), 0 if x_cot is None else x_cot.shape[1]]
            u_out = u_bar[:, u_first : u_first + steps]
            bars = [frame.change("x_bar", x_bar), nx, frame.write("u_bar", u_out), steps * nu]
            wide = self.theta_size + self.derived_size
            bars += [frame.change("theta_bar", theta_bar), wide, int(finish_params)]
            notes = {"status": status, "status_step": status_step, "unrolled": unrolled}
            out = [frame.change(name, array) for name, array in notes.items()]
            out += [frame.change("ties", ties), frame.change("trace", trace)]

            head, tail = [*common, *states, *controls, steps], [*given, *bars, *out]
            self.run("vjp", count, steps, partial(backwards, head, tail, steps))
            frame.finish()

    def __getattr__(self, name: str) -> Any:
        """Return one of the other jobs, on the processor where its kernel is not built."""
        if name not in OTHER_JOBS:
            raise AttributeError(f"'CudaEngine' object has no attribute {name!r}")
        if not self.device.has_kernel(name, self.real):
            return getattr(self.host, name)
        return partial(getattr(cuda_jobs, name), self)

    def step_one(self, *given: Any) -> None:
        """Leave a single world to the calls for batches."""

    def linearize_one(self, *given: Any) -> Any:
        """Linearize a single world on the processor."""
        return self.host.linearize_one(*given)

    def close_arrays(self) -> None:
        """Give back the memory of calls; that of the model stays."""
        for name in [name for name in self._memory if not name.startswith(MODEL)]:
            self.device.release(self._memory.pop(name)[0])

    def __del__(self) -> None:
        """Give all memory of the GPU back."""
        for address, _ in self.__dict__.get("_memory", {}).values():
            # a GPU that failed, or a process that ends, has given it back already
            try:
                self.device.release(address)
            except Exception:
                return


def _option_numbers(options: Options) -> Real:
    """Return all options as numbers, in the order of the schema; a word is its place."""
    values: list[float] = []
    for row in option_table():
        value = getattr(options, row.name)
        values.append(row.choices.index(value) if row.kind == "choice" else float(value))
    return np.array(values, np.float64)


def _block_size(worlds: int, multiprocessors: int) -> int:
    """Return the threads of a block: whole warps, so that every multiprocessor has a block."""
    even = -(-worlds // multiprocessors)
    return min(MOST_THREADS, max(32, -(-even // 32) * 32))
