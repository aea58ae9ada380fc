"""All sentences of the package: errors, notices and reasons, collected and kept in one file.

A folder of tests has its cases in `tests/FOLDER/refusals.py`, a list `CASES` made by `raises` and
`returns`. `tests/FOLDER/test_refusals.py` checks each of them with `check`: the class of the
exception, and the names at fault. What the sentences say word by word is in `sentences.txt`, which
`python tests/golden/renew.py --sentences` renews; `test_sentences.py` compares, and runs the cases
itself, so that it does not depend on other tests.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent.parent
FILE = Path(__file__).with_name("sentences.txt")
HEAD = (
    "# every sentence that tests/*/refusals.py provoke; "
    "renew with `python tests/golden/renew.py --sentences`\n"
)


@dataclass(frozen=True)
class Case:
    """A call, and what its sentence must name.

    Attributes:
        name: of the case, unique in its folder.
        call: raises `error`, or, where that is None, returns text or a list of texts. One that
            needs an argument is given an empty folder.
        error: class of the exception, exactly.
        names: what the sentence must contain: where, and what is at fault.
    """

    name: str
    call: Callable[..., object]
    error: type[Exception] | None
    names: tuple[str, ...]


def raises(name: str, error: type[Exception], call: Callable[..., object], *names: str) -> Case:
    """Return the case of a call that raises."""
    return Case(name, call, error, names)


def returns(name: str, call: Callable[..., object], *names: str) -> Case:
    """Return the case of a call that returns sentences, such as notices or a reason."""
    return Case(name, call, None, names)


def refused(call: Callable[[], object], error: type[Exception], *names: str) -> str:
    """Check that a call raises exactly `error` with all `names` in its message; return it."""
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error, f"{type(caught.value).__name__}: {caught.value}"
    return _checked(str(caught.value), names)


@contextmanager
def module_as(name: str, value: Any = None) -> Generator[None]:
    """Let `import name` give `value` for a while; with None it raises ImportError."""
    missing = object()
    before = sys.modules.get(name, missing)
    sys.modules[name] = value
    try:
        yield
    finally:
        if before is missing:
            del sys.modules[name]
        else:
            sys.modules[name] = before  # type: ignore[assignment]


def _checked(message: str, names: tuple[str, ...]) -> str:
    """Return a message that holds all names."""
    missing = [name for name in names if name not in message]
    assert not missing, f"{missing} not in {message!r}"
    return message


def check(case: Case) -> str:
    """Run a case and return its sentence; a temporary folder is written as FOLDER."""
    with tempfile.TemporaryDirectory() as folder:
        parameters = inspect.signature(case.call).parameters.values()
        takes = any(parameter.default is parameter.empty for parameter in parameters)
        arguments: list[Any] = [Path(folder)] if takes else []
        if case.error is not None:
            message = refused(lambda: case.call(*arguments), case.error)
        else:
            text = case.call(*arguments)
            message = text if isinstance(text, str) else "\n".join(map(str, text))  # type: ignore[call-overload]
        return _checked(message.replace(folder, "FOLDER"), case.names)


def cases(folder: str) -> list[Case] | None:
    """Return the cases of a folder; None where a package that they need is not installed."""
    try:
        found: list[Case] = importlib.import_module(f"tests.{folder}.refusals").CASES
    except pytest.skip.Exception:
        return None
    names = [case.name for case in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"tests/{folder}/refusals.py has several cases named {twice}"
    return found


def folders() -> list[str]:
    """Return the folders that have cases."""
    return sorted(path.parent.name for path in TESTS.glob("*/refusals.py"))


def collect() -> dict[str, dict[str, str]]:
    """Return the sentences of all cases that can run here, by folder and name."""
    out: dict[str, dict[str, str]] = {}
    for folder in folders():
        found = cases(folder)
        if found is not None:
            out[folder] = collect_folder(found)
    return out


def collect_folder(found: list[Case]) -> dict[str, str]:
    """Return the sentences of some cases by name."""
    return {case.name: _shown(case, check(case)) for case in found}


def _shown(case: Case, message: str) -> str:
    return message if case.error is None else f"{case.error.__name__}: {message}"


def write(sentences: dict[str, dict[str, str]]) -> str:
    """Return the content of the file."""
    blocks = [
        f"[{folder}] {name}\n" + "".join(f"    {line}\n" for line in text.split("\n"))
        for folder, named in sorted(sentences.items())
        for name, text in named.items()
    ]
    return "\n".join([HEAD, *blocks])


def read(text: str) -> dict[str, dict[str, str]]:
    """Return the sentences of a file, by folder and name."""
    out: dict[str, dict[str, str]] = {}
    for block in text.split("\n\n")[1:]:
        head, *lines = block.rstrip("\n").split("\n")
        folder, _, name = head.removeprefix("[").partition("] ")
        out.setdefault(folder, {})[name] = "\n".join(line[4:] for line in lines)
    return out
