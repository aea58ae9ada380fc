"""A progress bar for long rollouts."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager


@contextmanager
def progress_bar(steps: int) -> Generator[Callable[[int], None], None, None]:
    """Show a bar of `steps` steps on standard error; yields a function to tell the steps done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("rollout"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("rollout", total=steps)
        yield lambda done: bar.update(task, completed=done)
