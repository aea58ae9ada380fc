"""Tests of tools/mutate: sites, switches, the draw, verdicts, and the report."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tools.mutate import build, judge, report, run, sites
from tools.mutate.board import Board
from tools.mutate.sites import Site
from tools.mutate.verdicts import EARLIER, Known, Verdicts

HEADER = """\
#pragma once
#include "core/mutant.hpp"
#define FB_INLINE inline
// used by the adjoint only
template <class T>
FB_INLINE void add_twice(T x, T* out) {
  out[0] += x * T(2);
}
template <class T>
FB_INLINE T foo(T a, T b) {
  return a * b - b;
}
template <class T>
FB_INLINE void foo_adjoint(T a, T b, T y_bar, T* a_bar, T* b_bar) {
  T spare[2];
  for (int i = 0; i < 2; ++i) spare[i] = a - b;
  a_bar[0] += y_bar * b;
  b_bar[0] += y_bar * a - y_bar;
  add_twice(y_bar, b_bar + 0);
}
"""
MAIN = """\
#include <cstdio>
#include <cstdlib>
#include "core/foo.hpp"
int main(int, char** argv) {
  fb::mutant::chosen = std::atoi(argv[1]);
  double a_bar = 0, b_bar = 0;
  foo_adjoint(3.0, 5.0, 7.0, &a_bar, &b_bar);
  std::printf("%g %g %g", foo(3.0, 5.0), a_bar, b_bar);
}
"""


ENGINE = """\
template <class T>
FB_FN void sum_of(T* x) {
  x[0] += x[2];
}
"""
CHOICES = """\
template <class T>
FB_FN void choose(T* x) {
  if constexpr (requires(T t) { t.x + t.y; }) x[0] += x[1];
  if (requires { x[0] - x[1]; }) x[1] = x[0];
}
"""
# a worker whose second mutant ends it
DYING = """\
import os, signal, sys
from pathlib import Path
from tools.mutate.board import Board
board = Board(Path(sys.argv[3]))
turns = board.plan()["turns"]
while (turn := board.take()) < len(turns):
    mutant = turns[turn][0]
    board.write(worker=0, begin=turn)
    if mutant == 2:
        ENDS
    killer = "t" if mutant == 1 else None
    board.write(worker=0, turn=turn, mutant=mutant, function="f", killer=killer)
