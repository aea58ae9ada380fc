"""Which pairs of geoms may touch: MuJoCo's filter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from featherback._core import shape_types
from featherback._typing import Array, Bools, Ints
from featherback.errors import ModelError

if TYPE_CHECKING:
    import mujoco

# shapes of geoms by name, numbered as in MuJoCo
SHAPES = dict(shape_types())
GROUND = SHAPES["plane"], SHAPES["hfield"]
# bits of each byte
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.int64)

# pairs up to which all of them are listed; above it they go by rule
LISTED = 1000
# geoms that pairs by rule can number
MOST_GEOMS = 46000
# rows of the table of pairs that are filtered at once
_BLOCK = 512


@dataclass(frozen=True)
class Ruled:
    """Pairs that are too many to list: a table of bits, and what the core combines of two geoms.

    Attributes:
        allowed: uint32[ngeom, words], bit b of row a says whether geoms a and b may touch.
        geoms: int32[n], geoms of these pairs that are no planes; those that move come first.
        planes: int32[n], those that are.
        condim: int32[ngeom].
        priority: int32[ngeom].
        kinds: int64[8, 8], pairs by their two shapes, the smaller number first.
    """

    allowed: NDArray[np.uint32]
    geoms: Ints
    planes: Ints
    condim: Ints
    priority: Ints
    kinds: NDArray[np.int64]


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
        ruled: all pairs where there are more than LISTED; the list has the explicit ones then.
    """

    geom1: Ints
    geom2: Ints
    condim: Ints
    friction: Array
    explicit: Ints
    ruled: Ruled | None = None

    def __len__(self) -> int:
        """Return the number of listed pairs."""
        return len(self.geom1)

    @property
    def count(self) -> int:
        """Return the number of pairs, listed or not."""
        return len(self) if self.ruled is None else int(self.ruled.kinds.sum())

    @property
    def most_condim(self) -> int:
        """Return the largest condim of a pair, or that of a geom where they go by rule."""
        most = int(self.condim.max(initial=0))
        return most if self.ruled is None else max(most, int(self.ruled.condim.max()))

    def select(self, index: NDArray[np.intp] | Bools) -> Pairs:
        """Return the listed pairs of an index array or mask."""
        return Pairs(
            self.geom1[index],
            self.geom2[index],
            self.condim[index],
            self.friction[index],
            self.explicit[index],
            self.ruled,
        )

    def frozen(self) -> Pairs:
        """Return the same pairs with read-only arrays."""
        for array in (self.geom1, self.geom2, self.condim, self.friction, self.explicit):
            array.flags.writeable = False
        return self


def candidate_pairs(model: mujoco.MjModel, where: str = "<model>") -> Pairs:
    """Return all pairs that MuJoCo's filter lets through, with condim as it combines it.

    Args:
        model: compiled.
        where: its file, for messages.

    Raises:
        ModelError: if there are more geoms than pairs can number.
    """
    import mujoco

    off = int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    if model.opt.disableflags & off or model.ngeom < 2:
        none = np.empty(0, np.int32)
        return Pairs(none, none, none, np.empty(0), none)
    if model.ngeom > MOST_GEOMS:
        raise ModelError(
            f"{where}: the model has {model.ngeom} geoms; pairs of at most {MOST_GEOMS} can be "
            "looked at, so leave some out or turn contacts off in the file."
        )
    explicit = _explicit_pairs(model)
    allowed = np.concatenate(list(_allowed_rows(model)))
    if int(_bit_count(allowed).sum()) // 2 > LISTED:
        return replace(explicit, ruled=_ruled(model, explicit, allowed))
    bits = np.unpackbits(allowed.view(np.uint8), axis=1, bitorder="little")
    geom1, geom2 = (index.astype(np.int32) for index in np.nonzero(np.triu(bits)))
    geom1, geom2 = _ordered(model, geom1, geom2)
    if len(explicit):
        own = _numbered(model, explicit.geom1, explicit.geom2)
        fresh = ~np.isin(_numbered(model, geom1, geom2), own)
        geom1, geom2 = geom1[fresh], geom2[fresh]
    pairs = Pairs(
        np.concatenate([explicit.geom1, geom1]).astype(np.int32),
        np.concatenate([explicit.geom2, geom2]).astype(np.int32),
        np.concatenate([explicit.condim, _combined_condim(model, geom1, geom2)]).astype(np.int32),
        np.concatenate([explicit.friction, np.full(len(geom1), np.nan)]),
        np.concatenate([explicit.explicit, np.full(len(geom1), -1)]).astype(np.int32),
    )
    return pairs.select(np.lexsort((pairs.geom2, pairs.geom1)))


def _explicit_pairs(model: mujoco.MjModel) -> Pairs:
    """Return the file's <pair> elements that can act, sorted."""
    first, second = _ordered(model, model.pair_geom1, model.pair_geom2)
    pairs = Pairs(
        first.astype(np.int32),
        second.astype(np.int32),
        model.pair_dim.astype(np.int32),
        model.pair_friction[:, 0].copy(),
        np.arange(model.npair, dtype=np.int32),
    )
    geoms = pairs.geom1, pairs.geom2
    pairs = pairs.select(_can_part(model, *geoms) & _can_meet(model, *geoms))
    return pairs.select(np.lexsort((pairs.geom2, pairs.geom1)))


