"""One run of a learner: its folder, log, checkpoints, random numbers and progress bar."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from featherback._files import write_bytes
from featherback.errors import OptimizationError, ParameterError, WorldError
from featherback.learn.gradient_runner import GradientRunner, Plain, make_gradient_env
from featherback.learn.networks import PolicyNetwork, first_not_finite
from featherback.learn.policy import Policy, read_torch, write_torch
from featherback.learn.runner import Make, Runner, make_env
from featherback.learn.settings import Settings

FORMAT = "featherback checkpoint 1"
CHANGEABLE = ("steps",)  # settings that may differ where a run is resumed
CLOCK = "cpu_seconds"  # the one column of the log that a resumed run need not share


class Part(Protocol):
    """What a checkpoint can keep: networks, optimizers, environments, memories."""

    def state_dict(self) -> Any:
        """Return the state in tensors and plain values."""
        ...

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Take over a state."""
        ...


@dataclass(frozen=True)
class Trained:
    """What `train` returns.

    Attributes:
        policy: the policy after the last update.
        log: one row for each iteration, by column.
        folder: where the files are; None where nothing was written.
        steps: steps of the environment.
        cpu_seconds: processor time of the training, evaluations left out [s].
    """

    policy: Policy
    log: list[dict[str, float]]
    folder: Path | None
    steps: int
    cpu_seconds: float