board.write(worker=0, done=1)
"""
POINTERS = """\
template <class R, class S>
FB_FN void note_in(S* x, long row) {
  const R *from = static_cast<const R*>(x), *to = from;
  R* at[3];
  S* const both[2] = {x, x};
  at[1] = from * to;
}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with one header."""
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "foo.hpp").write_text(HEADER)
    return tmp_path


def test_finds_sites_in_adjoints_and_their_helpers(root: Path) -> None:
    """Find each kind of mistake in what only adjoints use, and none elsewhere."""
    assert [f"{s.line} {s.function} {s.kind} {s.change}" for s in sites.all_sites(root)] == [
        "7 add_twice drop out[0] += x * T(2);",
        "7 add_twice index out[0]: 0 -> 1",
        "7 add_twice sign out[0] += x * T(2) -> -=",
        "7 add_twice factor * T(2)",
        "16 foo_adjoint drop spare[i] = a - b;",
        "16 foo_adjoint sign - b -> + b",
        "16 foo_adjoint drop - b",
        "17 foo_adjoint drop a_bar[0] += y_bar * b;",
        "17 foo_adjoint index a_bar[0]: 0 -> 1",
        "17 foo_adjoint sign a_bar[0] += y_bar * b -> -=",
        "17 foo_adjoint factor * b",
        "18 foo_adjoint drop b_bar[0] += y_bar * a - y_bar;",
        "18 foo_adjoint index b_bar[0]: 0 -> 1",
        "18 foo_adjoint sign b_bar[0] += y_bar * a - y_bar -> -=",
        "18 foo_adjoint factor * a",
        "18 foo_adjoint sign - y_bar -> + y_bar",
        "18 foo_adjoint drop - y_bar",
        "19 foo_adjoint drop add_twice(y_bar, b_bar + 0);",
        "19 foo_adjoint frame add_twice(y_bar, b_bar + 0): b_bar -> a_bar",
    ]


def test_finds_sites_in_all_of_the_engine(root: Path) -> None:
    """Find mistakes in the loops over steps and lanes too, adjoints or not; keys are unique."""
    (root / "engine" / "jobs").mkdir(parents=True)
    (root / "engine" / "jobs" / "sum.hpp").write_text(ENGINE + ENGINE)
    found = [s for s in sites.all_sites(root) if s.file == "engine/jobs/sum.hpp"]
    assert [s.key for s in found[:4]] == [
        "engine/jobs/sum.hpp | sum_of | drop | x[0] += x[2];",
        "engine/jobs/sum.hpp | sum_of | index | x[0]: 0 -> 1",
        "engine/jobs/sum.hpp | sum_of | sign | x[0] += x[2] -> -=",
        "engine/jobs/sum.hpp | sum_of | index | x[2]: 2 -> 1",
    ]
    assert len(found) == len({s.key for s in found}) == 8


def changes_of(root: Path, file: str, text: str) -> list[str]:
    """Return what is changed in a header of this text."""
    (root / file).parent.mkdir(exist_ok=True)
    (root / file).write_text(text)
    return [f"{s.line} {s.kind} {s.change}" for s in sites.all_sites(root) if s.file == file]


def test_declarations_of_pointers_stay(root: Path) -> None:
    """Take a pointer that is declared for no product, and the size of an array for no index."""
    assert changes_of(root, "engine/note.hpp", POINTERS) == [
        "6 drop at[1] = from * to;",
        "6 index at[1]: 1 -> 0",
        "6 factor * to",
    ]


def test_a_zero_that_is_added_is_not_left_out(root: Path) -> None:
    """Turn the sign of a zero round; a sum without it is the sum with it."""
    text = CHOICES.replace("x[1] = x[0];", "x[1] = x[0] + R(0);")
    assert changes_of(root, "core/foo_adjoint.hpp", text)[-3:] == [
        "4 index x[1]: 1 -> 0 (#2)",
        "4 index x[0]: 0 -> 1 (#2)",
        "4 sign + R(0) -> - R(0)",
    ]


def test_what_types_decide_stays(root: Path) -> None:
    """Leave what a concept asks for; read all of a header that is named after adjoints."""
    assert changes_of(root, "core/foo_adjoint.hpp", CHOICES) == [
        "3 drop x[0] += x[1];",
        "3 index x[0]: 0 -> 1",
        "3 sign x[0] += x[1] -> -=",
        "3 index x[1]: 1 -> 0",
        "4 drop x[1] = x[0];",
        "4 index x[1]: 1 -> 0 (#2)",
        "4 index x[0]: 0 -> 1 (#2)",
    ]


def test_guards_nest(root: Path) -> None:
    """Put the switches of one statement around each other."""
    found = sites.all_sites(root)
    numbered = [(n, s) for n, s in enumerate(found, 1) if s.line == 17 and s.kind != "index"]
    assert sites.guard(HEADER, numbered).splitlines()[16] == (
        "  { if (!fb::mutant::on(8)) a_bar[0] += "
        "fb::mutant::sign<10>(y_bar * fb::mutant::one<11>(b)); }"
    )


def test_each_switch_changes_what_is_computed(root: Path) -> None:
    """Leave results as they are without a mutant, change them with each, and the forward never."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ here")
    found = [s for s in sites.all_sites(root) if s.kind != "index"]
    (root / "core" / "foo.hpp").write_text(sites.guard(HEADER, list(enumerate(found, 1))))
    (root / "core" / "mutant.hpp").write_text(sites.HEADER)
    (root / "main.cpp").write_text(MAIN)
    command = [compiler, "-std=c++20", f"-I{root}", "-o", root / "main", root / "main.cpp"]
    subprocess.run(command, check=True)

    def run(mutant: int) -> str:
        return subprocess.check_output([root / "main", str(mutant)], text=True)

    assert run(0) == "10 35 28"
    for number, site in enumerate(found, 1):
        forward, *bars = run(number).split()
        assert forward == "10"
        # the spare numbers are never read: nothing can notice that they are wrong
        assert (bars == ["35", "28"]) == (site.line == 16)


