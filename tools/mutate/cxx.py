"""As much of C++ as tools/mutate/sites.py must read: words, functions, operands, statements."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|^\s*\#[^\n]*)
    |(?P<name>[A-Za-z_]\w*(?:<(?:const\s+)?(?:Real<)?[TPSR]>?(?:,\s*(?:const\s+)?[TPSR])*>|<[I\d]>)?)
    |(?P<number>\d[\w.]*(?:(?<=e)-\d+)?)
    |(?P<sign>->|::|\+\+|--|[-+*/&|<>=!]=|&&|\|\||.)""",
    re.VERBOSE | re.MULTILINE,
)
FUNCTION = re.compile(r"^FB_(?:FN|INLINE|OUTLINE)\s+(?!constexpr)[^;{}()]*?\b(\w+)\(", re.MULTILINE)
PAIRS = {"(": ")", "[": "]", "{": "}"}
STOPS = {",", ";", ")", "]", "}", "?", ":", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "&", "|"}
STOPS |= {"=", "+=", "-=", "*=", "/="}
WORDS = {"return", "if", "else", "for", "while", "const", "case", "using", "constexpr", "static"}
# members of integer tables and blocks
COUNTS = {"row", "rows", "start", "source", "linkA", "linkB", "nrow", "nisland", "island_row"}


@dataclass(frozen=True)
class Token:
    """A word of C++, template arguments included, and where it stands in its file."""

    kind: str
    text: str
    begin: int
    end: int


@dataclass(frozen=True)
class Function:
    """A function of core/: its name and its tokens, from the argument list to the last brace."""

    name: str
    file: str
    tokens: tuple[Token, ...]
    body: int
    text: str


def tokens_of(text: str) -> list[Token]:
    """Split C++ into words; comments, white space and lines of the preprocessor are left out."""
    found: list[Token] = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind != "skip":
            found.append(Token(kind, match.group(), match.start(), match.end()))
    return found


def matching(tokens: list[Token] | tuple[Token, ...]) -> dict[int, int]:
    """Return, for each bracket's index, that of its partner."""
    partner: dict[int, int] = {}
    open_: list[int] = []
    for i, token in enumerate(tokens):
        if token.text in PAIRS:
            open_.append(i)
        elif token.text in PAIRS.values():
            j = open_.pop()
            partner[i], partner[j] = j, i
    return partner


def functions_of(file: str, text: str) -> list[Function]:
    """Return the functions of a header."""
    tokens = tokens_of(text)
    partner = matching(tokens)
    at = {token.begin: i for i, token in enumerate(tokens)}
    found: list[Function] = []
    for match in FUNCTION.finditer(text):
        begin = at[match.end(1)]
        body = partner[begin] + 1
        if tokens[body].text != "{":
            continue
        end = partner[body] + 1
        found.append(Function(match.group(1), file, tuple(tokens[begin:end]), body - begin, text))
    return found


def adjoints(functions: list[Function]) -> list[Function]:
    """Return the adjoints, and the functions that are called by nothing else."""
    callers: dict[str, set[str]] = defaultdict(set)
    names = {f.name for f in functions}
    for f in functions:
        for token in f.tokens[f.body :]:
            called = token.text.split("<")[0]
            if called in names and called != f.name:
                callers[called].add(f.name)
    inside = {name for name in names if name.endswith("_adjoint")}
    forwards = {name for name in names if f"{name}_adjoint" in inside}
    while True:
        more = {n for n in names - inside - forwards if callers[n] and callers[n] <= inside}
        if not more:
            return [f for f in functions if f.name in inside]
        inside |= more


