"""The result of an experiment: traces of two methods, figures, claims; as JSON."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from featherback.errors import ParameterError
from featherback.experiments.files import write_bytes

NUMBERS = ("loss", "seconds", "evaluations")


@dataclass
class Trace:
    """One method's progress, iteration by iteration.

    A resumed run walks over the iterations it already has: while they last, `add` checks that the
    loss is the saved one and keeps the saved time, so a run that was stopped and resumed has the
    trace of one that never stopped.

    Attributes:
        method: what ran, in words, such as "L-BFGS-B (scipy 1.17.1)".
        loss: best loss known at the end of each iteration; the first is that of the start.
        seconds: time of each iteration [s].
        evaluations: evaluations of each iteration: of the gradient where the method uses one (line
            searches counted), else of the loss.
    """

    method: str
    loss: list[float] = field(default_factory=list[float])
    seconds: list[float] = field(default_factory=list[float])
    evaluations: list[int] = field(default_factory=list[int])
    _at: int = 0
    _since: float = field(default_factory=time.perf_counter)

    def start(self) -> None:
        """Start the clock of the next iteration now; call it when the method begins."""
        self._since = time.perf_counter()

    def add(self, loss: float, evaluations: int = 1) -> None:
        """Add an iteration that ends now, with the best loss so far; a saved one must equal it."""
        now = time.perf_counter()
        seconds, self._since = now - self._since, now
        if self._at < len(self.loss):
            if self.loss[self._at] != float(loss):
                raise ParameterError(
                    f"resume: iteration {self._at} of {self.method} gives the loss {loss!r} and "
                    f"the saved run had {self.loss[self._at]!r}; the saved run was made by another "
                    "version or on another instruction set: start again without --resume."
                )
            self._at += 1
            return
        self._at += 1
        self.loss.append(float(loss))
        self.seconds.append(seconds)
        self.evaluations.append(int(evaluations))

    def skip(self) -> None:
        """Go on after the last saved iteration; for methods that restore their own state."""
        self._at = len(self.loss)
        self.start()

    @property
    def iterations(self) -> int:
        """Number of iterations after the start."""
        return max(len(self.loss) - 1, 0)

    @property
    def total_evaluations(self) -> int:
        """Sum of all evaluations."""
        return sum(self.evaluations)

    @property
    def total_seconds(self) -> float:
        """Sum of all times [s]."""
        return sum(self.seconds)

    def first_below(self, loss: float) -> int | None:
        """Return the first iteration whose loss is at most `loss`, or None."""
        return next((i for i, value in enumerate(self.loss) if value <= loss), None)

    def evaluations_until(self, loss: float) -> int | None:
        """Return the evaluations spent until the loss is at most `loss`, or None."""
        at = self.first_below(loss)
        return None if at is None else sum(self.evaluations[: at + 1])

    def seconds_until(self, loss: float) -> float | None:
        """Return the time [s] spent until the loss is at most `loss`, or None."""
        at = self.first_below(loss)
        return None if at is None else sum(self.seconds[: at + 1])

    def to_json(self) -> dict[str, Any]:
        """Return the trace in JSON's terms."""
        return {
            "method": self.method,
            "loss": self.loss,
            "seconds": self.seconds,
            "evaluations": self.total_evaluations,
            "evaluations_per_iteration": self.evaluations,
        }

    def arrays(self, name: str) -> dict[str, Any]:
        """Return the trace as named arrays for the saved state."""
        return {f"{name}.{key}": np.array(getattr(self, key), float) for key in NUMBERS}

    @classmethod
    def from_arrays(cls, method: str, name: str, arrays: dict[str, Any]) -> Trace:
        """Return the trace that `arrays` put into the saved state, or an empty one."""
        saved = [arrays.get(f"{name}.{key}", np.zeros(0)) for key in NUMBERS]
        return cls(
            method,
            [float(x) for x in saved[0]],
            [float(x) for x in saved[1]],
            [int(x) for x in saved[2]],
        )


@dataclass(frozen=True)
class Claim:
    """One thing that must be shown, what was measured, and whether it holds.

    Attributes:
        text: the claim in words.
        value: the measured value; None where it could not be measured.
        holds: whether the claim holds; None where the run was too short to judge it.
    """

    text: str
    value: float | None
    holds: bool | None


@dataclass(frozen=True)
class Result:
    """What `run(context)` of an experiment returns.

    Attributes:
        ours: the trace of our method.
        baseline: the trace of the method it is compared with; None where there is none.
        figures: the headline numbers by name.
        claims: what must be shown.
        others: further traces by name.
        notes: remarks for the reader, such as where the task ends, one sentence each.
    """

    ours: Trace
    baseline: Trace | None
    figures: dict[str, float | None]
    claims: list[Claim]
    others: dict[str, Trace] = field(default_factory=dict[str, Trace])
    notes: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, Any]:
        """Return the result in JSON's terms; name, seed and versions are added by the runner."""
        return {
            "ours": self.ours.to_json(),
            "baseline": None if self.baseline is None else self.baseline.to_json(),
            "others": {name: trace.to_json() for name, trace in self.others.items()},
            "figures": self.figures,
            "claims": [
                {
                    "claim": claim.text,
                    "value": claim.value,
                    "holds": None if claim.holds is None else bool(claim.holds),
                }
                for claim in self.claims
            ],
            "notes": self.notes,
        }


def plain(value: Any) -> Any:
    """Return `value` with NumPy numbers as Python's, and numbers that are not finite as None."""
    if isinstance(value, dict):
        return {str(k): plain(x) for k, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(x) for x in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, content: dict[str, Any]) -> Path:
    """Write JSON that any reader takes: no NaN, a complete file or none."""
    text = json.dumps(plain(content), indent=1, allow_nan=False, ensure_ascii=False)
    return write_bytes(path, (text + "\n").encode())
