"""The commands `featherback learn` and `featherback policy`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("gymnasium")

from featherback.cli.learn import ABOUT
from featherback.cli.main import main
from featherback.learn.settings import Settings

SMALL = {"ppo": 2048, "bptt": 3200, "shac": 512, "sac": 120, "mbpo": 120, "enhanced": 120}
SHORT = ["--rollout", "5", "--warmup", "40"]
MORE = {"sac": SHORT, "mbpo": SHORT, "enhanced": SHORT}


# torch's own, where its forward mode begins
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("kind", ABOUT, ids=lambda kind: kind.learner)
def test_the_example_of_the_help_runs(
    kind: type[Settings], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the command that --help prints, with fewer steps, and run the policy it leaves."""
    with pytest.raises(SystemExit) as caught:
        main(["learn", kind.learner, "--help"])
    assert caught.value.code == 0
    example = ABOUT[kind][1]
    assert "".join(example.split()) in "".join(capsys.readouterr().out.split())
    words = shlex.split(example)[1:]
    steps = ["--steps", str(SMALL[kind.learner]), "--out", str(tmp_path)]
    main([*words, *steps, *MORE.get(kind.learner, [])])
    printed = capsys.readouterr().out
    for name in ("policy.pt", "log.csv", "checkpoint.pt"):
        assert str(tmp_path / name) in printed
        assert (tmp_path / name).exists()
    main(["policy", str(tmp_path / "policy.pt"), "--episodes", "2"])
    assert "mean return" in capsys.readouterr().out


def test_ctrl_c_leaves_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leave with status 130 and say how to go on."""
    from featherback.learn import ppo

    def interrupt(self: ppo.Learner) -> dict[str, float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(ppo.Learner, "iterate", interrupt)
    with pytest.raises(SystemExit) as caught:
        main(["learn", "ppo", "--env", "Hopper", "--worlds", "2", "--out", str(tmp_path)])
    assert caught.value.code == 130
    assert "--resume" in capsys.readouterr().err
