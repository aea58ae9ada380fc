"""How much memory a rollout takes, told before it is run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Memory:
    """Bytes that a rollout and its gradient take.

    Attributes:
        states: states that are kept, and those that the backward pass computes again.
        controls: the controls, and the gradient with respect to them.
        workspace: scratch of all threads; it does not grow with steps or worlds.
    """

    states: int
    controls: int
    workspace: int

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.states + self.controls + self.workspace

    def __str__(self) -> str:
        """Return the figures in words."""
        return (
            f"{readable(self.total)}: states {readable(self.states)}, controls "
            f"{readable(self.controls)}, workspace {readable(self.workspace)}"
        )


def readable(count: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.4g} {unit}"


def available() -> int | None:
    """Return the bytes of memory that this process can have, or None where nothing says it."""
    known = [free for free in (_free(), _allowed()) if free is not None]
    return min(known) if known else None


def _free() -> int | None:
    """Return the bytes that are free in the machine."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


def _allowed() -> int | None:
    """Return the bytes of addresses that the limit of this process (ulimit -v) leaves."""
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    return max(limit - pages * resource.getpagesize(), 0)


WORKSPACE = "pass a smaller max_contacts, or fewer threads"
CHECKPOINT = ', or keep fewer states, such as checkpoint="bytes:1GB"'


def check_workspace(where: str, need: int) -> None:
    """Raise MemoryError for a simulator whose workspace cannot fit."""
    free = available() if need >= 10**8 else None
    if free is not None and need > free:
        raise MemoryError(
            f"{where}: the workspace takes {readable(need)} and {readable(free)} of memory are "
            f"free; {WORKSPACE}."
        )


def refuse_too_large(where: str, what: str, need: int, advice: str = CHECKPOINT) -> None:
    """Raise MemoryError for a rollout whose states or controls take more bytes than there are."""
    # a small one is not worth the look
    if need < 10**8:
        return
    free = available()
    if free is not None and need > free:
        raise MemoryError(
            f"{where}: the {what} take {readable(need)} and {readable(free)} of memory are free; "
            f"take fewer steps or worlds{advice}."
        )
