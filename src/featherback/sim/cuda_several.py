"""The engine's jobs on several GPUs of one process: each takes a share of the worlds."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from featherback.sim import cuda_jobs
from featherback.sim.cuda import JOBS, OTHER_JOBS, CudaEngine
from featherback.sim.outputs import OF_A_STEP

# arguments that all worlds may share, and the axes that they have then; controls only of many steps
_SHARED = {"theta": 1, "dtheta": 1}
_SHARED_STEPS = {**_SHARED, "u": 2, "du": 2}


class SeveralEngines:
    """Engines of one model, each on a GPU of its own; calls are those of one engine.

    The worlds are cut into shares that lie one after the other and are as equal as can be; a world
    has the bits that it has on one GPU. What says how far a call is, is the first share.

    Attributes:
        engines: one for each GPU.
    """

    def __init__(self, engines: list[CudaEngine]) -> None:
        """Hold the engines; the first one's share runs in the calling thread."""
        first = engines[0]
        self.engines, self.host = engines, first.host
        self.theta_size, self.derived_size = first.theta_size, first.derived_size
        self.state_size = first.state_size
        self._threads = ThreadPoolExecutor(len(engines) - 1, "featherback-gpu")

    @property
    def workspace_bytes(self) -> int:
        """Bytes of scratch of the host's engine."""
        return self.host.workspace_bytes

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of the kernels in the last call of each job, on the GPU that took longest."""
        found: dict[str, float] = {}
        for engine in self.engines:
            for job, seconds in engine.seconds.items():
                found[job] = max(seconds, found.get(job, 0.0))
        return found

    def __getattr__(self, name: str) -> Any:
        """Return a job that is split among the GPUs, or runs on the processor."""
        if name not in (*JOBS, *OTHER_JOBS):
            raise AttributeError(f"'SeveralEngines' object has no attribute {name!r}")
        first = self.engines[0]
        if name in OTHER_JOBS and not first.device.has_kernel(name, first.real):
            return getattr(self.host, name)
        return partial(self._split, name)

    def _split(self, job: str, *given: Any, **named: Any) -> None:
        """Run a job, each GPU on its share of the worlds."""
        if job in ("output", "output_vjp") and given[0] in OF_A_STEP:
            getattr(self.host, job)(*given, **named)
            return
        kind = getattr(CudaEngine, job) if job in JOBS else getattr(cuda_jobs, job)
        bound = inspect.signature(kind).bind(None, *given, **named)
        arguments = dict(list(bound.arguments.items())[1:])
        worlds = len(arguments["q"] if "q" in arguments else arguments["x"])
        shares = _shares(worlds, len(self.engines))
        shared = _SHARED_STEPS if job in ("rollout", "vjp", "jvp", "hvp") else _SHARED
        calls = [
            partial(getattr(engine, job), **_cut(arguments, part, shared, i == 0))
            for i, (engine, part) in enumerate(zip(self.engines, shares, strict=True))
            if part.stop > part.start
        ]
        others = [self._threads.submit(call) for call in calls[1:]]
        try:
            for call in calls[:1]:
                call()
        finally:
            # nobody writes into the caller's arrays after the call
            failed = [error for other in others if (error := other.exception()) is not None]
        for error in failed:
            raise error

    def step_one(self, *given: Any) -> None:
        """Leave a single world to the calls for batches."""

    def linearize_one(self, *given: Any) -> Any:
        """Linearize a single world on the processor."""
        return self.host.linearize_one(*given)


def _shares(worlds: int, count: int) -> list[slice]:
    """Return the worlds of each GPU; the first has some."""
    ends = [-(-worlds * (i + 1) // count) for i in range(count)]
    return [slice(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True)]


def _cut(
    arguments: dict[str, Any], part: slice, shared: dict[str, int], first: bool
) -> dict[str, Any]:
    """Return the arguments of one share."""

    def own(name: str, value: Any) -> Any:
        if name == "progress" and not first:
            return None
        if not isinstance(value, np.ndarray) or value.ndim == shared.get(name):
            return value
        return value[part]

    return {name: own(name, value) for name, value in arguments.items()}
