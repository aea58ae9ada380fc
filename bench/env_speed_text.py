"""The Markdown table of bench/env_speed.py, from its JSON file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mujoco_law_text import figure, put_between, table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "environments.md"
MARK = "bench/env_speed.py"
HEAD = (
    "| task | ours | float32 | Euler | lean | hard | hard, float32 | EnvPool | Gymnasium |"
    " MuJoCo's rollout | Euler | ours / EnvPool | float32 / EnvPool | hard / EnvPool |"
    " hard, float32 / EnvPool |"
)
COLUMNS = (
    *("ours", "float32", "euler", "lean", "hard", "hard_float32"),
    *("envpool", "gymnasium", "rollout", "rollout_euler"),
)
RATIOS = ("ours", "float32", "hard", "hard_float32")


def text(result: dict[str, Any]) -> str:
    """Return the table and where its figures come from."""
    lines: list[list[Any]] = []
    for name, rates in result["tasks"].items():
        cells = [figure(rates[k] / 1000.0) if k in rates else "" for k in COLUMNS]
        ratios = [
            f"{figure(rates[k] / rates['envpool'])}x" if "envpool" in rates and k in rates else ""
            for k in RATIOS
        ]
        lines.append([name, *cells, *ratios])
    facts = result["facts"]
    commit = (facts["commit"] or "no commit")[:10]
    load = f", load average {facts['load'][0]:.1f}" if facts.get("load") else ""
    origin = (
        f"Thousands of steps for one second of one core, {result['worlds']} worlds (Gymnasium: 8). "
        f"featherback {commit} ({facts['isa']}), MuJoCo {facts['mujoco']}, {facts['processor']}"
        f"{load}."
    )
    return "\n".join([*table(HEAD, lines), origin, ""])


def put_table(result: dict[str, Any]) -> None:
    """Put the table into the page."""
    put_between(PAGE, MARK, text(result))
