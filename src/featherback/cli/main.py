"""Entry point of `featherback` and `python -m featherback`; nothing is imported before it runs."""

from __future__ import annotations

import sys

from featherback import __version__
from featherback.errors import FeatherbackError


def main(args: list[str] | None = None) -> None:
    """Run the command line; exit status 1 after an error of ours, 130 after Ctrl-C."""
    given = sys.argv[1:] if args is None else args
    try:
        if given == ["--version"]:
            print(f"featherback {__version__}")
            return
        # here, so that Ctrl-C is caught while it is imported too
        from featherback.cli.commands import app

        app.cli(
            prog="featherback",
            args=given,
            description="Featherstone dynamics with backpropagation. --version prints the version.",
        )
    except FeatherbackError as error:
        print(f"featherback: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("featherback: interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
