"""Verdicts of earlier runs, so that a long run can be cut and taken up again."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tools.mutate.cxx import functions_of
from tools.mutate.sites import Site


def digests_of(file: str, text: str) -> dict[str, str]:
    """Return the digest of every function of a header, overloads together, comments left out."""
    words: dict[str, list[str]] = defaultdict(list)
    for function in functions_of(file, text):
        words[function.name] += (token.text for token in function.tokens)
    return {name: hashlib.sha256(" ".join(w).encode()).hexdigest() for name, w in words.items()}


@dataclass(frozen=True)
class Known:
    """What became of a mutant: the test that noticed it, if any, and whether any came across it."""

    killer: str | None
    reached: bool


NOTICED = Path(__file__).with_name("noticed.txt")
EARLIER = "a test of an earlier run"


def read_noticed(file: Path) -> set[str]:
    """Return the functions all of whose mutants were noticed, with their digests."""
    return set(file.read_text().splitlines()) if file.exists() else set()


class Verdicts:
    """A file of verdicts, one line each, written as they come.

    One that was noticed counts as long as its function is the same; one that was not also asks for
    the same tests and sources, since another test may notice it. Functions all of whose mutants
    were noticed stand in a file of the project too: a fresh clone judges what has changed since.
    """

    def __init__(self, file: Path, root: Path, state: str, noticed: Path | None = None) -> None:
        """Read what is there.

        Args:
            file: lines of JSON.
            root: the project.
            state: digest of sources and tests.
            noticed: the project's file of functions all of whose mutants were noticed.
        """
        self.file = file
        self.root = root
        self.state = state
        self.noticed = read_noticed(noticed) if noticed else set[str]()
        self.headers: dict[str, dict[str, str]] = {}
        self.entries: dict[tuple[str, str], tuple[str, Known]] = {}
        # the last line of a run that was cut may be incomplete
        text = file.read_text() if file.exists() else ""
        text = text[: text.rfind("\n") + 1]
        file.write_text(text)
        for line in text.splitlines():
            x = json.loads(line)
            known = Known(x["killer"], x["reached"])
            self.entries[x["key"], x["text"]] = x["state"], known

    def text(self, site: Site) -> str:
        """Return the digest of the function that a mutant is in."""
        if site.file not in self.headers:
            self.headers[site.file] = digests_of(site.file, (self.root / site.file).read_text())
        return self.headers[site.file][site.function]

    def name(self, site: Site) -> str:
        """Return the line that names the function of a mutant, with the digest of its text."""
        return f"{site.file} | {site.function} | {self.text(site)[:16]}"

    def write_noticed(self, file: Path, sites: list[Site], left: set[Site]) -> None:
        """Write the functions none of whose mutants is left, neither unnoticed nor unjudged."""
        names = {self.name(site) for site in sites} - {self.name(site) for site in left}
        file.write_text("".join(f"{name}\n" for name in sorted(names)))

    def known(self, site: Site) -> Known | None:
        """Return the verdict on a mutant, if it still holds."""
        if self.name(site) in self.noticed:
            return Known(EARLIER, True)
        state, known = self.entries.get((site.key, self.text(site)), ("", None))
        if known is None or (known.killer is None and state != self.state):
            return None
        return known

    def past(self) -> dict[str, list[str]]:
        """Return, by function, the tests that noticed a mutant of it, in any state."""
        found: dict[str, list[str]] = {}
        for (key, _), (_, known) in self.entries.items():
            if known.killer:
                found.setdefault(key.split(" | ")[1], []).append(known.killer)
        return found

    def add(self, site: Site, killer: str | None, reached: bool) -> None:
        """Keep a verdict."""
        text = self.text(site)
        self.entries[site.key, text] = self.state, Known(killer, reached)
        entry = {"key": site.key, "text": text, "state": self.state}
        with self.file.open("a") as out:
            out.write(json.dumps({**entry, "killer": killer, "reached": reached}) + "\n")
