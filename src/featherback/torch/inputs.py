"""Checks of what callers pass in; every refusal is one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from featherback.errors import ParameterError, ShapeError
from featherback.sim import Simulator
from featherback.sim import bridge as sim_bridge
from featherback.sim.bridge import Bridge, StateLayout, bridge_of, check_carried

DTYPES = {"float64": torch.float64, "float32": torch.float32}
CASTS = {"float64": "double", "float32": "float"}


def check_simulator(where: str, sim: Any) -> Bridge:
    """Return the bridge of a simulator; refuse what is not one."""
    if not isinstance(sim, Simulator):
        raise ParameterError(
            f"{where}: sim is of type {type(sim).__name__}; pass a featherback.Simulator."
        )
    bridge_of(sim).require_one_device(where)
    return bridge_of(sim)


def check_tensor(where: str, name: str, x: Any, bridge: Bridge) -> Tensor:
    """Refuse what is not a dense tensor on the simulator's device with its number type."""
    dtype = bridge.real
    strided = isinstance(x, Tensor) and x.layout is torch.strided and _lies_on(x, bridge.place)
    if strided and x.dtype is DTYPES[dtype]:
        return x
    if not isinstance(x, Tensor):
        raise ShapeError(
            f"{where}: {name} is of type {type(x).__name__}; expected a torch.Tensor, such as "
            f"torch.as_tensor({name}, dtype=torch.{dtype})."
        )
    if not _lies_on(x, bridge.place):
        raise ShapeError(
            f'{where}: {name} is on device "{x.device}"; {_elsewhere(name, x, bridge)}.'
        )
    if x.dtype != DTYPES[dtype]:
        other = str(x.dtype).removeprefix("torch.")
        build = f' or build the Simulator with dtype="{other}"' if other in DTYPES else ""
        raise ShapeError(
            f"{where}: {name} has dtype {x.dtype}; expected torch.{dtype}: pass "
            f"{name}.{CASTS[dtype]}(){build}."
        )
    raise ShapeError(
        f"{where}: {name} has layout {x.layout}; expected a dense tensor: pass {name}.to_dense()."
    )


def _lies_on(x: Tensor, place: str) -> bool:
    """Return whether a tensor lies on a device, "cpu" or such as "cuda:0"."""
    return x.is_cpu if place == "cpu" else str(x.device) == place


def _elsewhere(name: str, x: Tensor, bridge: Bridge) -> str:
    """Return why a tensor on another device is refused, and what to pass."""
    here = "the CPU" if bridge.place == "cpu" else f'"{bridge.place}"'
    what = f'pass {name}.to("{bridge.place}"), as all tensors of the call'
    if x.device.type == "meta":
        what = "it has no numbers; pass a tensor with numbers"
    elif bridge.place == "cpu":
        what = f"pass {name}.cpu() and move the results back with .to({name}.device)"
    return f"the simulator computes on {here}, so {what}"


def pack_params(
    where: str, params: Any, sim: Simulator, worlds: int | None, moves: bool = True
) -> tuple[str, Tensor | None, Tensor | None]:
    """Return parameters flat, with their names; with `moves`, they must act on the motion."""
    if params is None:
        return "", None, None
    if not isinstance(params, Mapping):
        raise ParameterError(
            f"{where}: params is of type {type(params).__name__}; it must be a dict from parameter "
            'names to tensors, such as {"body_mass": mass}.'
        )
    bridge = bridge_of(sim)
    shared: dict[str, Tensor] = {}
    own: dict[str, Tensor] = {}
    for name, value in params.items():
        sim_bridge.refuse_unknown(where, str(name), list(bridge.shapes))
        if moves:
            sim_bridge.refuse_without_gradient(where, {name: value})
        x = check_tensor(where, f'params["{name}"]', value, bridge)
        shape = bridge.shapes[name]
        if tuple(x.shape) == shape or (x.ndim == 0 and shape == (1,)):
            shared[name] = x.reshape(-1)
        elif worlds is not None and tuple(x.shape) == (worlds, *shape):
            own[name] = x.reshape(worlds, -1)
        else:
            batch = f" or {(worlds, *shape)}" if worlds is not None else ""
            raise ShapeError(
                f'{where}: params["{name}"] has shape {tuple(x.shape)}; expected {shape}{batch}.'
            )
    if not shared and not own:
        return "", None, None
    return f"{','.join(shared)};{','.join(own)}", _joined(shared), _joined(own)


def _joined(parts: dict[str, Tensor]) -> Tensor | None:
    """Return flat parameters one after the other."""
    return torch.cat(list(parts.values()), -1) if parts else None


def check_rows(where: str, name: str, x: Tensor, layout: StateLayout) -> int | None:
    """Return the number of worlds of (n,) or (worlds, n), None for the former."""
    n = layout.lengths[name]
    if x.ndim == 1 and x.shape[0] == n:
        return None
    if x.ndim != 2 or x.shape[1] != n:
        raise ShapeError(
            f"{where}: {name} has shape {tuple(x.shape)}; expected ({n},) or (worlds, {n}) "
            f'for model "{layout.model}".'
        )
    return x.shape[0]


def check_state(
    where: str, bridge: Bridge, q: Any, v: Any, act: Any, warm: Any = None
) -> tuple[dict[str, Tensor], dict[str, int | None]]:
    """Refuse what is no state; return its parts by name, and their numbers of worlds."""
    parts = {"q": check_tensor(where, "q", q, bridge), "v": v}
    if bridge.layout.na or act is not None:
        parts["act"] = q.new_zeros(bridge.layout.na) if act is None else act
    if bridge.layout.nwarm or warm is not None:
        parts["warm"] = q.new_zeros(bridge.layout.nwarm) if warm is None else warm
    for name, x in parts.items():
        check_tensor(where, name, x, bridge)
    if warm is not None:
        check_carried(where, bridge.layout, tuple(warm.shape[-1:]))
    return parts, {name: check_rows(where, name, x, bridge.layout) for name, x in parts.items()}


def spread_state(parts: dict[str, Tensor], worlds: int | None) -> list[Tensor]:
    """Return q, v and the rest of a state, with a world axis where anything has one."""
    rows = [
        x if worlds is None or x.ndim == 2 else x.expand(worlds, x.shape[-1])
        for x in parts.values()
    ]
    return rows if len(rows) < 4 else [*rows[:2], torch.cat(rows[2:], -1)]


def split_rest(layout: StateLayout, rest: Tensor) -> tuple[Tensor, Tensor]:
    """Return the activations of the rest of states, and what they carry, which has no gradient."""
    return rest[..., : layout.na], rest[..., layout.na :].detach()


def same_worlds(where: str, counts: dict[str, int | None]) -> int | None:
    """Return the number of worlds that all agree on, None where nothing has a world axis."""
    if set(counts.values()) == {None}:
        return None
    for name, count in counts.items():
        if count == 0:
            raise ShapeError(f"{where}: {name} has 0 worlds; give at least one.")
    return sim_bridge.same_worlds(where, counts)
