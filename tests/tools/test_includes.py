"""Tests of tools/check/includes.py."""

from pathlib import Path

from tools.check import includes


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files given by their path and return the root."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_accepts_what_lies_below(tmp_path: Path) -> None:
    """Accept the standard library, intrinsics, the own layer, and layers below at any distance."""
    files = {
        "core/number/scalar.hpp": "#include <cmath>\n#include <immintrin.h>\n",
        "core/dynamics/spatial.hpp": '#include "core/number/scalar.hpp"\n',
        "core/collision/box.hpp": '#  include "core/dynamics/spatial.hpp"\n',
        "core/collision/pairs.hpp": '#include "core/collision/box.hpp"\n',
        "engine/jobs/rollout.hpp": '#include "core/collision/pairs.hpp"\n#include <unistd.h>\n',
        "bindings/python.cpp": '#include <nanobind/nanobind.h>\n#include "xla/ffi/api/ffi.h"\n',
        "tests/native/oracle.cpp": '#include "engine/jobs/rollout.hpp"\n',
    }
    assert includes.check_tree(write(tmp_path, files)) == []


def test_refuses_what_lies_above_or_aside(tmp_path: Path) -> None:
    """Refuse an include against the layers, and say what is allowed."""
    files = {
        "core/number/scalar.hpp": "",
        "core/dynamics/spatial.hpp": "",
        "core/number/lane.hpp": '\n#include "core/dynamics/spatial.hpp"\n',
        "core/solver/pgs.hpp": '#include "core/dynamics/spatial.hpp"\n',
        "core/step.hpp": '#include "engine/state.hpp"\n',
        "engine/state.hpp": "",
    }
    remedy = "move the code or edit KNOWS in tools/check/includes.py."
    problems = includes.check_tree(write(tmp_path, files))
    assert problems[:2] == [
        'core/number/lane.hpp:2: #include "core/dynamics/spatial.hpp": '
        f"core/number/* may know no other layer; {remedy}",
        'core/solver/pgs.hpp:1: #include "core/dynamics/spatial.hpp": '
        f"core/solver/* may know core/number/*, core/model/schema.hpp; {remedy}",
    ]
    assert problems[2].startswith(
        'core/step.hpp:1: #include "engine/state.hpp": core/step*.hpp may'
    )
    assert len(problems) == 3


def test_refuses_foreign_and_missing_headers(tmp_path: Path) -> None:
    """Refuse Python outside the bindings, the system in the core, and paths that lead nowhere."""
    files = {
        "core/number/scalar.hpp": "#include <Python.h>\n#include <unistd.h>\n",
        "core/number/lane.hpp": '#include "scalar.hpp"\n#include "core/number/none.hpp"\n',
        "core/novel.hpp": "",
        "engine/engine.hpp": "#include <nanobind/nanobind.h>\n",
    }
    remedy = "move the code or edit KNOWS in tools/check/includes.py."
    nowhere = "there is no such header; name it by its path from the root."
    assert includes.check_tree(write(tmp_path, files)) == [
        "core/novel.hpp: has no layer in KNOWS of tools/check/includes.py; add one.",
        f'core/number/lane.hpp:1: #include "scalar.hpp": {nowhere}',
        f'core/number/lane.hpp:2: #include "core/number/none.hpp": {nowhere}',
        "core/number/scalar.hpp:1: #include <Python.h>: "
        f"core/number/* may not know Python or a bridge; {remedy}",
        "core/number/scalar.hpp:2: #include <unistd.h>: "
        "only the C++ standard library and our own headers are allowed; remove it.",
        "engine/engine.hpp:1: #include <nanobind/nanobind.h>: "
        f"engine/* may not know Python or a bridge; {remedy}",
    ]


def test_refuses_cycles(tmp_path: Path) -> None:
    """Name the ring of headers of one layer that include each other."""
    files = {
        "core/model/a.hpp": '#include "core/model/b.hpp"\n',
        "core/model/b.hpp": '#include "core/model/c.hpp"\n',
        "core/model/c.hpp": '#include "core/model/b.hpp"\n',
    }
    assert includes.check_tree(write(tmp_path, files)) == [
        "core/model/b.hpp: includes itself: "
        "core/model/b.hpp -> core/model/c.hpp -> core/model/b.hpp; break the cycle."
    ]


def test_layers_have_no_cycles() -> None:
    """Keep the table itself free of cycles."""
    for layer in includes.KNOWS:
        assert layer not in includes.reachable(layer)
