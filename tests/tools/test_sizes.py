"""Tests of tools/check/sizes.py and of the reader of C++."""

from pathlib import Path

from tools.check import cxx, sizes

BODY = "  x += 1;\n" * 70
LIMITS = "the limits are 600 lines a file, 60 a function, 7 arguments"

CXX = f"""\
#define OPEN(x) {{ \\
  more(x) {{
namespace a::b {{
template <class T>
struct Foo {{
  int small(int x) const {{ return x; }}
  void member() {{
{BODY}  }}
}};
enum class Kind {{ one, two }};
inline constexpr int table[] = {{1, 2}};
// a brace in a comment {{ and in "text {{"
template <class T>
T big(const Map<int, T>& x, Options o = {{}},
      int (*f)(int, int), int a[2], int b = g(1, 2), int c = 0, int d = 0,
      int y = 1) {{
  auto f = [&](int z) {{ return z; }};
{BODY}  return f(y) + x;
}}
void after() {{}}
}}  // namespace a::b
"""


def test_finds_cxx_functions() -> None:
    """Find members, templates and short functions with lines and arguments, and nothing else."""
    found = {f.name: (f.last - f.first + 1, f.arguments) for f in cxx.functions(CXX)}
    assert found == {"small": (1, 1), "member": (72, 0), "big": (77, 8), "after": (1, 0)}


def make_tree(root: Path, exceptions: str) -> None:
    """Write a project with one C++ and one Python file that are too large."""
    (root / "docs").mkdir()
    (root / "docs" / "exceptions.md").write_text(exceptions)
    (root / "core").mkdir()
    (root / "core" / "a.hpp").write_text(CXX + "\n" * 500)
    (root / "src").mkdir()
    long = "def long():\n" + "    x = 1\n" * 60
    wide = "def wide(a, b, c, d, e, f, g, h, *, i): ...\n"
    fine = "class C:\n    def fine(self, a, b, c, d, e, f, g): ...\n"
    (root / "src" / "b.py").write_text(long + wide + fine)


def test_names_everything_too_large(tmp_path: Path) -> None:
    """Name files, functions and argument lists beyond the limits."""
    make_tree(tmp_path, "# none\n- `core/a.hpp`: of another list\n")
    lines = len(CXX.splitlines()) + 500
    assert sizes.check_tree(tmp_path) == [
        f"core/a.hpp: has {lines} lines; {LIMITS}: "
        "split it, or add `core/a.hpp` to docs/exceptions.md.",
        f"core/a.hpp:7: member() has 72 lines; {LIMITS}: "
        "split it, or add `core/a.hpp::member` to docs/exceptions.md.",
        f"core/a.hpp:83: big() has 77 lines; {LIMITS}: "
        "split it, or add `core/a.hpp::big` to docs/exceptions.md.",
        f"core/a.hpp:83: big() has 8 arguments; {LIMITS}: "
        "split it, or add `core/a.hpp::big` to docs/exceptions.md.",
        f"src/b.py:1: long() has 61 lines; {LIMITS}: "
        "split it, or add `src/b.py::long` to docs/exceptions.md.",
        f"src/b.py:62: wide() has 8 positional arguments; {LIMITS}: "
        "split it, or add `src/b.py::wide` to docs/exceptions.md.",
    ]


def test_reads_exceptions(tmp_path: Path) -> None:
    """Accept what docs/exceptions.md lists and refuse a line that nothing needs."""
    keys = [
        "core/a.hpp",
        "core/a.hpp::member",
        "core/a.hpp::big",
        "src/b.py::long",
        "src/b.py::wide",
    ]
    lines = [f"- `{key}`: reason" for key in [*keys, "src/b.py::fine"]]
    make_tree(tmp_path, "\n".join(["## Sizes", *lines, "## Other", "- `core/none.hpp`: reason"]))
    assert sizes.check_tree(tmp_path) == [
        "docs/exceptions.md: `src/b.py::fine` needs no exception; remove it."
    ]
