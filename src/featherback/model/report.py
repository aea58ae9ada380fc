"""Notices: what loading a model ignored, left out, approximated or repaired, and how it is said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from featherback.errors import ModelError

Kind = Literal["ignored", "dropped", "approximated", "repaired"]

MAX_LISTED = 10
"""How many problems one error message lists before it counts the rest."""

KIND_TITLES: dict[Kind, str] = {
    "dropped": "left out on request",
    "approximated": "approximated on request",
    "repaired": "repaired",
    "ignored": "no meaning here",
}


@dataclass(frozen=True)
class Notice:
    """One thing about a model file that its user should know.

    Attributes:
        kind: "ignored", "dropped", "approximated" or "repaired".
        where: file, line and element, as in `ant.xml:12: <joint name="hip">`.
        sentence: what was found and what became of it.
    """

    kind: Kind
    where: str
    sentence: str

    def __str__(self) -> str:
        """Return the notice as one line."""
        return f"{self.where}: {self.sentence}"


@dataclass(frozen=True)
class Problem:
    """Something that is not supported: the sentence of the error and the notice it may become."""

    where: str
    what: str
    anchor: str
    notice: Notice

    def __str__(self) -> str:
        """Return the problem as it is listed in an error message."""
        return f"{self.where}: {self.what} (see docs/support.md#{self.anchor})"


@dataclass
class Findings:
    """Collects notices and unsupported things while a model is read."""

    notices: list[Notice] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def note(self, kind: Kind, where: str, sentence: str) -> None:
        """Add a notice."""
        self.notices.append(Notice(kind, where, sentence))

    def refuse(
        self, where: str, what: str, anchor: str, *, drop: str, kind: Kind = "dropped"
    ) -> None:
        """Add an unsupported thing.

        Args:
            where: file, line and element.
            what: what is not supported, a clause without a full stop.
            anchor: heading of docs/support.md that explains it.
            drop: the sentence of the notice when the user asks to go on without it.
            kind: the kind of that notice.
        """
        self.problems.append(Problem(where, what, anchor, Notice(kind, where, drop)))

    def settle(self, on_unsupported: str, name: str) -> tuple[Notice, ...]:
        """Raise if something is not supported, or turn it into notices.

        Args:
            on_unsupported: "error" or "drop".
            name: how the file is called in the message.

        Returns:
            All notices.

        Raises:
            ModelError: if on_unsupported is "error" and there is a problem.
        """
        if self.problems and on_unsupported == "error":
            raise ModelError(unsupported_message(self.problems, name))
        return (*self.notices, *(problem.notice for problem in self.problems))


def unsupported_message(problems: list[Problem], name: str) -> str:
    """Return the message for a list of unsupported things; at most ten are named."""
    if len(problems) == 1:
        return f'{problems[0]}; change it, or pass on_unsupported="drop" to go on without it.'
    listed = "\n".join(f"  {problem}" for problem in _varied(problems)[:MAX_LISTED])
    rest = len(problems) - MAX_LISTED
    more = f"\n  and {rest} more." if rest > 0 else ""
    return (
        f"{name}: {len(problems)} things are not supported; change them, or pass "
        f'on_unsupported="drop" to go on without them:\n{listed}{more}'
    )


def _varied(problems: list[Problem]) -> list[Problem]:
    """Return the problems so that the first of every sort come first."""
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for index, problem in enumerate(problems):
        seen[problem.anchor] = seen.get(problem.anchor, -1) + 1
        ranked.append((min(seen[problem.anchor], 1), index))
    return [problems[index] for _, index in sorted(ranked)]


def format_report(title: str, notices: Iterable[Notice]) -> str:
    """Return notices as readable text, grouped by kind.

    Args:
        title: first line of the report.
        notices: what to list.

    Returns:
        The text, without a trailing newline.
    """
    groups: dict[str, list[Notice]] = {kind: [] for kind in KIND_TITLES}
    for notice in notices:
        groups[notice.kind].append(notice)
    lines = [title]
    for kind, heading in KIND_TITLES.items():
        if groups[kind]:
            lines.append(f"{kind} ({heading}): {len(groups[kind])}")
            lines.extend(f"  {notice}" for notice in groups[kind])
    if len(lines) == 1:
        lines.append("nothing was ignored, left out, approximated or repaired")
    return "\n".join(lines)
