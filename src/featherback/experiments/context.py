"""What an experiment gets: its seed and folder, traces, saved state, recordings, a progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback.errors import ParameterError
from featherback.experiments.files import load_arrays, save_arrays
from featherback.experiments.film import make_film
from featherback.experiments.recording import CAMERA, Recording
from featherback.experiments.result import Trace

BETWEEN_SAVES = 2.0  # seconds


@dataclass
class Context:
    """One run of one experiment.

    Attributes:
        name: name of the experiment.
        seed: seed of all its random numbers.
        quick: whether a run of seconds is wanted instead of the default one.
        out: folder of its files.
        resume: whether to go on from the saved state.
        show: whether to show progress bars.
        full: whether the longest run is wanted, of hours.
        traces: traces begun so far, by name.
        files: files written so far, by what they hold.
        notes: remarks for the reader of the result, one sentence each.
    """

    name: str
    seed: int
    quick: bool
    out: Path
    resume: bool = False
    show: bool = True
    full: bool = False
    traces: dict[str, Trace] = field(default_factory=dict[str, Trace])
    files: dict[str, Path] = field(default_factory=dict[str, Path])
    notes: list[str] = field(default_factory=list[str])
    _state: dict[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])
    _saved: float = 0.0

    def __post_init__(self) -> None:
        """Read the saved state where the run is resumed."""
        if self.resume:
            self._state = self._load_state()

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator with the run's seed."""
        return np.random.default_rng(self.seed)

    def path(self, ending: str) -> Path:
        """Return a path in the run's folder: `path("-loss.png")` is OUT/NAME-loss.png."""
        return self.out / f"{self.name}{ending}"

    def trace(self, which: str, method: str) -> Trace:
        """Return the trace named `which` ("ours", "baseline", ...), with what was saved of it."""
        trace = Trace.from_arrays(method, f"trace.{which}", self._state)
        self.traces[which] = trace
        return trace

    def keep(self, **arrays: ArrayLike) -> None:
        """Keep numbers or text for `--resume`; written every few seconds and when the run stops."""
        self._state.update({name: np.array(value) for name, value in arrays.items()})
        if time.monotonic() - self._saved > BETWEEN_SAVES:
            self.save()

    def kept(self, name: str) -> NDArray[Any] | None:
        """Return what a stopped run kept under `name`; None if there is nothing."""
        return self._state.get(name)

    def kept_or_empty(self, name: str) -> NDArray[Any]:
        """Return what a stopped run kept under `name`, or an array of length zero."""
        return self._state.get(name, np.zeros(0))

    def save(self) -> Path:
        """Write the saved state now."""
        for which, trace in self.traces.items():
            self._state.update(trace.arrays(f"trace.{which}"))
        self._saved = time.monotonic()
        return save_arrays(self.path("-state.npz"), {**self._state, "run": self.label})

    @property
    def label(self) -> str:
        """What a saved state must be of to be resumed."""
        return f"{self.name} seed={self.seed} quick={self.quick}" + " full=True" * self.full

    @contextmanager
    def progress(
        self, what: str, total: int
    ) -> Generator[Callable[[int, float], None], None, None]:
        """Show a bar on standard error; yields a function that takes the count done and a loss."""
        if not self.show:
            yield lambda done, loss: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn(f"{self.name}: {what}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]:.3g}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, loss=float("nan"))
            yield lambda done, loss: bar.update(task, completed=done, loss=loss)

    def record(
        self,
        xml: str,
        motion: Mapping[str, ArrayLike],
        *,
        dt: float,
        target: ArrayLike | None = None,
        camera: tuple[float, float, float, float, float, float] = CAMERA,
        ending: str = "-motion",
    ) -> None:
        """Save the motion of one world as a recording and a film; a note says what a film needs.

        Args:
            xml: the model, MJCF.
            motion: q, v and u of the world, and act where the model has activations.
            dt: step [s].
            target: real[n, 3], points to mark [m].
            camera: look-at point [m], distance [m], azimuth and elevation [degrees].
            ending: of the file names.
        """
        there = ("q", "v", "u", "act") if np.size(motion.get("act", ())) else ("q", "v", "u")
        arrays = {name: np.asarray(motion[name], np.float64) for name in there}
        marks = np.zeros((0, 3)) if target is None else np.atleast_2d(np.asarray(target, float))
        recording = Recording(xml=xml, dt=dt, target=marks, camera=np.array(camera), **arrays)
        path = recording.save(self.path(f"{ending}.npz"))
        self.files[f"recording{ending.removeprefix('-motion')}"] = path
        film, reason = make_film(path)
        if film is not None:
            self.files[f"film{ending.removeprefix('-motion')}"] = film
        if reason is not None:
            self.notes.append(reason)

    def _load_state(self) -> dict[str, NDArray[Any]]:
        """Return the saved state; raise ParameterError if it is missing or another run's."""
        path = self.path("-state.npz")
        if not path.exists():
            raise ParameterError(
                f"run {self.name}: there is nothing to resume, since {path} does not exist; start "
                "without --resume, or name the folder of the stopped run with --out."
            )
        state = load_arrays(path)
        wanted = self.label
        found = str(state.pop("run", np.array("another program")))
        if found != wanted:
            raise ParameterError(
                f'run {self.name}: {path} was saved by "{found}" and this run is "{wanted}"; '
                "resume with the same options, or start without --resume."
            )
        return state
