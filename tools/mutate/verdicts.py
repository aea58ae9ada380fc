"""Verdicts of earlier runs, so that a long run can be cut and taken up again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tools.mutate.sites import Site


@dataclass(frozen=True)
class Known:
    """What became of a mutant: the test that noticed it, if any, and whether any came across it."""

    killer: str | None
    reached: bool


class Verdicts:
    """A file of verdicts, one line each, written as they come.

    One that was noticed counts as long as the text of its header is the same; one that was not also
    asks for the same tests and sources, since another test may notice it.
    """

    def __init__(self, file: Path, root: Path, state: str) -> None:
        """Read what is there.

        Args:
            file: lines of JSON.
            root: the project.
            state: digest of sources and tests.
        """
        self.file = file
        self.root = root
        self.state = state
        self.headers: dict[str, str] = {}
        self.entries: dict[tuple[str, str], tuple[str, Known]] = {}
        # the last line of a run that was cut may be incomplete
        text = file.read_text() if file.exists() else ""
        text = text[: text.rfind("\n") + 1]
        file.write_text(text)
        for line in text.splitlines():
            x = json.loads(line)
            known = Known(x["killer"], x["reached"])
            self.entries[x["key"], x["header"]] = x["state"], known

    def header(self, site: Site) -> str:
        """Return the digest of the header that a mutant is in."""
        if site.file not in self.headers:
            text = (self.root / site.file).read_bytes()
            self.headers[site.file] = hashlib.sha256(text).hexdigest()
        return self.headers[site.file]

    def known(self, site: Site) -> Known | None:
        """Return the verdict on a mutant, if it still holds."""
        state, known = self.entries.get((site.key, self.header(site)), ("", None))
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
        header = self.header(site)
        self.entries[site.key, header] = self.state, Known(killer, reached)
        entry = {"key": site.key, "header": header, "state": self.state}
        with self.file.open("a") as out:
            out.write(json.dumps({**entry, "killer": killer, "reached": reached}) + "\n")
