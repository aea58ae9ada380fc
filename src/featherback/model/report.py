"""Notices: what loading a model ignored, left out, approximated or repaired, and its report."""

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
        message: what was found and what was done about it, in a sentence.
    """

    kind: Kind
    where: str
    message: str

    def __str__(self) -> str:
        """Return the notice as one line."""
        return f"{self.where}: {self.message}"


@dataclass(frozen=True)
class UnsupportedFeature:
    """Something that is not supported: the message of the error and the notice it may become."""

    where: str
    what: str
    anchor: str
    notice: Notice

    def __str__(self) -> str:
        """Return it as it is listed in an error message."""
        return f"{self.where}: {self.what} (see docs/support.md#{self.anchor})"


@dataclass
class Findings:
    """Collects notices and unsupported features while a model is read."""

    notices: list[Notice] = field(default_factory=list)
    unsupported: list[UnsupportedFeature] = field(default_factory=list)

    def note(self, kind: Kind, where: str, message: str) -> None:
        """Add a notice."""
        self.notices.append(Notice(kind, where, message))

    def add_unsupported(
        self, where: str, what: str, anchor: str, *, drop: str, kind: Kind = "dropped"
    ) -> None:
        """Add an unsupported feature.

        Args:
            where: file, line and element.
            what: what is not supported, a clause without a full stop.
            anchor: heading of docs/support.md that explains it.
            drop: the message of the notice when the user asks to go on without it.
            kind: the kind of that notice.
        """
        notice = Notice(kind, where, drop)
        self.unsupported.append(UnsupportedFeature(where, what, anchor, notice))

    def settle(self, on_unsupported: str, name: str) -> tuple[Notice, ...]:
        """Return all notices; raise ModelError for what is not supported unless it is dropped."""
        if self.unsupported and on_unsupported == "error":
            raise ModelError(unsupported_message(self.unsupported, name))
        return (*self.notices, *(feature.notice for feature in self.unsupported))


def unsupported_message(features: list[UnsupportedFeature], name: str) -> str:
    """Return the message for a list of unsupported features; at most ten are named."""
    if len(features) == 1:
        return f'{features[0]}; change it, or pass on_unsupported="drop" to go on without it.'
    listed = "\n".join(f"  {feature}" for feature in _varied(features)[:MAX_LISTED])
    rest = len(features) - MAX_LISTED
    more = f"\n  and {rest} more." if rest > 0 else ""
    return (
        f"{name}: {len(features)} things are not supported; change them, or pass "
        f'on_unsupported="drop" to go on without them:\n{listed}{more}'
    )


def _varied(features: list[UnsupportedFeature]) -> list[UnsupportedFeature]:
    """Return the features so that the first of every sort come first."""
    seen: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for index, feature in enumerate(features):
        seen[feature.anchor] = seen.get(feature.anchor, -1) + 1
        ranked.append((min(seen[feature.anchor], 1), index))
    return [features[index] for _, index in sorted(ranked)]


def format_report(title: str, notices: Iterable[Notice]) -> str:
    """Return notices as readable text, grouped by kind."""
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
