"""Mutation sites of the hand-written adjoints: how they are found, drawn and guarded.

A mutant is one small mistake in the body of a `*_adjoint` function of core/, of a helper that only
such functions call, of any function of a header that is named after adjoints, or of a function of
engine/, which loops over steps and lanes. All chosen mutants are written into one copy of the
headers, each behind a run-time switch, so that one build serves them all (see HEADER). Both arms of
a switch have the same type, in every number type the headers are compiled for.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.mutate.cxx import PAIRS, WORDS, Function, Words, adjoints, functions_of

# the switch: `chosen` is the mutant that is on, 0 for none; `seen` marks guards that were passed
HEADER = """\
#pragma once
namespace fb::mutant {
inline int chosen = 0;
inline bool recording = false;
inline unsigned char seen[1 << 16], idle[1 << 16];
inline bool on(int k) {
  if (recording) seen[k] = 1;
  return chosen == k;
}
// a site whose types leave nothing to change
template <class A> inline A still(int k, A x) {
  idle[k] = 1;
  return x;
}
// numbers that count stay positive: addresses are made of them
template <int K, class A> inline A sign(A x) {
  if constexpr (requires { x % x; })
    return still(K, x);
  else
    return on(K) ? A(-x) : x;
}
template <int K, class A> inline A none(A x) { return on(K) ? A(x - x) : x; }
template <int K, class A> inline A kept(A x) { return on(K) ? x : A(-x); }
template <int K, class A> inline A other(A x, A y) { return on(K) ? y : x; }
// a name or another of the same type
template <class A, class B> inline constexpr bool same = false;
template <class A> inline constexpr bool same<A, A> = true;
template <int K, class A, class B> inline A& either(A& x, B& y) {
  if constexpr (same<A, B>) return on(K) ? y : x;
  idle[K] = 1;
  return x;
}
// a member or another of the same type, where there is one
#define FB_MUTANT_PART(member) [](auto&& o) -> decltype((member)) { return member; }
template <int K, class O, class X, class Y> inline decltype(auto) part(O&& o, X x, Y y) {
  if constexpr (requires { y(o); })
    if constexpr (same<decltype(x(o)), decltype(y(o))>) return on(K) ? y(o) : x(o);
  idle[K] = 1;
  return x(o);
}
template <int K, class M> inline M negated(M m) { return on(K) ? M(!m) : m; }
// factors that are numbers become one
template <int K, class A> inline A one(A x) {
  if constexpr (requires { x < x; })
    return on(K) ? A(1) : x;
  else
    return still(K, x);
}
// R v and R' v; products that are neither have their operands swapped, or stay as they are
template <int K, class A, class B> inline auto turned(const A& a, const B& b) {
  if constexpr (requires { mul_transposed(a, b); })
    return on(K) ? decltype(mul(a, b))(mul_transposed(a, b)) : mul(a, b);
  else if constexpr (requires { mul(b, a); })
    return on(K) ? mul(b, a) : mul(a, b);
  else
    return still(K, mul(a, b));
}
template <int K, class A, class B> inline auto unturned(const A& a, const B& b) {
  if constexpr (requires { mul(a, b); })
    return on(K) ? mul(a, b) : mul_transposed(a, b);
  else
    return on(K) ? mul_transposed(b, a) : mul_transposed(a, b);
}
}  // namespace fb::mutant
"""

MEMBERS = {
    "ang": "lin",
    "lin": "ang",
    "lo": "hi",
    "hi": "lo",
    "linkA": "linkB",
    "linkB": "linkA",
    "ca": "cb",
    "cb": "ca",
    "ra": "rb",
    "rb": "ra",
    "ha": "hb",
    "hb": "ha",
    "w_bar": "a_bar",
    "a_bar": "v_bar",
    "v_bar": "y_bar",
    "y_bar": "w_bar",
}
COMPONENTS = {"x": "y", "y": "z", "z": "x", "xx": "yy", "yy": "zz", "zz": "xy", "xy": "xz"}
COMPONENTS |= {"xz": "yz", "yz": "xx"}
NAMES = [
    ("a_bar", "b_bar"),
    ("p1_bar", "p2_bar"),
    ("ref_bar", "inc_bar"),
    ("from_bar", "to_bar"),
    ("t1_bar", "t2_bar"),
    ("ua", "ub"),
    ("t1", "t2"),
    ("p1", "p2"),
    ("R1", "R2"),
    ("A", "B"),
    ("ref", "inc"),
    ("from", "to"),
    ("X", "U"),
    ("up", "k"),
    ("lo_bar", "hi_bar"),
    ("before", "after"),
]


@dataclass(frozen=True)
class Site:
    """One place that can be mutated.

    Attributes:
        file: path of the header.
        function: the function it is in.
        kind: sign, drop, swap, frame, index, constant or factor.
        line: line in the header.
        change: what becomes what; repeated ones of a function are numbered.
        edits: (begin, end, text) to put into the header, with {} for the mutant's number.
    """

    file: str
    function: str
    kind: str
    line: int
    change: str
    edits: tuple[tuple[int, int, str], ...]

    @property
    def key(self) -> str:
        """Return what names the mutant wherever its line moves."""
        return f"{self.file} | {self.function} | {self.kind} | {self.change}"


class Finder:
    """The sites of one function, one rule after the other."""

    def __init__(self, function: Function, repeats: dict[str, int]) -> None:
        """Read a function.

        Args:
            function: its words.
            repeats: how often each change occurred in functions of this name and file before.
        """
        self.f = function
        self.words = Words(function)
        self.tokens = function.tokens
        self.partner = self.words.partner
        self.repeats = repeats

    # ------------------------------------------------------------------------------- sites

    def site(self, i: int, kind: str, change: str, *edits: tuple[int, int, str]) -> Site:
        """Return a site at token i; edits are given by offsets in the file."""
        self.repeats[kind + change] += 1
        count = self.repeats[kind + change]
        line = self.f.text.count("\n", 0, self.tokens[i].begin) + 1
        change = change if count == 1 else f"{change} (#{count})"
        return Site(self.f.file, self.f.name, kind, line, change, edits)

    def around(
        self, begin: int, end: int, name: str, more: str = ""
    ) -> tuple[tuple[int, int, str], tuple[int, int, str]]:
        """Return edits that put a call of the switch around tokens [begin, end)."""
        first, last = self.tokens[begin].begin, self.tokens[end - 1].end
        return (first, first, f"fb::mutant::{name}<{{}}>("), (last, last, f"{more})")

    def sites(self) -> Iterator[Site]:
        """Yield all sites of the function."""
        for i in range(self.f.body + 1, len(self.tokens) - 1):
            if i in self.words.closed:
                continue
            text = self.tokens[i].text
            if text in ("+", "-", "+=", "-="):
                yield from self.signs(i)
            elif text == "*":
                yield from self.factors(i)
            elif text in ("cross", "mul", "mul_transposed", "mul_add", "select"):
                yield from self.calls(i)
            elif self.tokens[i].kind == "number":
                yield from self.numbers(i)
            elif self.tokens[i].kind == "name":
                yield from self.names(i)
            if self.tokens[i - 1].text in (";", "{", "}", ")", "else"):
                yield from self.statements(i)

    def signs(self, i: int) -> Iterator[Site]:
        """Turn the sign of a term round, or leave the term out."""
        text = self.tokens[i].text
        if self.tokens[self.words.enclosing(i)].text == "[":
            return
        if text in ("+=", "-="):
            end = i + 1
            while self.tokens[end].text != ";":
                end = self.partner[end] + 1 if self.tokens[end].text in PAIRS else end + 1
            if not self.words.integral(i + 1, end):
                flip = "-=" if text == "+=" else "+="
                start = self.words.statement_begin(i)
                change = f"{self.words.source(start, end)} -> {flip}"
                yield self.site(i, "sign", change, *self.around(i + 1, end, "sign"))
            return
        if not self.words.operand_before(i):
            end = self.words.factor_end(i + 1)
            if not self.words.integral(i + 1, end):
                change = f"-{self.words.source(i + 1, end)} -> {self.words.source(i + 1, end)}"
                minus = self.tokens[i]
                edits = self.around(i + 1, end, "kept")
                drop = (minus.begin, minus.end, "")
                yield self.site(i, "sign", change, drop, *edits)
            return
        end = self.words.product_end(i + 1)
        if self.words.integral(i + 1, end):
            return
        term = self.words.source(i + 1, end)
        flip = "-" if text == "+" else "+"
        yield self.site(
            i, "sign", f"{text} {term} -> {flip} {term}", *self.around(i + 1, end, "sign")
        )
        # a zero that is added is there for the sign of the sum, and left out it is zero again
        if not term.endswith("(0)"):
            yield self.site(i, "drop", f"{text} {term}", *self.around(i + 1, end, "none"))

    def factors(self, i: int) -> Iterator[Site]:
        """Leave a factor out of a product."""
        if not self.words.operand_before(i) or self.tokens[self.words.enclosing(i)].text == "[":
            return
        if self.words.declares_pointer(i):
            return
        end = self.words.factor_end(i + 1)
        if self.words.integral(i + 1, end) or self.words.integral(self.words.chain_begin(i - 1), i):
            return
        factor = self.words.source(i + 1, end)
        yield self.site(i, "factor", f"* {factor}", *self.around(i + 1, end, "one"))

    def calls(self, i: int) -> Iterator[Site]:
        """Swap the operands of a product, the sides of a rotation, or the arms of a choice."""
        if self.tokens[i + 1].text != "(":
            return
        token, end = self.tokens[i], self.partner[i + 1] + 1
        call = self.words.source(i, end)
        args = self.words.arguments(i)
        if token.text == "cross":
            # a cross product that is a whole term has its sign turned already
            if self.tokens[i - 1].text not in ("+", "-", "+=", "-="):
                yield self.site(i, "swap", f"{call} reversed", *self.around(i, end, "sign"))
        elif token.text in ("mul", "mul_transposed"):
            name = "turned" if token.text == "mul" else "unturned"
            edit = (token.begin, token.end, f"fb::mutant::{name}<{{}}>")
            yield self.site(i, "swap", f"{call} transposed", edit)
        elif token.text == "mul_add":
            change = f"{call} -> minus"
            yield self.site(i, "sign", change, *self.around(*args[1], "sign"))
        elif token.text == "select":
            yield self.site(i, "swap", f"{call} arms", *self.around(*args[0], "negated"))

    def numbers(self, i: int) -> Iterator[Site]:
        """Change a constant, or an index that is written out."""
        token, before = self.tokens[i], self.tokens[i - 1].text
        around = self.words.enclosing(i)
        if self.tokens[around].text == "[":
            if (before == "[" and self.tokens[i - 2].text == "dt") or "." in token.text:
                return
            if self.words.is_declarator(around):
                return
            # strides stay
            if self.tokens[i + 1].text == "*" or before in ("*", "%", "/"):
                return
            value = int(token.text)
            change = max(value - 1, 0) if value else 1
            what = self.words.source(self.words.chain_begin(around - 1), self.partner[around] + 1)
            edit = (token.begin, token.end, f"fb::mutant::other<{{}}>({value}, {change})")
            yield self.site(i, "index", f"{what}: {value} -> {change}", edit)
            return
        cast = self.tokens[around - 1].text if self.tokens[around].text == "(" else ""
        if cast not in ("R", "Real<T>", "Real<P>", "h") or float(token.text) == 0:
            return
        value, change = token.text, {"2": "1", "1": "2"}.get(token.text, f"2 * {token.text}")
        edit = (token.begin, token.end, f"fb::mutant::other<{{}}>({value}, {change})")
        what = self.words.source(around - 1, self.partner[around] + 1)
        yield self.site(i, "constant", f"{what}: {value} -> {change}", edit)

    def names(self, i: int) -> Iterator[Site]:
        """Take another component, part, side or frame."""
        token, before, after = self.tokens[i], self.tokens[i - 1].text, self.tokens[i + 1].text
        if before in (".", "->") and after != "(":
            other, kind = MEMBERS.get(token.text), "frame"
            if other is None and after not in ("[", "."):
                other, kind = COMPONENTS.get(token.text), "index"
            if other is None:
                return
            begin = self.words.chain_begin(i)
            at, join = self.tokens[begin].begin, self.tokens[i - 1]
            change = f"{self.words.source(begin, i + 1)} -> {other}"
            taken, given = (f"o{join.text}{name}" for name in (token.text, other))
            parts = f", FB_MUTANT_PART({taken}), FB_MUTANT_PART({given}))"
            edits = (at, at, "fb::mutant::part<{}>("), (join.begin, token.end, parts)
            yield self.site(i, kind, change, *edits)
            return
        if before not in ("(", ",", "+", "-", "*") or after in ("(", "::"):
            return
        if self.tokens[self.words.enclosing(i)].text != "(":
            return
        for pair in (*NAMES, *((b, a) for a, b in NAMES)):
            if token.text != pair[0] or not self.words.declares(pair[1], i):
                continue
            put = f"fb::mutant::either<{{}}>({pair[0]}, {pair[1]})"
            around = self.words.enclosing(i)
            call = self.words.source(around - 1, self.partner[around] + 1)
            change = f"{call}: {pair[0]} -> {pair[1]}"
            yield self.site(i, "frame", change, (token.begin, token.end, put))

    def statements(self, i: int) -> Iterator[Site]:
        """Leave out an assignment that adds or sets, or a call."""
        token = self.tokens[i]
        if token.kind != "name" and token.text != "(":
            return
        if token.text in WORDS or token.text in ("if", "else", "void", "T", "P", "int", "auto"):
            return
        # marks of the profile do nothing
        if token.text == "FB_STAGE":
            return
        if self.tokens[i - 1].text == ")":
            head = self.tokens[self.partner[i - 1] - 1].text
            if head not in ("if", "for", "constexpr"):
                return
        if self.tokens[i - 1].text == "{" and self.tokens[i - 2].text not in (
            ")",
            "else",
            ";",
            "}",
        ):
            return
        # a declaration has two names in a row
        j, assigns, call = i, False, False
        while self.tokens[j].text not in (";", "}"):
            if self.tokens[j].text in PAIRS:
                call = call or (j == i + 1 and self.tokens[j].text == "(")
                j = self.partner[j]
            elif self.tokens[j].text in ("=", "+=", "-="):
                assigns = True
            elif j > i and not assigns and self.tokens[j].kind == "name":
                if self.tokens[j - 1].text not in (".", "->", "?", ":"):
                    return
            elif self.tokens[j].text in ("&", "*", "++", "--") and not assigns:
                return
            j += 1
        if self.tokens[j].text != ";" or not (assigns or call) or token.text in self.words.integers:
            return
        first, last = token.begin, self.tokens[j].end
        edits = (first, first, "{ if (!fb::mutant::on({})) "), (last, last, " }")
        yield self.site(i, "drop", self.words.source(i, j + 1), *edits)


def all_sites(root: Path) -> list[Site]:
    """Return every site of a project: adjoints in core/, and all that drives them in engine/."""
    functions: list[Function] = []
    for header in sorted([*root.glob("core/**/*.hpp"), *root.glob("engine/**/*.hpp")]):
        functions += functions_of(header.relative_to(root).as_posix(), header.read_text())
    inside = {f.name for f in adjoints(functions)}
    # sizes of memory stay
    engine = {(f.file, f.name) for f in functions if f.file.startswith("engine/")}
    engine -= {("engine/jobs/linearize.hpp", "linear_workspace")}
    # solves that the adjoint shares with a tangent stand beside it
    beside = {(f.file, f.name) for f in functions if f.file.endswith("adjoint.hpp")}
    chosen = [f for f in functions if f.name in inside or (f.file, f.name) in engine | beside]
    # overloads share their counts, so that every key is unique
    repeats: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    return [site for f in chosen for site in Finder(f, repeats[f.file, f.name]).sites()]


def draw(sites: list[Site], count: int, seed: int) -> list[Site]:
    """Draw sites: the functions take turns, so that small ones have their share."""
    rng = random.Random(seed)
    queues: dict[tuple[str, str], list[Site]] = defaultdict(list)
    for site in sites:
        queues[site.file, site.function].append(site)
    for queue in queues.values():
        rng.shuffle(queue)
    chosen: set[Site] = set()
    while len(chosen) < min(count, len(sites)):
        for queue in queues.values():
            if queue and len(chosen) < count:
                chosen.add(queue.pop())
    return [site for site in sites if site in chosen]


def guard(text: str, sites: list[tuple[int, Site]]) -> str:
    """Return the text of a header with its sites behind switches.

    Args:
        text: the header.
        sites: its sites, each with the number of its mutant.
    """
    # insertions at one place: those of outer spans come first at a begin, last at an end
    edits: list[tuple[int, int, int, str]] = []
    for number, site in sites:
        span = site.edits[-1][1] - site.edits[0][0]
        for begin, end, put in site.edits:
            edits.append((begin, end, span, put.replace("{}", str(number))))
    opening = [e for e in edits if e[0] == e[1] and not e[3].startswith((")", ",", " }"))]
    closing = [e for e in edits if e[0] == e[1] and e[3].startswith((")", ",", " }"))]
    replaced = [e for e in edits if e[0] < e[1]]
    out, at = [], 0
    places = sorted({e[0] for e in edits})
    for place in places:
        out.append(text[at:place])
        at = place
        for _, _, _, put in sorted((e for e in closing if e[0] == place), key=lambda e: e[2]):
            out.append(put)
        for _, _, _, put in sorted((e for e in opening if e[0] == place), key=lambda e: -e[2]):
            out.append(put)
        for _, end, _, put in (e for e in replaced if e[0] == place):
            out.append(put)
            at = end
    return "".join([*out, text[at:]])