@dataclass
class Session:
    """A run of a learner.

    Attributes:
        settings: of the learner.
        out: folder of its files; None: nothing is written.
        make: makes the environments the learner trains in; by the name in the settings when None.
        resume: whether to go on from the checkpoint in that folder.
        show: whether there is a progress bar.
        parts: what a checkpoint keeps, by name.
        iteration: iterations done.
        steps: steps of the environment done.
        log: rows so far.
    """

    settings: Settings
    out: Path | None = None
    make: Make | None = None
    resume: bool = False
    show: bool = True
    parts: dict[str, Part] = field(default_factory=dict[str, Part])
    iteration: int = 0
    steps: int = 0
    log: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    cpu_seconds: float = 0.0
    generator: torch.Generator = field(default_factory=torch.Generator)
    policy: PolicyNetwork | None = None
    runner: Runner | GradientRunner | None = None
    saved: int = 0
    _since: float = 0.0

    def __post_init__(self) -> None:
        """Seed the generator."""
        self.generator.manual_seed(self.settings.seed)
        self.where = f"learn {self.settings.learner}"

    def start(self, runner: Runner | GradientRunner, policy: PolicyNetwork, **parts: Part) -> None:
        """Name what checkpoints keep; where the run is resumed, `run` fills it."""
        self.runner, self.policy = runner, policy
        self.parts = {"policy": policy, "runner": runner, **parts}

    def vector_env(self, worlds: int) -> Any:
        """Return the environment with some number of worlds."""
        return self.make(worlds) if self.make else make_env(self.settings, worlds)

    def gradient_env(self) -> Any:
        """Return the environment with gradients."""
        worlds = self.settings.worlds
        return self.make(worlds) if self.make else make_gradient_env(self.settings, worlds)

    def seed(self, *key: int) -> int:
        """Return a seed of the run for some purpose."""
        return int(np.random.SeedSequence((self.settings.seed, *key)).generate_state(1)[0] >> 1)

    def noise(self, *shape: int) -> torch.Tensor:
        """Return unit Gaussian numbers of the run's generator."""
        return torch.randn(*shape, generator=self.generator)

    def path(self, name: str) -> Path | None:
        """Return the path of a file of the run."""
        return None if self.out is None else self.out / name

    def run(self, iterate: Callable[[], Mapping[str, float]], per_iteration: int) -> Trained:
        """Call `iterate` until the steps are done; it updates the policy and returns a row.

        Args:
            iterate: one iteration of the learner.
            per_iteration: steps of the environment in one iteration.
        """
        if self.resume:
            self.restore()
        total = max(1, -(-self.settings.steps // per_iteration))
        self._since = time.process_time()
        with self._threads(), self._bar(total) as advance:
            while self.iteration < total:
                try:
                    row = iterate()
                except (OptimizationError, WorldError) as error:
                    raise self._stopped(str(error)) from error
                self._end(per_iteration, row)
                if self.iteration == total or self.iteration % self.settings.checkpoint_every == 0:
                    self.save()
                advance(self.log[-1])
        return self.result()

    def _end(self, steps: int, row: Mapping[str, float]) -> None:
        """End an iteration: check the policy, evaluate it where it is due, add a row to the log."""
        assert self.policy is not None
        name = first_not_finite(self.policy)
        if name is not None:
            raise self._stopped(f"the weights {name} of the policy are NaN or infinite")
        self.iteration += 1
        self.steps += steps
        self.cpu_seconds += time.process_time() - self._since
        every = self.settings.evaluate_every
        found = {"iteration": self.iteration, "steps": self.steps, CLOCK: self.cpu_seconds, **row}
        if every:
            due = self.iteration % every == 0
            found["evaluation"] = self.evaluate() if due else float("nan")
        self.log.append({key: float(value) for key, value in found.items()})
        self._since = time.process_time()

    def evaluate(self) -> float:
        """Return the mean return of the policy without noise."""
        from featherback.learn.evaluate import run_policy

        assert self.policy is not None
        policy = Policy(self.policy, {"env": self.settings.env})
        env = self.vector_env(self.settings.evaluation_episodes)
        if isinstance(self.runner, GradientRunner) and self.make is not None:
            env = Plain(env)
        try:
            return float(np.mean(run_policy(policy, env, seed=self.seed(2))))
        finally:
            env.close()

    def _stopped(self, reason: str) -> OptimizationError:
        """Return the error that says why, and what is left."""
        file = self.path("checkpoint.pt")
        if file is None or self.saved == 0:
            left = "there is no checkpoint yet"
        else:
            left = f"the last good checkpoint is {file}, after iteration {self.saved}"
        rate = getattr(self.settings, "learning_rate", None)
        advice = "" if rate is None else f" (learning_rate is {rate:g})"
        return OptimizationError(
            f"{self.where}: iteration {self.iteration + 1}: {reason}; {left}; start again with a "
            f"smaller learning rate{advice} or another seed."
        )

    def save(self) -> None:
        """Write checkpoint, policy and log."""
        if self.runner is not None:
            self.runner.before_checkpoint(self.seed(1, self.iteration))
        self.saved = self.iteration
        if self.out is None:
            return
        content = {
            "format": FORMAT,
            "learner": self.settings.learner,
            "settings": self.settings.to_dict(),
            "iteration": self.iteration,
            "steps": self.steps,
            "cpu_seconds": self.cpu_seconds,
            "generator": self.generator.get_state(),
            "log": self.log,
            "parts": {name: part.state_dict() for name, part in self.parts.items()},
        }
        write_torch(self.out / "checkpoint.pt", content)
        self.result().policy.save(self.out / "policy.pt")
        self._write_log()
        text = json.dumps(self.settings.to_dict(), indent=1)
        write_bytes(self.out / "settings.json", (text + "\n").encode())

    def _write_log(self) -> None:
        """Write the rows so far as CSV."""
        assert self.out is not None
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.log[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _cell(x) for k, x in row.items()} for row in self.log)
        write_bytes(self.out / "log.csv", text.getvalue().encode())

    def restore(self) -> None:
        """Go on from the checkpoint in the run's folder."""
        path = self.path("checkpoint.pt")
        if path is None or not path.exists():
            raise ParameterError(
                f"{self.where}: there is nothing to resume, since {path} does not exist; start "
                "without --resume, or name the folder of the stopped run with --out."
            )
        content = read_torch(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ParameterError(f"{self.where}: {path} is no checkpoint; name another folder.")
        self._check_same(path, content)
        self.iteration, self.steps = content["iteration"], content["steps"]
        self.saved, self.cpu_seconds = self.iteration, content["cpu_seconds"]
        self.generator.set_state(content["generator"])
        self.log = content["log"]
        for name, part in self.parts.items():
            part.load_state_dict(content["parts"][name])

    def _check_same(self, path: Path, content: dict[str, Any]) -> None:
        """Raise ParameterError where a checkpoint was made with other settings."""
        wanted = {"learner": self.settings.learner, **self.settings.to_dict()}
        found = {"learner": content["learner"], **content["settings"]}
        for name, value in wanted.items():
            if name not in CHANGEABLE and found.get(name) != value:
                raise ParameterError(
                    f"{self.where}: {path} was made with {name} = {found.get(name)!r} and this "
                    f"run has {value!r}; resume with the same settings, or start without --resume."
                )

    def result(self) -> Trained:
        """Return what there is so far."""
        assert self.policy is not None
        settings = self.settings
        about = {name: getattr(settings, name) for name in ("env", "contact", "seed")}
        about |= {"learner": settings.learner, "steps": self.steps}
        about["options"] = list(settings.options)
        return Trained(Policy(self.policy, about), self.log, self.out, self.steps, self.cpu_seconds)

    @contextmanager
    def _threads(self) -> Generator[None]:
        """Let torch use one thread, which is the fastest for small networks and always the same."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @contextmanager
    def _bar(self, total: int) -> Generator[Callable[[dict[str, float]], None]]:
        """Show a bar on standard error; yields a function that takes the newest row."""
        if not self.show:
            yield lambda row: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn(f"{self.where} {self.settings.env}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("return {task.fields[mean]:.4g}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=total, completed=self.iteration, mean=float("nan"))
            yield lambda row: bar.update(
                task, completed=int(row["iteration"]), mean=row.get("return", float("nan"))
            )


def _cell(value: float) -> str:
    """Return a number with all of its digits; whole ones without a point."""
    whole = math.isfinite(value) and abs(value) < 2**53 and value == int(value)
    return str(int(value)) if whole else repr(value)
