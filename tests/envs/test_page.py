"""docs/environments.md is true: its code runs, its table is that of the tasks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import featherback.envs as envs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")


def test_code_runs() -> None:
    """Run the code of the page as it is printed, in order, with the tutorial's own task."""
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    blocks = PAGE.split("```python\n")[1:]
    code = "\n".join(block.partition("```")[0] for block in blocks)
    more = (
        "\nimport gymnasium\n"
        "assert gymnasium.make('mine/Reach-v0').reset(seed=0)[0].shape == (6,)\n"
        "assert gymnasium.make_vec('mine/Reach-v0', num_envs=2, goal=(0.1, 0.1)).num_envs == 2\n"
    )
    command = [sys.executable, "-c", code + more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(blocks) == 5


def test_table_has_every_task() -> None:
    """Name every task with the sizes of its observation and action."""
    rows = re.findall(r"^\| `(\w+)` \| (\S+)[^|]*\| (\w+) \|", PAGE, re.M)
    assert [name for name, *_ in rows] == list(envs.TASKS)
    for name, seen, taken in rows:
        env = envs.make(name)
        if name != "NLinkPendulum":
            assert env.single_observation_space.shape == (int(seen),)
            assert env.single_action_space.shape == (int(taken),)