def _ruled(model: mujoco.MjModel, explicit: Pairs, allowed: NDArray[np.uint32]) -> Ruled:
    """Return the pairs by rule, the explicit ones among them."""
    for a, b in ((explicit.geom1, explicit.geom2), (explicit.geom2, explicit.geom1)):
        bit = np.uint32(1) << (b % 32).astype(np.uint32)
        np.bitwise_or.at(allowed, (a, b // 32), bit)
    kinds = _kinds(model, allowed)
    # two explicit pairs may have the same geoms
    number = _numbered(model, explicit.geom1, explicit.geom2)
    again = np.flatnonzero(number[1:] == number[:-1])
    shapes = model.geom_type[explicit.geom1[again]], model.geom_type[explicit.geom2[again]]
    np.add.at(kinds, shapes, 1)
    used = np.flatnonzero(allowed.any(axis=1)).astype(np.int32)
    plane = model.geom_type[used] == SHAPES["plane"]
    still = model.body_treeid[model.body_weldid[model.geom_bodyid[used]]] < 0
    used, plane = (array[np.argsort(still, kind="stable")] for array in (used, plane))
    allowed.flags.writeable = False
    return Ruled(
        allowed,
        used[~plane],
        used[plane],
        model.geom_condim.astype(np.int32),
        model.geom_priority.astype(np.int32),
        kinds,
    )


def _kinds(model: mujoco.MjModel, allowed: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the number of pairs of each two shapes."""
    shape = (model.geom_type[:, None] == np.arange(len(SHAPES))).astype(np.float32)
    total = np.zeros((len(SHAPES), len(SHAPES)))
    for start in range(0, model.ngeom, _BLOCK):
        rows = allowed[start : start + _BLOCK].view(np.uint8)
        bits = np.unpackbits(rows, axis=1, count=model.ngeom, bitorder="little")
        total += shape[start : start + _BLOCK].T @ (bits.astype(np.float32) @ shape)
    kinds = np.triu(total).astype(np.int64)
    # two geoms of one shape were counted from both sides
    kinds[np.diag_indices(len(SHAPES))] //= 2
    return kinds


def _bit_count(words: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the number of bits of each row."""
    return _BITS[words.view(np.uint8)].sum(axis=1, dtype=np.int64)


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


def _can_meet(model: mujoco.MjModel, a: Ints, b: Ints) -> Bools:
    """Return which geoms have shapes that can touch: planes and height fields never do."""
    ground = np.isin(model.geom_type, GROUND)
    return ~(ground[a] & ground[b])


def _ordered(model: mujoco.MjModel, a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Put the geom of the smaller type first; equal types keep the order of their numbers."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    swap = model.geom_type[low] > model.geom_type[high]
    return np.where(swap, high, low), np.where(swap, low, high)


def _allowed_rows(model: mujoco.MjModel) -> Iterator[NDArray[np.uint32]]:
    """Yield rows of bits that say which geoms pass the filter, block by block to bound memory."""
    import mujoco

    contype, conaffinity = model.geom_contype, model.geom_conaffinity
    body = model.geom_bodyid
    weld = model.body_weldid[body]
    # a body without degrees of freedom, mocap bodies included, cannot be pushed
    moves = model.body_treeid[weld] >= 0
    parent = model.body_weldid[model.body_parentid[weld]]
    ground = np.isin(model.geom_type, GROUND)
    family = not model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT)
    apart = _excluded(model)
    words = -(-model.ngeom // 32)
    for start in range(0, model.ngeom, _BLOCK):
        own = slice(start, start + _BLOCK)
        a = weld[own, None]
        passed = (contype[own, None] & conaffinity) | (conaffinity[own, None] & contype) != 0
        passed &= (a != weld) & (moves[own, None] | moves) & ~(ground[own, None] & ground)
        if family:
            near = (a == parent) | (parent[own, None] == weld)
            passed &= ~(near & (a != 0) & (weld != 0))
        if apart is not None:
            passed &= ~apart[body[own, None], body]
        bits = np.zeros((len(passed), words * 4), np.uint8)
        packed = np.packbits(passed, axis=1, bitorder="little")
        bits[:, : packed.shape[1]] = packed
        yield bits.view("<u4").astype(np.uint32)


def _excluded(model: mujoco.MjModel) -> Bools | None:
    """Return bool[nbody, nbody], the bodies of <exclude> elements, or None without any."""
    if not model.nexclude:
        return None
    first, second = model.exclude_signature >> 16, model.exclude_signature & 0xFFFF
    apart = np.zeros((model.nbody, model.nbody), bool)
    apart[first, second] = apart[second, first] = True
    return apart


def _combined_condim(model: mujoco.MjModel, a: Ints, b: Ints) -> Ints:
    """Return MuJoCo's contact dimension: the higher priority wins, else the larger number."""
    dim_a, dim_b = model.geom_condim[a], model.geom_condim[b]
    prio_a, prio_b = model.geom_priority[a], model.geom_priority[b]
    return np.where(
        prio_a > prio_b, dim_a, np.where(prio_b > prio_a, dim_b, np.maximum(dim_a, dim_b))
    ).astype(np.int32)
