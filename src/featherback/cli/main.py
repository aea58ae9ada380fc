"""Entry point of `featherback` and `python -m featherback`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from featherback.errors import FeatherbackError

app = tyro.extras.SubcommandApp()


@app.command
def demo(
    out: Annotated[Path, tyro.conf.arg(help="folder for the picture")] = Path("demo"),
) -> None:
    """Drop a Laikago from 5 cm, let it stand under its servos, and save a picture strip."""
    from featherback.cli.demo import run_demo

    run_demo(out)


@app.command
def doctor() -> None:
    """Print versions, instruction set and cores: what a bug report should contain."""
    from featherback.cli.doctor import run_doctor

    run_doctor()


def main(args: list[str] | None = None) -> None:
    """Run the command line.

    Args:
        args: arguments without the program's name; ``sys.argv`` when None.

    Raises:
        SystemExit: with status 1 after an error of ours, whose sentence goes to stderr.
    """
    try:
        app.cli(
            prog="featherback", args=args, description="Featherstone dynamics with backpropagation."
        )
    except FeatherbackError as error:
        print(f"featherback: {error}", file=sys.stderr)
        raise SystemExit(1) from None