def test_draw_is_that_of_its_seed(root: Path) -> None:
    """Draw the same mutants for the same seed, some of every function, all when asked for more."""
    found = sites.all_sites(root)
    five = sites.draw(found, 5, 0)
    assert five == sites.draw(found, 5, 0)
    assert len(five) == 5
    assert {s.function for s in five} == {"add_twice", "foo_adjoint"}
    assert any(sites.draw(found, 5, seed) != five for seed in range(1, 5))
    assert sites.draw(found, 100, 0) == found


def test_reads_the_list_of_equivalents() -> None:
    """Give each key of a group the reason that follows it."""
    keys = "a | f | sign | x -> y\nb | g | drop | z | w;\n"
    assert report.read_equivalents(f"# note\n\n{keys}  it is\n  zero\n\nc | h\n  no\n") == {
        "a | f | sign | x -> y": "it is zero",
        "b | g | drop | z | w;": "it is zero",
        "c | h": "no",
    }


def test_report_tells_survivors(root: Path) -> None:
    """Report a mutant that no test notices, unless it is listed; refuse a list that is wrong."""
    found = sites.all_sites(root)[:3]
    chosen: list[tuple[int, Site]] = list(enumerate(found, 1))
    verdict = judge.Verdict({1: "tests/a.py::b", 2: None, 3: None}, unreached={3})
    lines, well = report.report(found, chosen, verdict, {})
    assert not well
    where = "core/foo.hpp:7: add_twice"
    assert lines == [
        f"{where}: drop: out[0] += x * T(2);: killed: tests/a.py::b",
        (
            second
            := "core/foo.hpp:7: add_twice: index: out[0]: 0 -> 1: survived: no test notices it"
        ),
        (third := f"{where}: sign: out[0] += x * T(2) -> -=: survived: no test comes across it"),
        second,
        third,
        "mutate: 3 of 3 mutants: 1 killed, 2 survived",
        "mutate: kinds: 1 drop, 1 index, 1 sign",
    ]
    listed = {found[1].key: "reason", found[2].key: "reason"}
    lines, well = report.report(found, chosen, verdict, listed)
    assert well
    assert lines[-2] == "mutate: 3 of 3 mutants: 2 equivalent, 1 killed"
    listed |= {found[0].key: "no", "gone": "no"}
    lines, well = report.report(found, chosen, verdict, listed)
    assert not well
    assert lines[3:5] == [
        f"{lines[0]} (listed as equivalent; take it off equivalent.txt)",
        "equivalent.txt: there is no mutant gone; take it off",
    ]


def test_slow_tests_wait_for_the_quick_ones() -> None:
    """Try all mutants on quick tests, then the others on slow ones; a verdict takes both or one."""
    quick, slow = (
        judge.Test(name, True, seconds, frozenset(), frozenset())
        for name, seconds in (("quick", 0.1), ("slow", 10.0))
    )
    turns = judge.turns_of([(1, "f", [quick, slow]), (2, "f", [slow]), (3, "f", [quick])])
    assert turns == [
        (1, "f", ["quick"]),
        (3, "f", ["quick"]),
        (1, "f", ["slow"]),
        (2, "f", ["slow"]),
    ]
    tally = judge.Tally(turns)

    def over(turn: int, killer: str | None) -> dict[int, str | None]:
        line = {"worker": 0, "turn": turn, "mutant": turns[turn][0], "killer": killer}
        return tally.read([line])

    assert tally.read([{"worker": 0, "begin": 0}]) == {}
    assert tally.begun == {0: 0}
    # the slow test may be over first
    assert over(2, None) == {}
    assert tally.begun == {}
    assert over(0, None) == {1: None}
    assert over(1, "quick") == {3: "quick"}
    assert over(3, "slow") == {2: "slow"}
    assert over(3, None) == {}
    assert tally.read([{"worker": 1, "done": 4}]) == {}
    assert tally.done == {1}


def test_every_turn_is_taken_once(tmp_path: Path) -> None:
    """Share a plan: each process sees all whole lines once, and no turn is taken twice."""
    board = Board.fresh(tmp_path / "board", {"turns": [1, 2]})
    others = [Board(board.folder) for _ in range(2)]
    assert [b.take() for b in (board, *others, board)] == [0, 1, 2, 3]
    assert others[0].plan() == {"turns": [1, 2]}
    others[0].write(mutant=7)
    with board.lines.open("a") as file:
        file.write('{"mutant":')
    assert [b.read() for b in (board, others[1], board)] == [[{"mutant": 7}], [{"mutant": 7}], []]
    with board.lines.open("a") as file:
        file.write(" 8}\n")
    assert board.read() == [{"mutant": 8}]
    assert Board.fresh(board.folder, {}).take() == 0


