"""Check all pairs of shapes on random placements, most of them at edges, against references.

    python -m tools.placements --count 100000 --gradients 10000
    python -m tools.placements --pairs capsule-cylinder box-mesh
    python -m tools.placements --resume rows.jsonl    keep finished pairs, and go on from there

Values: convex.py and fields.py of this folder say what is compared and by which rule. Gradients:
the adjoints of all slots against dual numbers, and against differences away from changes of
features.
Needs a build with FEATHERBACK_ORACLE.

Columns of values: below, above: how far gaps are too small or too large at most; points: how far
points lie off the shapes, beyond what their derivations name; wide: placements within the wider
bound of their sort; bad: beyond all bounds; agrees, tied, refuted: what is said of MuJoCo's
distance and direction, and how far it is off at most. Over fields: compared: placements with a
distance to compare with; exact: those that have it without a bias; mujoco: how far MuJoCo's
distance to the prisms is from what its directions prove.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.core.fields import KINDS as FIELDS
from tests.core.placing import batches
from tests.core.test_collision import KINDS, Array, pairs
from tests.core.test_collision_features import decisions
from tools.placements.convex import AGREES, EXACT, MUJOCO, REFUTED, TIED, WRONG, value_errors
from tools.placements.fields import field_batches, field_decisions, field_errors
from tools.placements.gradients import gradient_errors

# edges nearly along a side amplify round-off: (C.44)
MOST_DUAL = 1e-9
MOST_DIFFERENCE = 5e-6
# share of the slots whose features stay along a difference, at least: many placements are ties
LEAST_JUDGED = 0.4
# numbers of a line of a table by name
Row = dict[str, Any]


def joined(found: list[Any], *names: str) -> dict[str, Array]:
    """The attributes of several batches, each as one array."""
    return {name: np.concatenate([getattr(part, name) for part in found]) for name in names}


def values(kind: str, count: int, seed: int) -> Row:
    """Check the values of a number of placements of two convex shapes."""
    rng = np.random.default_rng(seed)
    found = [value_errors(batch, rng) for batch in batches(kind, count, rng)]
    x = joined(found, "overlap", "sure", "below", "above", "bound", "points", "mujoco", "verdict")
    worst = np.maximum(x["below"], x["above"])
    counts = np.bincount(x["verdict"], minlength=4)
    return {
        "count": len(worst),
        "inside": float(x["overlap"].mean()),
        "sure": float(x["sure"].mean()),
        "below": float(x["below"].max()),
        "above": float(x["above"].max()),
        "points": float(x["points"].max()),
        "wide": int(((worst > EXACT) & (worst <= x["bound"])).sum()),
        "bad": int(((worst > x["bound"]) | (x["verdict"] == WRONG) | (x["points"] > 0)).sum()),
        "agrees": int(counts[AGREES]),
        "tied": int(counts[TIED]),
        "refuted": int(counts[REFUTED]),
        "mujoco": float(x["mujoco"].max()),
    }


def field_values(kind: str, count: int, seed: int) -> Row:
    """Check the values of a number of placements over height fields."""
    rng = np.random.default_rng(seed)
    found = [field_errors(batch) for batch in field_batches(kind, count, rng)]
    x = joined(found, "overlap", "below", "points", "exact", "compared", "mujoco", "missed")
    worst = np.maximum(x["below"], x["points"])
    return {
        "count": len(worst),
        "inside": float(x["overlap"].mean()),
        "compared": int(x["compared"].sum()),
        "exact": int(x["exact"].sum()),
        "below": float(x["below"].max()),
        "points": float(x["points"].max()),
        "bad": int(((worst > MUJOCO) | x["missed"]).sum()),
        "mujoco": float(x["mujoco"].max()),
    }


def gradients(kind: str, count: int, seed: int) -> Row:
    """Check the adjoints of a number of placements."""
    rng, found = np.random.default_rng(seed), []
    if kind in FIELDS:
        for field in field_batches(kind, count, rng):
            shapes = field.a, field.b
            found.append(gradient_errors(field.pairs, shapes, field_decisions, rng))
    else:
        for batch in batches(kind, count, rng):
            placed, words = partial(pairs, kind, vert=batch.vert), partial(decisions, kind)
            found.append(gradient_errors(placed, (batch.a, batch.b), words, rng))
    dual, difference, same = (np.concatenate(part) for part in zip(*found, strict=True))
    return {
        "slots": len(dual),
        "dual_99": float(np.quantile(dual, 0.99)),
        "dual": float(dual.max()),
        "changed": int((~same).sum()),
        "lines": len(difference),
        "difference_99": float(np.quantile(difference, 0.99)),
        "difference": float(difference.max()),
    }


def is_well(row: Row) -> bool:
    """Whether all bounds hold."""
    if "slots" in row:
        judged = row["lines"] >= LEAST_JUDGED * row["slots"]
        return judged and row["dual"] < MOST_DUAL and row["difference"] < MOST_DIFFERENCE
    return row["bad"] == 0


def line(kind: str, row: Row) -> str:
    """A line of the table: names of numbers stand in the heading."""
    cells = []
    for value in row.values():
        share = isinstance(value, float) and value > 1e-3
        cells.append(
            f"{value:9}"
            if isinstance(value, int)
            else f"{value:9.{4 if share else 1}{'f' if share else 'e'}}"
        )
    return f"{kind:20} " + " ".join(cells)


class Store:
    """Finished rows, in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        """Read what is there."""
        self._path, self._rows = path, {}
        if path and path.exists():
            for text in path.read_text().splitlines():
                key, row = json.loads(text)
                self._rows[tuple(key)] = row

    def row(self, key: tuple[str, str, int, int], make: Callable[[], Row]) -> Row:
        """The row of a table, pair, count and seed; made if it is not there."""
        if key not in self._rows:
            start = time.perf_counter()
            self._rows[key] = make() | {"seconds": round(time.perf_counter() - start)}
            if self._path:
                with self._path.open("a") as file:
                    file.write(json.dumps([key, self._rows[key]]) + "\n")
        return self._rows[key]


def table(
    name: str, make: Callable[[str, int, int], Row], kinds: list[str], given: argparse.Namespace
) -> bool:
    """Print one table; return whether all is well."""
    count = given.gradients if name == "gradients" else given.count
    well, store = True, Store(given.resume)
    for k, kind in enumerate(kinds if count else []):
        row = store.row((name, kind, count, given.seed), partial(make, kind, count, given.seed))
        if k == 0:
            print(f"\n{name:20} " + " ".join(f"{word[:9]:>9}" for word in row))
        well &= is_well(row)
        print(line(kind, row) + ("" if is_well(row) else "  BAD"), flush=True)
    return well


def main() -> int:
    """Check all pairs; return 1 if a bound is broken."""
    every = [*KINDS, *FIELDS]
    parser = argparse.ArgumentParser(description="Check all pairs of shapes on random placements.")
    parser.add_argument("--count", type=int, default=1000, help="placements a pair for values")
    parser.add_argument(
        "--gradients", type=int, default=200, help="placements a pair for gradients"
    )
    parser.add_argument("--pairs", nargs="*", default=every, choices=every, metavar="PAIR")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="file that keeps finished pairs")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    convex = [kind for kind in given.pairs if kind in KINDS]
    fields = [kind for kind in given.pairs if kind in FIELDS]
    well = table("values", values, convex, given)
    well &= table("values, fields", field_values, fields, given)
    well &= table("gradients", gradients, given.pairs, given)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
