"""Adjoints of all slots of a pair of shapes against dual numbers and differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from featherback import _oracle
from tests.core.test_collision import Array, moved_along, tangent

STEP = 1e-6
# a function of two tables of shapes that gives their pairs
Placed = Callable[[Array, Array], _oracle.ShapePairs]


def gradient_errors(
    placed: Placed,
    shapes: tuple[Array, Array],
    decisions: Callable[[Array], Array],
    rng: np.random.Generator,
) -> tuple[Array, Array, Array]:
    """Errors of the adjoints of all slots against dual numbers, and against differences.

    The last array says of each slot whether its features are the same in all runs.

    decisions: of features, what does not vary with the motion.
    """
    worlds = len(shapes[0])
    twists, sizes = rng.normal(size=(2, worlds, 6)), 0.1 * rng.normal(size=(2, worlds, 3))
    tans, moved = [], []
    for k in range(2):
        rows = list(zip(shapes[k], twists[k], sizes[k], strict=True))
        tans.append(np.array([tangent(*row) for row in rows]))
        moved.append(
            [np.array([moved_along(*r, e * STEP) for r in rows]) for e in (-1, -0.5, 0.5, 1)]
        )
    pair = placed(*shapes)
    touch, dual = pair.collide(), pair.tangent(*tans)
    ends = [placed(*both) for both in zip(*moved, strict=True)]
    runs, here = [end.collide() for end in ends], decisions(pair.features())
    same = np.all([decisions(end.features()) == here for end in ends], axis=(0, 3))
    fine, wide = (runs[2] - runs[1]) / STEP, (runs[3] - runs[0]) / (2 * STEP)
    kinks = [(runs[3] + runs[0] - 2 * touch) / STEP, (runs[2] + runs[1] - 2 * touch) / STEP]
    seeds = np.concatenate([twists[0], sizes[0], twists[1], sizes[1]], axis=1)
    by_dual, by_difference, kept = [], [], []
    for slot in range(touch.shape[1]):
        on = touch[:, slot, 7] > 0
        bar = rng.normal(size=(worlds, 7))
        bars = pair.adjoint(slot, bar) * seeds
        left = bar * dual[:, slot]
        scale = np.abs(left).sum(axis=1) + np.abs(bars).sum(axis=1)
        error = np.abs(left.sum(axis=1) - bars.sum(axis=1)) / np.maximum(scale, 1e-300)
        by_dual.append(error[on])
        kept.append(same[on, slot])
        # what two steps leave of the error is of fourth order
        f = (4 * fine - wide)[:, slot, :7] / 3
        size = 1 + np.abs(f).max(axis=1)
        # away from changes of features, where these, both sides or two steps differ
        turns = [np.abs(kink[:, slot, :7]).max(axis=1) < 1e-3 * size for kink in kinks]
        steps = np.abs(fine - wide)[:, slot, :7].max(axis=1) < 1e-5 * size
        smooth = on & same[:, slot] & turns[0] & turns[1] & steps
        miss = np.abs(np.sum(bar * f, axis=1) - bars.sum(axis=1)) / size
        by_difference.append(miss[smooth])
    return np.concatenate(by_dual), np.concatenate(by_difference), np.concatenate(kept)
