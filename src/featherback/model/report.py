"""Notices: what loading a model ignored, left out, approximated or repaired, and its report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from featherback._core import option_table
from featherback.errors import ModelError

Kind = Literal["ignored", "dropped", "approximated", "repaired", "law"]

MAX_LISTED = 10
"""How many problems one error message lists before it counts the rest."""

LAWS: tuple[str, ...] = next(tuple(o.choices) for o in option_table() if o.name == "contact")
"""The contact laws."""

KIND_TITLES: dict[Kind, str] = {
    "dropped": "left out on request",
    "approximated": "approximated on request",
    "repaired": "repaired",
    "law": "not the same under both contact laws",
    "ignored": "no meaning here",
}


@dataclass(frozen=True)
class Notice:
    """One thing about a model file that its user should know.

    Attributes:
        kind: "ignored", "dropped", "approximated", "repaired" or "law".
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
    """Something that is not supported: the message of the error and the notice it may become.

    Attributes:
        where: file, line and element.
        what: what is not supported.
        anchor: heading of docs/support.md.
        notice: what is said when the user asks to go on without it.
        law: the contact law that does not have it; None for both.
    """

    where: str
    what: str
    anchor: str
    notice: Notice
    law: str | None = None

    def __str__(self) -> str:
        """Return it as it is listed in an error message."""
        return f"{self.where}: {self.what} (see docs/support.md#{self.anchor})"


@dataclass
class Findings:
    """Collects notices and unsupported features while a model is read.

    Attributes:
        notices: what its user should know.
        unsupported: what is not supported.
        meshes: names of meshes that were left out, told with all geoms that use them.
        fields: the same of height fields.
    """

    notices: list[Notice] = field(default_factory=list)
    unsupported: list[UnsupportedFeature] = field(default_factory=list)
    meshes: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)

    def note(self, kind: Kind, where: str, message: str) -> None:
        """Add a notice."""
        self.notices.append(Notice(kind, where, message))

    def add_unsupported(
        self,
        where: str,
        what: str,
        anchor: str,
        *,
        drop: str,
        kind: Kind = "dropped",
        law: str | None = None,
    ) -> None:
        """Add an unsupported feature.

        Args:
            where: file, line and element.
            what: what is not supported, a clause without a full stop.
            anchor: heading of docs/support.md that explains it.
            drop: the message of the notice when the user asks to go on without it.
            kind: the kind of that notice.
            law: the contact law that does not have it; None for both.
        """
        if law is not None:
            what = f'{what}, which contact="{law}" does not have'
            drop = f'under contact="{law}" {drop}'
        notice = Notice(kind, where, drop)
        self.unsupported.append(UnsupportedFeature(where, what, anchor, notice, law))

    def fatal(self, on_unsupported: str) -> list[UnsupportedFeature]:
        """Return what no contact law has and is not dropped."""
        if on_unsupported == "drop":
            return []
        return [feature for feature in self.unsupported if feature.law is None]

    def settle(
        self, on_unsupported: str, name: str
    ) -> tuple[tuple[Notice, ...], tuple[UnsupportedFeature, ...]]:
        """Return all notices, and what one contact law refuses.

        Raises ModelError for what no law has, unless it is dropped.
        """
        fatal = self.fatal(on_unsupported)
        if fatal:
            raise ModelError(unsupported_message(fatal, name))
        if on_unsupported == "drop":
            # what went along comes after what it went with
            along = [notice for notice in self.notices if notice.kind == "dropped"]
            others = [notice for notice in self.notices if notice.kind != "dropped"]
            return (*others, *(feature.notice for feature in self.unsupported), *along), ()
        refused = tuple(self.unsupported)
        told = (
            Notice("law", x.where, f"{x.what}; a Simulator with it refuses the model.")
            for x in refused
        )
        return (*self.notices, *told), refused


def other_law(law: str) -> str:
    """Return the contact law that is not this one."""
    (other,) = (name for name in LAWS if name != law)
    return other


def law_message(features: list[UnsupportedFeature], name: str) -> str:
    """Return the message for what one contact law does not have; at most ten are named."""
    law = str(features[0].law)
    way = (
        f'pass contact="{other_law(law)}" to the Simulator, or on_unsupported="drop" to load() to '
        "go on without"
    )
    if len(features) == 1:
        return f"{features[0]}; change it, {way} it."
    return (
        f'{name}: {len(features)} things are not supported under contact="{law}"; change them, '
        f"{way} them:\n{_listed(features)}"
    )


def unsupported_message(features: list[UnsupportedFeature], name: str) -> str:
    """Return the message for a list of unsupported features; at most ten are named."""
    if len(features) == 1:
        return f'{features[0]}; change it, or pass on_unsupported="drop" to go on without it.'
    return (
        f"{name}: {len(features)} things are not supported; change them, or pass "
        f'on_unsupported="drop" to go on without them:\n{_listed(features)}'
    )


def dropped_message(findings: Findings) -> str:
    """Return what to add to an error that may come from what was left out before it."""
    lost = [feature.notice for feature in findings.unsupported if feature.law is None]
    if not lost:
        return ""
    what = "something was" if len(lost) == 1 else f"{len(lost)} things were"
    return f" Before that {what} left out: {lost[0]}"


def _listed(features: list[UnsupportedFeature]) -> str:
    """Return the first ten features line by line, and how many more there are."""
    listed = "\n".join(f"  {feature}" for feature in _varied(features)[:MAX_LISTED])
    rest = len(features) - MAX_LISTED
    return listed + (f"\n  and {rest} more." if rest > 0 else "")


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
