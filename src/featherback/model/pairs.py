"""Which pairs of geoms may touch: MuJoCo's filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from featherback._core import shape_types
from featherback._typing import Array, Bools, Ints

if TYPE_CHECKING:
    import mujoco

# shapes of geoms by name, numbered as in MuJoCo
SHAPES = dict(shape_types())

# rows of the table of pairs that are filtered at once
_BLOCK = 1024


@dataclass(frozen=True)
class Pairs:
    """Pairs of geoms that may touch, sorted by (geom1, geom2).

    Attributes:
        geom1: int32[n], the geom with the smaller type in MuJoCo's order.
        geom2: int32[n], the other.
        condim: int32[n], 1 (frictionless), 3 (sliding), 4 (and torsion) or 6 (and rolling).
        friction: float64[n], sliding friction of an explicit <pair>, NaN where it is combined from
            the two geoms.
        explicit: int32[n], index of the <pair> in MuJoCo's model, or -1.
    """

    geom1: Ints
    geom2: Ints
    condim: Ints
    friction: Array
    explicit: Ints

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.geom1)

    def select(self, index: NDArray[np.intp] | Bools) -> Pairs:
        """Return the pairs of an index array or mask."""
        return Pairs(
            self.geom1[index],
            self.geom2[index],
            self.condim[index],
            self.friction[index],
            self.explicit[index],
        )

    def frozen(self) -> Pairs:
        """Return the same pairs with read-only arrays."""
        for array in (self.geom1, self.geom2, self.condim, self.friction, self.explicit):
            array.flags.writeable = False
        return self


def candidate_pairs(model: mujoco.MjModel) -> Pairs:
    """Return all pairs that MuJoCo's filter lets through, with condim as it combines it."""
    import mujoco

    off = int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    if model.opt.disableflags & off or model.ngeom < 2:
        none = np.empty(0, np.int32)
        return Pairs(none, none, none, np.empty(0), none)
    first, second = _ordered(model, model.pair_geom1, model.pair_geom2)
    geom1, geom2 = _filtered_pairs(model)
    if len(first):
        fresh = ~np.isin(_numbered(model, geom1, geom2), _numbered(model, first, second))
        geom1, geom2 = geom1[fresh], geom2[fresh]
    pairs = Pairs(
        np.concatenate([first, geom1]).astype(np.int32),
        np.concatenate([second, geom2]).astype(np.int32),
        np.concatenate([model.pair_dim, _combined_condim(model, geom1, geom2)]).astype(np.int32),
        np.concatenate([model.pair_friction[:, 0], np.full(len(geom1), np.nan)]),
        np.concatenate([np.arange(model.npair), np.full(len(geom1), -1)]).astype(np.int32),
    )
    pairs = pairs.select(_can_part(model, pairs.geom1, pairs.geom2))
    return pairs.select(np.lexsort((pairs.geom2, pairs.geom1)))


def _numbered(model: mujoco.MjModel, a: Ints, b: Ints) -> NDArray[np.int64]:
    """Return one number for each pair of geoms."""
    return a.astype(np.int64) * int(model.ngeom) + b


def _can_part(model: mujoco.MjModel, a: Ints, b: Ints) -> Bools:
    """Return which geoms can move relative to each other under forces."""
    weld_a = model.body_weldid[model.geom_bodyid[a]]
    weld_b = model.body_weldid[model.geom_bodyid[b]]
    # a body without degrees of freedom, mocap bodies included, cannot be pushed
    moves = model.body_treeid >= 0
    return (weld_a != weld_b) & (moves[weld_a] | moves[weld_b])


def _ordered(model: mujoco.MjModel, a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Put the geom of the smaller type first; equal types keep the order of their numbers."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    swap = model.geom_type[low] > model.geom_type[high]
    return np.where(swap, high, low), np.where(swap, low, high)


def _filtered_pairs(model: mujoco.MjModel) -> tuple[Ints, Ints]:
    """Return the pairs that pass the dynamic filter, block by block to bound memory."""
    live = np.flatnonzero((model.geom_contype != 0) | (model.geom_conaffinity != 0))
    found: list[tuple[Ints, Ints]] = []
    for start in range(0, len(live), _BLOCK):
        block = live[start : start + _BLOCK]
        a, b = np.meshgrid(block, live, indexing="ij")
        keep = a < b
        a, b = a[keep].astype(np.int32), b[keep].astype(np.int32)
        passed = _passes(model, a, b)
        found.append((a[passed], b[passed]))
    if not found:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    first = np.concatenate([a for a, _ in found])
    second = np.concatenate([b for _, b in found])
    return _ordered(model, first, second)


def _passes(model: mujoco.MjModel, a: Ints, b: Ints) -> Bools:
    """Apply contact masks, the body and parent filter, and excludes."""
    import mujoco

    contype, conaffinity = model.geom_contype, model.geom_conaffinity
    passed = ((contype[a] & conaffinity[b]) | (contype[b] & conaffinity[a])) != 0
    # two planes never meet
    passed &= (model.geom_type[a] != SHAPES["plane"]) | (model.geom_type[b] != SHAPES["plane"])

    body_a, body_b = model.geom_bodyid[a], model.geom_bodyid[b]
    weld_a, weld_b = model.body_weldid[body_a], model.body_weldid[body_b]
    passed &= _can_part(model, a, b)

    if not model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT):
        parent = model.body_weldid[model.body_parentid]
        family = (weld_a == parent[weld_b]) | (weld_b == parent[weld_a])
        passed &= ~(family & (weld_a != 0) & (weld_b != 0))

    if model.nexclude:
        low, high = np.minimum(body_a, body_b), np.maximum(body_a, body_b)
        passed &= ~np.isin((low.astype(np.int64) << 16) + high, model.exclude_signature)
    return passed


def _combined_condim(model: mujoco.MjModel, a: Ints, b: Ints) -> Ints:
    """Return MuJoCo's contact dimension: the higher priority wins, else the larger number."""
    dim_a, dim_b = model.geom_condim[a], model.geom_condim[b]
    prio_a, prio_b = model.geom_priority[a], model.geom_priority[b]
    return np.where(
        prio_a > prio_b, dim_a, np.where(prio_b > prio_a, dim_b, np.maximum(dim_a, dim_b))
    ).astype(np.int32)
