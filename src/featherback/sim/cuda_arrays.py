"""Rollouts and gradients on arrays that already lie on the GPU; nothing is copied.

An array is anything that speaks DLPack or NVIDIA's `__cuda_array_interface__`: tensors of torch,
arrays of CuPy or JAX. What is written must be writable. What was started before on the default
stream is waited for, or by what an array that speaks DLPack says, and a call returns when it is
done.
States are flat rows x = (q, v, act), those of `state_size`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from featherback.errors import ParameterError, ShapeError
from featherback.sim import dlpack
from featherback.sim.bridge import Bridge, bridge_of
from featherback.sim.cuda import CudaEngine
from featherback.sim.cuda_path import DeviceBars, DevicePath, run_rollout, run_vjp
from featherback.sim.simulator import Simulator
from featherback.sim.status import WorldStatus


def state_size(sim: Simulator) -> int:
    """Return the numbers of a flat state: q, v and act one after the other."""
    return bridge_of(sim).layout.nx


def rollout(sim: Simulator, x: Any, u: Any = None) -> NDArray[np.uint32]:
    """Advance from row 0 of x and write the other rows.

    Args:
        sim: a Simulator with device="cuda".
        x: real[worlds, steps + 1, state_size], on the GPU.
        u: real[worlds, steps, nu], on the GPU; not given where the model has no controls.

    Returns:
        uint32[worlds], bits of `Status`.
    """
    where = "cuda_arrays.rollout()"
    bridge, engine = _opened(where, sim)
    path = _path(where, bridge, x, u)
    found = WorldStatus.ok(path.worlds)
    status = engine.put("status", found.status), engine.put("status_step", found.step)
    run_rollout(engine, path, status)
    engine.device.fetch(found.status, status[0])
    return found.status


def vjp(sim: Simulator, x: Any, u: Any, x_bar: Any, u_bar: Any = None, x_cot: Any = None) -> None:
    """Run the adjoint of a rollout backwards.

    Args:
        sim: a Simulator with device="cuda".
        x: real[worlds, steps + 1, state_size], what `rollout` wrote.
        u: the controls it was given.
        x_bar: real[worlds, state_size], changed: derivative of the loss with respect to the last
            state, and afterwards that with respect to the first one.
        u_bar: real[worlds, steps, nu], written: derivative with respect to the controls.
        x_cot: real[worlds, rows, state_size], derivatives with respect to the last rows of x, added
            on the way; none where None.

    Raises:
        WorldError: where a step has no gradient.
    """
    where = "cuda_arrays.vjp()"
    bridge, engine = _opened(where, sim)
    path = _path(where, bridge, x, u)
    found = WorldStatus.ok(path.worlds)
    worlds, nx, nu = path.worlds, bridge.layout.nx, bridge.layout.nu
    rows = 0 if x_cot is None else int(x_cot.shape[1])
    bars = DeviceBars(
        x=_address(where, bridge, "x_bar", x_bar, (worlds, nx)),
        u=_controls(where, bridge, "u_bar", u_bar, worlds, path.steps)[0],
        x_cot=0 if x_cot is None else _address(where, bridge, "x_cot", x_cot, (worlds, rows, nx)),
        rows=rows,
    )
    status = engine.put("status", found.status), engine.put("status_step", found.step)
    run_vjp(engine, path, bars, (nx, nu), status)
    engine.device.fetch(found.status, status[0])
    engine.device.fetch(found.step, status[1])
    found.require_ok(where)


def _opened(where: str, sim: Simulator) -> tuple[Bridge, CudaEngine]:
    """Return the engine of a simulator on a GPU, made that of this thread."""
    bridge_of(sim).require_one_device(where)
    engine = bridge_of(sim).gpu
    if engine is None:
        raise ParameterError(
            f'{where}: the simulator runs on "{sim.device}"; build it with device="cuda".'
        )
    engine.device.activate()
    return bridge_of(sim), engine


def _extent(where: str, bridge: Bridge, x: Any) -> tuple[int, int]:
    """Return worlds and steps of the states of a rollout."""
    shape = tuple(getattr(x, "shape", ()))
    if len(shape) != 3 or shape[1] < 1 or shape[2] != bridge.layout.nx:
        raise ShapeError(
            f"{where}: x has shape {shape}; expected (worlds, steps + 1, {bridge.layout.nx}) for "
            f'model "{bridge.model.name}".'
        )
    return int(shape[0]), int(shape[1]) - 1


def _path(where: str, bridge: Bridge, x: Any, u: Any) -> DevicePath:
    """Return where states and controls lie."""
    worlds, steps = _extent(where, bridge, x)
    nx = bridge.layout.nx
    states = _address(where, bridge, "x", x, (worlds, steps + 1, nx))
    controls = _controls(where, bridge, "u", u, worlds, steps)
    return DevicePath(worlds, steps, (states, (steps + 1) * nx, nx), controls)


def _controls(
    where: str, bridge: Bridge, name: str, u: Any, worlds: int, steps: int
) -> tuple[int, int, int]:
    """Return address, stride of worlds and stride of rows of controls."""
    nu = bridge.layout.nu
    if nu == 0:
        return 0, 0, 0
    return _address(where, bridge, name, u, (worlds, steps, nu)), steps * nu, nu


def _address(where: str, bridge: Bridge, name: str, array: Any, shape: tuple[int, ...]) -> int:
    """Return where an array lies on the GPU, or refuse it."""
    assert bridge.gpu is not None
    device = bridge.gpu.device
    told = dlpack.read(array, device.stream)
    if told is None or (told.device is not None and told.device[0] != device.dlpack[0]):
        raise ParameterError(
            f"{where}: {name} is of type {type(array).__name__} and does not lie on a GPU; pass an "
            "array that does, or use Simulator.rollout with NumPy's arrays."
        )
    if told.device not in (None, device.dlpack):
        raise ParameterError(
            f'{where}: {name} lies on "cuda:{told.device[1]}" and the simulator computes on '
            f'"{bridge.device}"; move it there.'
        )
    if told.shape != shape:
        raise ShapeError(f"{where}: {name} has shape {told.shape}; expected {shape}.")
    real = bridge.layout.dtype
    if told.dtype != real.name:
        raise ParameterError(
            f"{where}: {name} has the type {told.dtype}; the simulator's is {real.name}."
        )
    if not dlpack.is_dense(told):
        raise ParameterError(f"{where}: {name} is not contiguous; pass a contiguous copy.")
    return told.address
