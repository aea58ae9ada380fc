"""A simulator's engines on the GPU on which JAX computes, for calls that XLA makes.

XLA hands its buffers and its stream to a function of Python (`jax.experimental.buffer_callback`),
which starts kernels on them. Such a function must not call JAX, and waits only for what it reads.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from featherback._core import ParameterChecker
from featherback._typing import Real
from featherback.errors import ParameterError
from featherback.sim import dlpack
from featherback.sim.bridge import Bridge, bridge_of
from featherback.sim.cuda import CudaEngine, open_engines
from featherback.sim.simulator import Simulator

WHERE = "featherback.jax"
# DLPack's number for memory of CUDA
_CUDA = 2


class OnDevice:
    """The buffers of one call, while an engine is open on their stream.

    Attributes:
        engine: of the stream.
        at: addresses of the buffers, 0 for an empty one.
    """

    def __init__(self, engine: CudaEngine, at: list[int]) -> None:
        """Hold both."""
        self.engine, self.at = engine, at

    def fetch(self, place: int, buffer: Any) -> np.ndarray[Any, Any]:
        """Return a copy of a buffer by its place; waits for what was started before."""
        out = np.empty(buffer.shape, buffer.dtype)
        self.engine.device.fetch(out, self.at[place])
        return out

    def send(self, place: int, array: np.ndarray[Any, Any]) -> None:
        """Copy an array into a buffer."""
        self.engine.device.send(self.at[place], np.ascontiguousarray(array))


class DeviceEngines:
    """The engines behind compiled functions, one for each stream of XLA.

    What a stream runs is in order, so that calls on it share an engine and its memory without
    waiting. The simulator's own engine is another one.

    Attributes:
        device: the GPU.
        bridge: an engine on the processor, for what has no kernels here.
    """

    def __init__(self, sim: Simulator) -> None:
        """Build what does not lie on the GPU; the engines there are made when XLA calls."""
        own = bridge_of(sim)
        own.require_one_device(WHERE)
        assert own.gpu is not None
        self.device = own.gpu.device
        self.require_platform()
        self._theta = np.concatenate([a.reshape(-1) for a in own.params.values()])
        given = (own.model, own.options, own.layout.dtype, own.threads, self._theta)
        self.bridge = Bridge(*given)
        structure = own.model.structure
        self._checker = ParameterChecker(*structure.packed(), own.model.body_names)
        self._engines: dict[int, CudaEngine] = {}
        self._lock = threading.Lock()

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of the parameters, and with what is derived from them."""
        host = self.bridge.host
        return host.theta_size, host.theta_size + host.derived_size

    @property
    def platform(self) -> str:
        """What JAX calls the kind of device."""
        return "cuda" if self.device.dlpack[0] == _CUDA else "cpu"

    def require_platform(self) -> None:
        """Refuse a JAX that does not know the GPU."""
        try:
            jax.devices(self.platform)
        except RuntimeError as error:
            raise ParameterError(
                f'{WHERE}: the simulator runs on "{self.device.place}" and JAX has no platform '
                f'"{self.platform}" here; install JAX with CUDA (pip install "jax[cuda13]"), or '
                "build the simulator without device."
            ) from error

    def refuse_platforms(self, platforms: Sequence[str]) -> None:
        """Refuse a computation that is placed on other platforms."""
        raise NotImplementedError(
            f"{WHERE}: the computation is placed on {', '.join(platforms)} and the simulator "
            f'computes on "{self.device.place}"; move its inputs there with jax.device_put, or '
            "build the simulator without device."
        )

    def require_here(self, where: str, name: str, x: jax.Array) -> None:
        """Refuse an array that lies elsewhere; what JAX traces lies nowhere yet."""
        if isinstance(x, Tracer):
            return
        kind, number = self.device.dlpack
        for device in x.devices():
            if kind != _CUDA and device.platform == "cpu":
                continue
            if kind == _CUDA and device.platform == "gpu" and device.local_hardware_id == number:
                continue
            raise ParameterError(
                f"{where}: {name} lies on {device} and the simulator computes on "
                f'"{self.device.place}"; move it there with jax.device_put, or build the simulator '
                "for the array's device."
            )

    @contextmanager
    def opened(self, context: Any, buffers: Sequence[Any]) -> Generator[OnDevice]:
        """Launch on XLA's stream, for the buffers of a call."""
        at = [self._address(buffer) for buffer in buffers]
        stream = int(context.stream) if self.platform == "cuda" else 0
        with self._lock, self.device.on_stream(stream):
            self.device.activate()
            yield OnDevice(self._engine(stream), at)

    def _address(self, buffer: Any) -> int:
        """Return where a buffer begins, or refuse that of another device."""
        device = tuple(int(n) for n in buffer.__dlpack_device__())
        if device != self.device.dlpack:
            place = f"cuda:{device[1]}" if device[0] == _CUDA else "cpu"
            raise ParameterError(
                f'{WHERE}: the computation is placed on "{place}" and the simulator computes on '
                f'"{self.device.place}"; move its inputs there with jax.device_put.'
            )
        if 0 in buffer.shape:
            return 0
        # XLA has put in order what the stream does
        return dlpack.of_capsule(buffer.__dlpack__(), self.device.dlpack).address

    def _engine(self, stream: int) -> CudaEngine:
        """Return the engine of a stream, made on its first call."""
        if stream not in self._engines:
            own, real = self.bridge, self.bridge.layout.dtype
            given = (own.model, self._theta.astype(real), own.options)
            (engine,) = open_engines(own.host, (self.device.dlpack[1],), *given)
            engine.waits = False
            self._engines[stream] = engine
        return self._engines[stream]

    def check_values(self, where: str, theta: Real) -> None:
        """Refuse parameters without physical meaning, which only a compiled function sees."""
        rounding = float(np.finfo(theta.dtype).eps)
        found = self._checker.check(np.ascontiguousarray(theta), list(self.bridge.params), rounding)
        if found is not None:
            raise ParameterError(f"{where}: {found.message}")
