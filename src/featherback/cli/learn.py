"""`featherback learn LEARNER` and `featherback policy FILE`: train a policy, and run one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from featherback.learn import settings as learners
from featherback.learn import train
from featherback.learn.settings import Settings

learn = tyro.extras.SubcommandApp()

# what --help says of each learner, with a command that runs as it stands
ABOUT: dict[type[Settings], tuple[str, str]] = {
    learners.PPO: (
        "Proximal policy optimization: no gradients of the environment are used.",
        "featherback learn ppo --env Ant --contact mujoco --steps 500000 --out runs/ant-ppo",
    ),
    learners.BPTT: (
        "Backpropagation through whole episodes: short tasks without contact.",
        "featherback learn bptt --env NLinkPendulum --options links=3 --steps 100000",
    ),
    learners.SHAC: (
        "Short-horizon actor-critic: gradients over a few steps, and a value behind them.",
        "featherback learn shac --env HalfCheetah --options speed=end --steps 200000",
    ),
    learners.SAC: (
        "Soft actor-critic: learns from all samples so far.",
        "featherback learn sac --env InvertedPendulum --steps 5000",
    ),
    learners.MBPO: (
        "Model-based policy optimization: SAC on samples of learnt dynamics.",
        "featherback learn mbpo --env InvertedPendulum --steps 3000",
    ),
    learners.Enhanced: (
        "SAC or MBPO with first-order samples, gradients of the simulator in the policy, or both.",
        "featherback learn enhanced --env InvertedPendulum --policy-gradient stored --steps 3000",
    ),
}


def run_learner(settings: Settings, out: Path | None, resume: bool) -> None:
    """Train, show progress, and print where the files are."""
    folder = Path("runs") / f"{settings.env.replace(':', '-')}-{settings.learner}"
    folder = folder if out is None else out
    where = f"learn {settings.learner}"
    try:
        trained = train(settings, out=folder, resume=resume, show=True)
    except KeyboardInterrupt:
        print(
            f"featherback: {where}: interrupted; {folder} has the last checkpoint: go on with the "
            "same command and --resume.",
            file=sys.stderr,
        )
        raise SystemExit(130) from None
    last = trained.log[-1]
    rows = {
        "steps": f"{trained.steps:,}",
        "processor time": f"{trained.cpu_seconds:.1f} s",
        "return while training": f"{last['return']:.5g}",
    }
    _print(Console(), rows)
    for what, name in (("policy", "policy.pt"), ("log", "log.csv"), ("state", "checkpoint.pt")):
        Console().print(f"{what}: {folder / name}", highlight=False, soft_wrap=True)


def run_policy_file(file: Path, *, episodes: int, seed: int, where: dict[str, Any]) -> None:
    """Run a policy without noise and print its returns."""
    from featherback.learn import evaluate_file

    returns = evaluate_file(file, episodes=episodes, seed=seed, **where)
    rows = {
        "episodes": str(len(returns)),
        "mean return": f"{np.mean(returns):.5g}",
        "standard deviation": f"{np.std(returns):.4g}",
        "least and largest": f"{np.min(returns):.5g}, {np.max(returns):.5g}",
    }
    _print(Console(), rows)


def _print(console: Console, rows: dict[str, str]) -> None:
    """Print names and values."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)


def _add(kind: type[Settings], text: str, example: str) -> None:
    """Add the command of one learner."""

    def command(settings: Any, out: Any = None, resume: Any = False) -> None:
        run_learner(settings, out, resume)

    folder = tyro.conf.arg(help="folder of its files; runs/ENV-LEARNER")
    again = tyro.conf.arg(help="go on from the checkpoint in that folder, with the same bits")
    command.__annotations__ = {
        "settings": Annotated[kind, tyro.conf.arg(name="")],
        "out": Annotated[Path | None, folder],
        "resume": Annotated[bool, again],
        "return": None,
    }
    command.__doc__ = f"{text}\n\nFor example `{example}`."
    learn.command(name=kind.learner)(command)


for _kind, (_text, _example) in ABOUT.items():
    _add(_kind, _text, _example)
