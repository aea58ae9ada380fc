"""What the processes of tools/mutate/run.py share: lines that all may read, and the next turn."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any


class Board:
    """A folder with a plan, the number of turns taken from it, and lines of JSON.

    Every process opens the folder; a line is written whole, and a turn is taken once.
    """

    def __init__(self, folder: Path) -> None:
        """Open a folder that exists."""
        self.folder = folder
        self.lines = folder / "lines.jsonl"
        self.taken = folder / "taken"
        self.at = 0

    @classmethod
    def fresh(cls, folder: Path, plan: Any) -> Board:
        """Return a board with a plan, of which nothing is taken, and without lines."""
        folder.mkdir(parents=True, exist_ok=True)
        board = cls(folder)
        (folder / "plan.json").write_text(json.dumps(plan))
        board.lines.write_text("")
        board.taken.write_text("0")
        return board

    def plan(self) -> Any:
        """Return the plan."""
        return json.loads((self.folder / "plan.json").read_text())

    def take(self) -> int:
        """Return the number of the next turn that no process has taken."""
        with self.taken.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            turn = int(file.read())
            file.seek(0)
            file.write(str(turn + 1))
        return turn

    def write(self, **entry: Any) -> None:
        """Write one line; it is there even if this process dies the next moment."""
        out = os.open(self.lines, os.O_WRONLY | os.O_APPEND)
        os.write(out, (json.dumps(entry) + "\n").encode())
        os.close(out)

    def read(self) -> list[dict[str, Any]]:
        """Return the complete lines that have come since the last call."""
        with self.lines.open("rb") as file:
            file.seek(self.at)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.at += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
