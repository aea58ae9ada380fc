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
    """Return the bytes of memory that are free, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return None


CHECKPOINT = ', or keep fewer states, such as checkpoint="bytes:1GB"'


def refuse_too_large(where: str, what: str, need: int, advice: str = CHECKPOINT) -> None:
    """Raise MemoryError for a rollout whose states or controls cannot fit.

    Args:
        where: the call, for messages.
        what: "states" or "controls".
        need: bytes that they take.
        advice: what to do besides taking fewer steps or worlds.
    """
    # a small one is not worth the look
    if need < 10**8:
        return
    free = available()
    if free is not None and need > free:
        raise MemoryError(
            f"{where}: the {what} take {readable(need)} and {readable(free)} of memory are free; "
            f"take fewer steps or worlds{advice}."
        )