@pytest.mark.parametrize(
    ("ends", "killer"), [("os._exit(3)", "crash"), ("signal.raise_signal(signal.SIGPROF)", "hang")]
)
def test_a_worker_that_dies_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, killer: str
) -> None:
    """Give a mutant that ends its process the verdict for it, and go on with the next one."""
    (tmp_path / "dying.py").write_text(DYING.replace("ENDS", ends))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{build.ROOT}")
    monkeypatch.setattr(judge, "WORKER", "dying")
    sees = judge.Test("t", True, 0.1, frozenset({1, 2, 3}), frozenset())
    chosen = [(n, Site("core/a.hpp", "f", "sign", n, "x", ())) for n in (1, 2, 3, 4)]
    options = argparse.Namespace(jobs=1, end=time.monotonic() + 60)
    found: dict[int, tuple[str | None, bool]] = {}
    place = judge.Place(tmp_path, tmp_path, ("tests",))
    judge.judge(
        place, [sees], chosen, {}, options, lambda n, k, reached: found.update({n: (k, reached)})
    )
    assert found == {1: ("t", True), 2: (killer, True), 3: (None, True), 4: (None, False)}


def test_the_list_names_mutants_that_exist() -> None:
    """Find every mutant of the list in core/, however its line has moved."""
    known = {site.key for site in sites.all_sites(build.ROOT)}
    listed = report.read_equivalents(report.EQUIVALENT.read_text())
    assert listed.keys() - known == set()


def test_lists_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    """Name the mutants of one header on request, and build nothing."""
    assert run.main(["--list", "--file", "quaternion.hpp"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 50
    assert all(line.startswith("core/dynamics/quaternion.hpp:") for line in lines)


def test_verdicts_hold_as_long_as_the_text(root: Path, tmp_path: Path) -> None:
    """Take a run up again: what was noticed asks for the same function, the rest for all."""
    killed, survived, new = sites.all_sites(root)[:3]
    file = tmp_path / "verdicts.jsonl"
    store = Verdicts(file, root, "state")
    store.add(killed, "tests/a.py::b", True)
    store.add(survived, None, True)
    file.write_text(file.read_text() + '{"key": "cut')

    def known(state: str) -> list[Known | None]:
        store = Verdicts(file, root, state)
        return [store.known(site) for site in (killed, survived, new)]

    assert known("state") == [Known("tests/a.py::b", True), Known(None, True), None]
    assert Verdicts(file, root, "other").past() == {"add_twice": ["tests/a.py::b"]}
    assert known("other tests") == [Known("tests/a.py::b", True), None, None]
    Verdicts(file, root, "state").add(new, None, False)
    assert known("state")[2] == Known(None, False)
    (root / "core" / "foo.hpp").write_text(HEADER.replace("a * b - b", "a * b + b"))
    assert known("other") == [Known("tests/a.py::b", True), None, None]
    (root / "core" / "foo.hpp").write_text(HEADER.replace("out[0] += x", "out[0] -= x"))
    assert known("state") == [None, None, None]


def test_functions_that_were_noticed_are_not_judged_again(root: Path, tmp_path: Path) -> None:
    """Skip functions of the project's list until their text changes; leave out those with a gap."""
    every = sites.all_sites(root)
    gap = every[0]
    noticed, file = tmp_path / "noticed.txt", tmp_path / "verdicts.jsonl"
    Verdicts(file, root, "state").write_noticed(noticed, every, {gap})
    store = Verdicts(file, root, "state", noticed)
    others = [site for site in every if (site.file, site.function) != (gap.file, gap.function)]
    assert others and store.known(gap) is None
    assert all(store.known(site) == Known(EARLIER, True) for site in others)
    header = root / others[0].file
    header.write_text(header.read_text().replace("+=", "-="))
    assert Verdicts(file, root, "state", noticed).known(others[0]) is None
