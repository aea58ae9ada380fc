"""The JAX bridge as a package: light import, missing JAX, documentation, example, benchmark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.jax.helpers import jax

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    """Run Python in a process of its own, warnings as errors, and return what it prints."""
    command = (sys.executable, "-W", "error", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_featherback_does_not_import_jax() -> None:
    """Leave JAX alone until featherback.jax is asked for, whatever else is used."""
    code = (
        "import sys, featherback as fb\n"
        "sim = fb.Simulator(fb.models.pendulum(2))\n"
        "sim.rollout([0, 1], [0, 0], steps=3).vjp([[1, 1]] * 4)\n"
        "print([x for x in ('jax', 'jaxlib', 'featherback.jax') if x in sys.modules])"
    )
    assert run("-c", code) == "[]\n"


def test_import_starts_no_backend() -> None:
    """Leave JAX's platforms to be chosen after the import."""
    code = (
        "import jax, featherback.jax\n"
        "from jax.extend.backend import backends\n"
        "jax.config.update('jax_platforms', 'cpu')\n"
        "print(list(backends()))"
    )
    assert run("-c", code) == "['cpu']\n"


DEVICES = """
import jax, numpy as np, featherback as fb, featherback.jax as fbj
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 2)
sim = fb.Simulator(fb.models.pendulum(2))
q, u, mass = np.ones((4, 2)), np.ones((4, 5, 2)), sim.params["body_mass"]
want = sim.rollout(q, q, u, params={"body_mass": mass})
bar = want.vjp(np.ones_like(want.q)).params["body_mass"]
run = lambda q, u, mass: fbj.rollout(sim, q, q, u, {"body_mass": mass}).q
mesh = jax.make_mesh((2,), ("worlds",), axis_types=(AxisType.Auto,))
there = NamedSharding(mesh, P("worlds"))
spread = jax.jit(run)(jax.device_put(q, there), jax.device_put(u, there), mass)
specs = dict(mesh=mesh, in_specs=(P("worlds"), P("worlds"), P()), out_specs=P("worlds"))
both = jax.shard_map(run, check_vma=False, **specs)
print(np.array_equal(spread, want.q), np.array_equal(both(q, u, mass), want.q))
got = jax.grad(lambda mass: both(q, u, mass).sum())(mass)
print(np.max(np.abs(got - bar)) < 1e-12)
try:
    jax.shard_map(run, **specs)(q, u, mass)
except NotImplementedError as error:
    print("check_vma=False" in str(error))
"""


def test_several_devices() -> None:
    """Run worlds on two CPU devices at once, and refuse what would lose a gradient."""
    assert run("-c", DEVICES).splitlines() == [
        "True True",
        "True",
        "True",
    ]


CACHE = """
import sys, jax, numpy as np, featherback as fb, featherback.jax as fbj
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
sim = fb.Simulator(fb.models.pendulum(2), dt=float(sys.argv[2]))
got = jax.jit(lambda q: fbj.step(sim, q, q)[0])(np.ones(2))
print(np.array_equal(got, sim.step(np.ones(2), np.ones(2))[0]))
print(hits.count("/jax/compilation_cache/cache_hits") > 0)
"""


def test_compiled_functions_may_be_kept_on_disk(tmp_path: Path) -> None:
    """Take a compiled function from JAX's cache in another process, of the same simulator only."""
    runs = [run("-c", CACHE, str(tmp_path), dt).split() for dt in ("0.001", "0.001", "0.002")]
    assert runs == [["True", "False"], ["True", "True"], ["True", "False"]]


def test_page_works_as_printed(tmp_path: Path) -> None:
    """Run the code of docs/jax.md."""
    page = (ROOT / "docs" / "jax.md").read_text()
    blocks = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    (tmp_path / "page.py").write_text("\n".join(blocks))
    assert run(str(tmp_path / "page.py")).splitlines() == [
        "(100, 1)",
        "(1, 4)",
        "(2, 3) (2, 3)",
        "(8, 2)",
        "(3, 100, 1)",
    ]


def test_example_swings_up() -> None:
    """Run the example, which asserts its own result, and keep it within sixty lines."""
    path = ROOT / "examples" / "jax_double_pendulum.py"
    assert len(path.read_text().splitlines()) <= 60
    assert run(str(path)).splitlines()[-1].startswith("at 2.5 s: 0.0")


def test_benchmark_reports_the_cost_of_a_call() -> None:
    """Print one row for each model, and versions."""
    lines = run(str(ROOT / "bench" / "jax_bridge.py"), "--quick").splitlines()
    assert lines[0].startswith(f"jax {jax.__version__}, featherback ")
    assert [line.split()[0] for line in lines[2::2]] == ["pendulum", "laikago"]
    assert all(line.split()[-1] == "5.0" for line in lines[2::2])
