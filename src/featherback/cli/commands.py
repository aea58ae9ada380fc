"""The commands of `featherback` and their arguments; each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from featherback.cli.learn import learn
from featherback.learn.settings import Contact

Part = Literal["budgets", "tables", "scaling", "stages", "count"]

app = tyro.extras.SubcommandApp()


@app.command
def demo(
    out: Annotated[Path, tyro.conf.arg(help="folder for the recording and the film")] = Path(
        "demo"
    ),
) -> None:
    """Drop a Laikago from 5 cm, let it stand under its servos, and save a film."""
    from featherback.cli.demo import run_demo

    run_demo(out)


@app.command
def run(
    name: Annotated[
        tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help="name of the experiment")
    ],
    quick: Annotated[bool, tyro.conf.arg(help="a run of seconds")] = False,
    full: Annotated[
        bool, tyro.conf.arg(help="the longest run, of hours, where there is one")
    ] = False,
    seed: Annotated[int | None, tyro.conf.arg(help="seed of its random numbers; 0")] = None,
    seeds: Annotated[int | None, tyro.conf.arg(help="run seeds 0 to N - 1; a summary")] = None,
    out: Annotated[Path | None, tyro.conf.arg(help="folder of its files; runs/NAME")] = None,
    resume: Annotated[bool, tyro.conf.arg(help="go on from what a stopped run saved")] = False,
) -> None:
    """Run an experiment: plot, recorded motion, film, and a JSON result with its baseline."""
    from featherback.cli.run import run_experiment

    run_experiment(name, quick=quick, full=full, seed=seed, seeds=seeds, out=out, resume=resume)


@app.command
def experiments() -> None:
    """List the experiments that `featherback run` knows."""
    from featherback.cli.run import list_experiments

    list_experiments()


app.command(learn, name="learn", help="Train a policy; needs featherback[torch,rl].")


@app.command
def policy(
    file: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE", help="policy.pt of a learner")
    ],
    episodes: Annotated[int, tyro.conf.arg(help="episodes, one in each world")] = 8,
    seed: Annotated[int, tyro.conf.arg(help="seed of their starts")] = 0,
    env: Annotated[
        str | None, tyro.conf.arg(help="another environment; gym:ID is one of gymnasium's own")
    ] = None,
    contact: Annotated[Contact | None, tyro.conf.arg(help="another contact law")] = None,
    options: Annotated[
        tuple[str, ...], tyro.conf.arg(help="options of another environment, as name=value")
    ] = (),
) -> None:
    """Run a policy that a learner saved, without noise, and print its returns.

    For example `featherback policy runs/ant-ppo/policy.pt --episodes 16 --contact hard`.
    """
    from featherback.cli.learn import run_policy_file

    where = {"env": env, "contact": contact, "options": options or None}
    run_policy_file(file, episodes=episodes, seed=seed, where=where)


@app.command
def bench(
    quick: Annotated[bool, tyro.conf.arg(help="rough figures in a few minutes")] = False,
    only: Annotated[
        tyro.conf.UseAppendAction[tuple[Part, ...]],
        tyro.conf.arg(help="one part; may be given again; all parts when it is not given"),
    ] = (),
    out: Annotated[Path, tyro.conf.arg(help="folder for JSON, Markdown, PNG")] = Path(
        "results/bench"
    ),
    docs: Annotated[bool, tyro.conf.arg(help="also renew docs/ and the stored figures")] = False,
) -> None:
    """Measure speed and memory against MuJoCo and autodiff tools; needs a source checkout.

    For example `featherback bench --quick --only budgets --only count`, or, for all figures and
    the pages of docs/, `featherback bench --out results/bench --docs`.
    """
    from featherback.cli.bench import run_bench

    run_bench(quick=quick, only=list(only), out=out, docs=docs)


@app.command
def doctor() -> None:
    """Print versions, instruction set and cores: what a bug report should contain."""
    from featherback.cli.doctor import run_doctor

    run_doctor()
