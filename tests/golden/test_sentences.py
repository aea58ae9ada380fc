"""Every sentence of the package is the one in sentences.txt."""

from __future__ import annotations

import pytest

from tests.golden import sentences
from tests.golden.sentences import Case, check, raises, refused, returns

ADVICE = "read it, and renew with `python tests/golden/renew.py --sentences`"


@pytest.mark.parametrize("folder", sentences.folders())
def test_sentences_are_the_golden_ones(folder: str) -> None:
    """Provoke all sentences of a folder and compare them with the file."""
    found = sentences.cases(folder)
    if found is None:
        pytest.skip(f"tests/{folder}/refusals.py needs a package that is not installed")
    golden = sentences.read(sentences.FILE.read_text(encoding="utf-8")).get(folder, {})
    now = sentences.collect_folder(found)
    changed = [
        f"[{folder}] {name}\n  was {golden.get(name)!r}\n  is  {text!r}"
        for name, text in now.items()
        if golden.get(name) != text
    ]
    changed += [f"[{folder}] {name} is gone" for name in golden if name not in now]
    assert not changed, "\n".join([*changed, ADVICE])
    assert list(now) == list(golden), ADVICE


def test_no_folder_is_forgotten() -> None:
    """Hold no sentences of a folder that has no cases."""
    golden = sentences.read(sentences.FILE.read_text(encoding="utf-8"))
    assert set(golden) <= set(sentences.folders())


@pytest.mark.parametrize("folder", sentences.folders())
def test_sentences_end_with_a_stop(folder: str) -> None:
    """End with one full stop or question mark, and put no two stops in a row."""
    golden = sentences.read(sentences.FILE.read_text(encoding="utf-8"))
    for name, text in golden.get(folder, {}).items():
        if "\n" not in text:
            assert text.endswith((".", "?")) and not text.endswith((". .", "..")), f"{name}: {text}"


def test_the_file_can_be_read_back() -> None:
    """Read what was written, blocks of several lines too."""
    found = {"a": {"one": "Error: x.", "two": "first\n  second"}, "b": {"one": "y."}}
    assert sentences.read(sentences.write(found)) == found


def test_a_case_pins_class_and_names() -> None:
    """Fail for another class, a subclass, a missing name, and a call that does not raise."""

    def fail(folder: object = None) -> None:
        raise KeyError(f"{folder}: mass")

    assert "mass" in refused(fail, KeyError, "mass")
    assert check(raises("named", KeyError, lambda folder: fail(folder), "FOLDER", "mass"))
    assert check(returns("list", lambda: ["a mass", "b"], "mass")) == "a mass\nb"
    for case in (
        raises("other", ValueError, fail),
        raises("base", LookupError, fail),
        raises("name", KeyError, fail, "inertia"),
        returns("text", lambda: "none", "inertia"),
    ):
        with pytest.raises((AssertionError, KeyError)):
            check(case)
    with pytest.raises(pytest.fail.Exception):
        check(Case("silent", lambda: None, KeyError, ()))
