"""Tests of the package as a whole: light import, public names, the session in the README."""

import subprocess
import sys
from pathlib import Path

import featherback as fb

ROOT = Path(__file__).parents[2]
HEAVY = ("mujoco", "rich", "tyro", "matplotlib", "torch", "jax", "scipy")


def run_python(code: str) -> str:
    """Run code in a new interpreter and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light() -> None:
    """Import nothing heavy, and no layer of our own, with `import featherback`."""
    code = (
        "import sys, featherback\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
        "print(sorted(name for name in sys.modules if name.startswith('featherback')))\n"
    )
    assert run_python(code) == "[]\n['featherback', 'featherback._core']\n"


def test_public_names_resolve() -> None:
    """Resolve every name of __all__, at most 25 of them, and list them in dir()."""
    assert len(fb.__all__) <= 25
    assert dir(fb) == sorted(fb.__all__)
    for name in fb.__all__:
        assert getattr(fb, name) is not None


def test_readme_session_works_as_printed() -> None:
    """Run the session of the README and check what it prints."""
    text = (ROOT / "README.md").read_text()
    session = text.partition("```python\n")[2].partition("```")[0]
    height, gradient, standing = run_python(session).splitlines()
    assert height.startswith("height 0.475 m -> 0.4")
    assert gradient == "gradient (1000, 12)"
    assert standing == "standing: 64 of 64"