class Words:
    """The words of one function: brackets, operands, statements."""

    def __init__(self, function: Function) -> None:
        """Look at the brackets, integers and loop heads of a function once."""
        self.f = function
        self.tokens = function.tokens
        self.partner = matching(self.tokens)
        self.integers = self._integers()
        self.closed = self._closed()

    def _integers(self) -> set[str]:
        """Return the names declared as integers."""
        found: set[str] = set()
        for i, token in enumerate(self.tokens):
            if token.text not in ("int", "size_t"):
                continue
            j = i + 1
            while self.tokens[j].text not in (";", ")", "{", ":"):
                if self.tokens[j].text in "([":
                    j = self.partner[j]
                elif self.tokens[j].kind == "name" and self.tokens[j - 1].text in (
                    "int",
                    "size_t",
                    ",",
                    "&",
                ):
                    found.add(self.tokens[j].text)
                j += 1
                if self.tokens[j - 1].text == "," and self.tokens[j].text in ("const", "T"):
                    break
        return found

    def _closed(self) -> set[int]:
        """Return the indices where nothing is mutated: arguments, loop heads, what types decide."""
        closed = set(range(self.f.body))
        for i, token in enumerate(self.tokens):
            if i <= self.f.body:
                continue
            j = i + 1
            if token.text == "for" or (token.text == "constexpr" and self.tokens[j].text == "("):
                j = self.partner[j]
            elif token.text == "requires":
                while self.tokens[j].text != "{":
                    j = self.partner[j] + 1
                j = self.partner[j]
            elif token.text in ("constexpr", "using", "static"):
                while self.tokens[j].text not in ";{":
                    j += 1
            else:
                continue
            closed |= set(range(i, j + 1))
        return closed

    def operand_before(self, i: int) -> bool:
        """Tell whether the token before i ends an operand, so that a sign at i is binary."""
        last = self.tokens[i - 1]
        if last.text in WORDS:
            return False
        return last.kind in ("name", "number") or last.text in (")", "]", "}")

    def product_end(self, i: int) -> int:
        """Return the index after the product that starts at i."""
        j = i
        if self.tokens[j].text in ("-", "!"):
            j += 1
        while True:
            text = self.tokens[j].text
            if text in PAIRS:
                j = self.partner[j] + 1
                continue
            if text in STOPS or (text in ("+", "-") and self.operand_before(j)):
                return j
            j += 1

    def factor_end(self, i: int) -> int:
        """Return the index after the factor that starts at i: a name with calls and members."""
        j = i
        if self.tokens[j].text == "-":
            j += 1
        while True:
            text = self.tokens[j].text
            if text in PAIRS:
                j = self.partner[j] + 1
                continue
            if text in STOPS or text in ("+", "-", "*", "/"):
                return j
            j += 1

    def chain_begin(self, i: int) -> int:
        """Return the index at which the chain of members that ends at i begins."""
        j = i
        while self.tokens[j - 1].text in (".", "->", "::"):
            j -= 2
            while self.tokens[j].text in (")", "]"):
                j = self.partner[j] - 1
        return j

    def enclosing(self, i: int) -> int:
        """Return the index of the bracket around i."""
        j = i - 1
        while self.tokens[j].text not in PAIRS:
            j = self.partner[j] - 1 if self.tokens[j].text in PAIRS.values() else j - 1
        return j

    def integral(self, begin: int, end: int) -> bool:
        """Tell whether all names and numbers of an operand are integers."""
        j = begin
        while j < end:
            token = self.tokens[j]
            if token.kind == "number" and "." in token.text:
                return False
            if token.kind == "name" and token.text not in ("s", "m"):
                member = self.tokens[j - 1].text in (".", "->")
                table = member and (self.tokens[j - 2].text == "s" or token.text in COUNTS)
                owner = self.tokens[j + 1].text == "." and self.tokens[j + 2].text in COUNTS
                if not (table or owner or token.text in self.integers):
                    return False
            if token.text == "[":
                j = self.partner[j]
            j += 1
        return True

    def source(self, begin: int, end: int) -> str:
        """Return the text of tokens [begin, end) on one line."""
        return " ".join(self.f.text[self.tokens[begin].begin : self.tokens[end - 1].end].split())

    def statement_begin(self, i: int) -> int:
        """Return the index at which the statement that holds token i begins."""
        j = i
        while self.tokens[j - 1].text not in (";", "{", "}", "else"):
            if self.tokens[j - 1].text in (")", "]"):
                k = self.partner[j - 1]
                if self.tokens[k - 1].text in ("for", "if", "constexpr"):
                    return j
                j = k
            else:
                j -= 1
        return j

    def arguments(self, i: int) -> list[tuple[int, int]]:
        """Return (begin, end) of each argument of the call whose name is token i."""
        j, last = i + 2, self.partner[i + 1]
        found, begin = [], i + 2
        while j < last:
            if self.tokens[j].text in PAIRS:
                j = self.partner[j]
            elif self.tokens[j].text == ",":
                found.append((begin, j))
                begin = j + 1
            j += 1
        return [*found, (begin, last)]

    def is_declarator(self, bracket: int) -> bool:
        """Tell whether a bracket gives the size of an array that is declared, or may do so."""
        while self.tokens[bracket - 1].text == "]":
            bracket = self.partner[bracket - 1]
        before = self.tokens[bracket - 2]
        in_block = self.tokens[self.enclosing(bracket)].text == "{"
        return (
            (before.kind == "name" and before.text not in WORDS - {"const"})
            or (before.text == "," and in_block)
            or self.declares_pointer(bracket - 2)
        )

    def declares_pointer(self, i: int) -> bool:
        """Tell whether token i declares a pointer: the sign of a product has spaces around it."""
        token, text = self.tokens[i], self.f.text
        spaced = text[token.begin - 1].isspace() and text[token.end].isspace()
        return token.text == "*" and not spaced

    def declares(self, name: str, i: int) -> bool:
        """Tell whether an argument, or a variable of a block around i, has this name."""
        blocks, j = set(), i
        while j > self.f.body:
            j = self.enclosing(j)
            blocks.add(j)
        for d in range(1, i):
            token, before, after = (self.tokens[k] for k in (d, d - 1, d + 1))
            typed = before.kind == "name" and before.text not in WORDS
            if token.text != name or not (typed or before.text in ("&", "*", ",")):
                continue
            if d < self.f.body and after.text in (",", ")"):
                return True
            # loop heads and the arguments of lambdas are not blocks
            if after.text in ("=", "{", ";", ",", "[") and d > self.f.body:
                if d not in self.closed and self.enclosing(d) in blocks:
                    if self.tokens[self.enclosing(d)].text == "{":
                        return True
        return False
