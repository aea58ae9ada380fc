"""Tests of tools/check_words.py."""

from pathlib import Path

import check_words
import pytest


@pytest.mark.parametrize(
    ("line", "word", "advice"),
    [
        ("x = 1  # TODO later", "TODO", "open an issue, or finish it"),
        ("import pickle", "import pickle", "loading runs code; use a plain format"),
        (
            "np.load(f, allow_pickle=True)",
            "allow_pickle=True",
            "loading runs code; use a plain format",
        ),
        ("y = eval(text)", "eval(", "it runs text as code; parse the text"),
        ("yaml.load(f)", "yaml.load(", "loading runs code; use yaml.safe_load"),
        ("np.random.seed(0)", "np.random.seed(", "use np.random.default_rng(seed)"),
    ],
)
def test_names_forbidden_words(line: str, word: str, advice: str) -> None:
    """Name the word, its place and what to do instead."""
    assert check_words.check_text("a.py", f"\n{line}\n") == [
        f"a.py:2: {word!r} is not allowed: {advice}."
    ]


def test_accepts_harmless_neighbours() -> None:
    """Accept longer names and methods that only contain such a word."""
    text = "model.eval()\nretrieval(x)\nnp.load(f, allow_pickle=False)\nrng.normal(size=3)\n"
    assert check_words.check_text("a.py", text) == []


def test_reads_the_tree(tmp_path: Path) -> None:
    """Read sources in every folder and leave other files alone."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "a.hpp").write_text("// FIXME\n")
    (tmp_path / "core" / "notes.txt").write_text("TODO\n")
    assert check_words.check_tree(tmp_path) == [
        "core/a.hpp:1: 'FIXME' is not allowed: open an issue, or finish it."
    ]
