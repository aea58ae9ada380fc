"""How operators are made known to torch, and the one rule by which vmap folds a batch into worlds.

An operator takes the handle of a simulator, names of parameters and a mode, then tensors by name.
The name of a tensor, such as `x`, `x_bar` or `dx`, says how it is folded: controls `u` may be
shared by all worlds, `shared` and `own` are flat parameters, and everything else has a world axis
if the first tensor has one. A result named as an argument is the derivative with respect to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

library = torch.library.Library("featherback", "DEF")


def define(
    name: str,
    head: str,
    tensors: str,
    results: str,
    kernel: tuple[Callable[..., Any], bool],
    fake: Callable[..., Any],
) -> Any:
    """Return a new operator with its kernel, its empty results and its rule for vmap.

    Args:
        name: of the operator.
        head: types and names of what comes before the tensors.
        tensors: names of the tensors; one that may be missing ends with a question mark.
        results: names of the results.
        kernel: what it computes, and whether it takes tensors on a GPU as they are; otherwise these
            go through the processor.
        fake: what it returns, without numbers.
    """
    types = [f"Tensor{'?' if n.endswith('?') else ''} {n.rstrip('?')}" for n in tensors.split()]
    several = results.split()
    returned = "Tensor" if len(several) == 1 else f"({', '.join(['Tensor'] * len(several))})"
    library.define(f"{name}({head}, {', '.join(types)}) -> {returned}")
    compute, direct = kernel
    library.impl(name, compute, "CPU")
    library.impl(name, compute if direct else through_processor(compute), "CUDA")
    torch.library.register_fake(f"featherback::{name}", fake, lib=library)
    operator: Any = getattr(torch.ops.featherback, name).default
    names = tensors.replace("?", "").split()

    def vmap(info: Any, dims: Any, handle: str, params: str, mode: Any, *given: Any) -> Any:
        pairs = dict(zip(names, zip(given, dims[3:], strict=True), strict=True))
        fold = Fold(info.batch_size, mode, pairs)
        # a derivative with respect to what worlds share is asked for in each of them
        fold.shares = not ("flags" in names or set(names) & set(several))
        shared = fold.keeps_params("")
        found = operator(handle, params if shared else all_own(params), mode, *fold.folded())
        if len(several) == 1:
            return fold.take(found), 0
        return fold.results(several, found), (0,) * len(several)

    torch.library.register_vmap(f"featherback::{name}", vmap, lib=library)
    return operator


def through_processor(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that copies its tensors to the processor, and its results back."""

    def run(handle: str, names: str, mode: Any, *given: Any) -> Any:
        device = next(x.device for x in given if x is not None)
        found = kernel(handle, names, mode, *(None if x is None else x.cpu() for x in given))
        if isinstance(found, Tensor):
            return found.to(device)
        return tuple(x.to(device) for x in found)

    return run


def all_own(names: str) -> str:
    """Return the names where each world has its own of all parameters."""
    return ";" + ",".join(part for part in names.split(";") if part) if names else ""


def _rank(x: Tensor, dim: int | None) -> int:
    """Return the number of axes besides that of vmap."""
    return x.ndim - (dim is not None)


class Fold:
    """Tensors of a batch of vmap laid into the world axis, and results unfolded again.

    Attributes:
        size: of the batch.
        given: tensors and their batch axes, by name.
        worlds: worlds of the tensors; None where they have no world axis.
        u_own: whether each world has its own controls.
        shares: whether what all worlds share may stay so.
    """

    def __init__(self, size: int, mode: Any, given: dict[str, tuple[Any, int | None]]) -> None:
        """Read the sizes; a mode that is not zero has no axis of steps."""
        self.size, self.given, self.shares = size, given, False
        x, dim = next(iter(given.values()))
        single = _rank(x, dim) == (2 if "flags" in given and not mode else 1)
        self.worlds = None if single else x.shape[1 if dim == 0 else 0]
        self.u_own = "u" in given and _rank(*given["u"]) > (1 if mode else 2)

    def keeps_params(self, start: str) -> bool:
        """Return whether parameters, or directions in them, may stay as they are."""
        (_, dim), (own, _) = self.given[f"{start}shared"], self.given[f"{start}own"]
        return self.shares and own is None and dim is None

    def folded(self) -> list[Tensor | None]:
        """Return all tensors with batch and worlds in one leading axis."""
        out: dict[str, Tensor | None] = {}
        for name, (x, dim) in self.given.items():
            if name.endswith("shared"):
                start = name.removesuffix("shared")
                out[name], out[f"{start}own"] = self._params(start)
            elif name in ("u", "du"):
                stays = self.shares and dim is None and not self.u_own
                out[name] = x if stays else self.put(x, dim, self.u_own)
            elif name not in out:
                out[name] = None if x is None else self.put(x, dim, self.worlds is not None)
        return list(out.values())

    def _params(self, start: str) -> tuple[Tensor | None, Tensor | None]:
        """Return parameters of which each world has its own: the shared ones, then the others."""
        pairs = self.given[f"{start}shared"], self.given[f"{start}own"]
        if self.keeps_params(start):
            return pairs[0][0], None
        parts = [
            self.put(*pair, bool(own)) for own, pair in enumerate(pairs) if pair[0] is not None
        ]
        return None, torch.cat(parts, 1) if parts else None

    def put(self, x: Tensor, dim: int | None, own: bool) -> Tensor:
        """Fold one tensor, which has a world axis of its `own` or is the same in all worlds."""
        x = x.expand(self.size, *x.shape) if dim is None else x.movedim(dim, 0)
        if self.worlds is None:
            return x
        x = x if own else x.unsqueeze(1).expand(self.size, self.worlds, *x.shape[1:])
        return x.reshape(self.size * self.worlds, *x.shape[2:])

    def take(self, x: Tensor, own: bool = True) -> Tensor:
        """Return a result with the batch axis first; what all worlds share is summed."""
        if self.worlds is None:
            return x
        x = x.reshape(self.size, self.worlds, *x.shape[1:])
        return x if own else x.sum(1)

    def results(self, names: list[str], found: Any) -> tuple[Tensor, ...]:
        """Return results with the batch axis first; empty for what was not given."""
        values = dict(zip(names, found, strict=True))
        if "own" in values:
            shared, dim = self.given["shared"]
            count = 0 if shared is None else self.put(shared, dim, False).shape[-1]
            values["shared"], values["own"] = values["own"].split_with_sizes(
                [count, values["own"].shape[-1] - count], -1
            )
        none = found[0].new_empty(self.size, 0)
        return tuple(
            none
            if self.given.get(name, (y,))[0] is None
            else self.take(y, self.u_own if name == "u" else name != "shared")
            for name, y in values.items()
        )
