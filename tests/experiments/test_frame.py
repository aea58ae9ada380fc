"""The frame of the experiments: files, traces, saved state, resuming, and what they refuse."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import featherback as fb
from featherback.cli.main import main
from featherback.errors import FeatherbackError, ParameterError
from featherback.experiments import (
    Claim,
    Context,
    Recording,
    Result,
    Trace,
    names,
    registry,
    run,
    run_seeds,
    runner,
)
from featherback.experiments import context as context_module
from featherback.experiments.files import load_arrays, save_arrays, write_bytes
from featherback.experiments.film import make_film
from featherback.experiments.result import plain, write_json
from tests.control.helpers import FILTERED, push
from tests.experiments.problems import bowl_experiment
from tests.golden.sentences import refused

needs_plots = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)
pytestmark = needs_plots


def use(monkeypatch: pytest.MonkeyPatch, experiment: SimpleNamespace) -> None:
    """Make `run` find this experiment under the name bowl."""
    monkeypatch.setattr(runner, "find", lambda name: registry.Named(name, experiment))


def numbers(content: dict[str, dict[str, object]]) -> list[object]:
    """Return the losses and evaluations of both methods."""
    return [
        content[which][key]
        for which in ("ours", "baseline")
        for key in ("loss", "evaluations_per_iteration")
    ]


def test_a_result_has_what_readers_look_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Write name, seed, versions, both traces, figures, claims and the plot."""
    pytest.importorskip("scipy")
    pytest.importorskip("cma")
    use(monkeypatch, bowl_experiment())
    content = run("bowl", seed=3, out=tmp_path, show=False)
    read = json.loads((tmp_path / "bowl.json").read_text())
    assert read["name"] == "bowl"
    assert read["seed"] == 3
    assert read["finished"] is True
    assert read["versions"]["featherback"] == fb.__version__
    assert read["versions"]["numpy"] == np.__version__
    for which in ("ours", "baseline"):
        trace = read[which]
        assert len(trace["loss"]) == len(trace["seconds"]) > 1
        assert trace["evaluations"] == sum(trace["evaluations_per_iteration"])
        assert np.all(np.diff(trace["loss"]) <= 0.0)
    assert read["ours"]["evaluations"] <= 12
    assert len(read["baseline"]["loss"]) == 16
    assert read["claims"] == [{"claim": "it works", "value": 1.0, "holds": True}]
    assert read["figures"] == {"loss": content["figures"]["loss"]}
    assert (tmp_path / read["files"]["plot"]).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("stop", [4, 20])
def test_a_stopped_run_resumes_to_the_same_numbers(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Save on Ctrl-C in either method; a resumed run has the numbers of one that never stopped."""
    pytest.importorskip("scipy")
    pytest.importorskip("cma")
    use(monkeypatch, bowl_experiment())
    whole = run("bowl", out=tmp_path / "whole", show=False)
    use(monkeypatch, bowl_experiment(stop))
    with pytest.raises(KeyboardInterrupt):
        run("bowl", out=tmp_path / "cut", show=False)
    partial = json.loads((tmp_path / "cut" / "bowl.json").read_text())
    assert partial["finished"] is False
    assert partial["claims"] == []
    done = len(partial["ours"]["loss"])
    assert partial["ours"]["loss"] == whole["ours"]["loss"][:done]
    use(monkeypatch, bowl_experiment())
    again = run("bowl", out=tmp_path / "cut", resume=True, show=False)
    assert numbers(again) == numbers(whole)
    # what was measured before the stop is kept
    assert again["ours"]["seconds"][:done] == partial["ours"]["seconds"]


def test_ctrl_c_leaves_with_130_and_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Say where the run was saved and how to go on, and leave with status 130."""
    pytest.importorskip("scipy")
    use(monkeypatch, bowl_experiment(4))
    with pytest.raises(SystemExit) as caught:
        main(["run", "bowl", "--out", str(tmp_path)])
    assert caught.value.code == 130
    assert capsys.readouterr().err.endswith(
        f"featherback: run bowl: interrupted; what there is was saved in {tmp_path}: go on with "
        "the same command and --resume.\n"
    )


def test_a_trace_checks_what_it_walks_over() -> None:
    """Refuse a resumed iteration with another loss, and skip for methods with their own state."""
    trace = Trace("bowl", [3.0, 2.0], [0.1, 0.2], [1, 2])
    trace.add(3.0)
    refused(lambda: trace.add(2.5), ParameterError, "iteration 1", "2.5", "2.0")
    trace.skip()
    trace.add(1.0, 5)
    assert trace.loss == [3.0, 2.0, 1.0]
    assert trace.evaluations_until(2.0) == 3
    assert trace.seconds_until(2.0) == pytest.approx(0.3)
    assert trace.first_below(0.5) is None
    assert trace.total_evaluations == 8


def test_seeds_are_summarised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give median and spread of each figure, and count in how many seeds a claim holds."""

    def go(context: Context) -> Result:
        trace = context.trace("ours", "none")
        trace.add(1.0 + context.seed)
        loss = float(context.seed)
        return Result(trace, None, {"loss": loss}, [Claim("small", loss, loss < 2.0)])

    use(monkeypatch, SimpleNamespace(SUMMARY="seeds", run=go))
    summary = run_seeds("bowl", 5, out=tmp_path, show=False)
    assert summary == json.loads((tmp_path / "bowl-seeds.json").read_text())
    wanted = {"values": [0.0, 1.0, 2.0, 3.0, 4.0], "median": 2.0, "min": 0.0, "max": 4.0}
    assert summary["figures"]["loss"] == wanted
    assert summary["claims"] == [{"claim": "small", "holds": 2, "of": 5, **wanted}]
    assert (tmp_path / "seed4" / "bowl.json").exists()


def test_every_experiment_is_listed_and_says_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """List the experiments without importing them; each has a summary and a run function."""
    main(["experiments"])
    assert capsys.readouterr().out.split() == names()
    assert {"throw", "golf"} <= set(names())
    for name in ("throw", "golf"):
        module = registry.find(name).module
        assert module.SUMMARY
        assert callable(module.run)


def test_json_holds_no_nan(tmp_path: Path) -> None:
    """Write null for what is not finite, and Python's numbers for NumPy's."""
    content = {"a": np.float64(1.5), "b": float("nan"), "c": [np.int64(2), np.inf], 3: np.zeros(2)}
    assert plain(content) == {"a": 1.5, "b": None, "c": [2, None], "3": [0.0, 0.0]}
    path = write_json(tmp_path / "x.json", content)
    assert json.loads(path.read_text())["c"] == [2, None]


def test_files_are_whole_or_not_there(tmp_path: Path) -> None:
    """Leave the old file and no litter where writing fails, and say so."""
    path = tmp_path / "old.npz"
    save_arrays(path, {"a": np.arange(3)})
    objects = {"a": np.array([object()])}
    refused(lambda: save_arrays(path, objects), FeatherbackError, str(path), '"a"')
    assert load_arrays(path)["a"].tolist() == [0, 1, 2]
    (tmp_path / "file").write_text("in the way")
    inside = tmp_path / "file" / "new.npz"
    refused(lambda: write_bytes(inside, b"x"), FeatherbackError, str(inside))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "old.npz"]


def motion() -> Recording:
    """Return a ball that falls."""
    model = fb.models.ball()
    q = model.q0.copy()
    q[2] = 0.5
    roll = fb.Simulator(model, dt=0.01).rollout(q, model.v0, steps=60)
    return Recording(
        xml=fb.models.ball_xml(),
        dt=0.01,
        q=np.asarray(roll.q),
        v=np.asarray(roll.v),
        u=np.zeros((60, 0)),
        target=np.array([[0.0, 0.0, 0.1]]),
        camera=np.array([0.0, 0.0, 0.3, 2.0, 120.0, -15.0]),
    )


def test_a_recording_comes_back_and_a_damaged_one_does_not(tmp_path: Path) -> None:
    """Read back every bit; refuse what is cut short, damaged or something else."""
    path = motion().save(tmp_path / "m.npz")
    back, wanted = Recording.load(path), motion()
    assert back.xml == wanted.xml
    assert back.steps == 60
    for name in ("q", "v", "u", "target", "camera"):
        assert np.array_equal(getattr(back, name), getattr(wanted, name))
    whole = path.read_bytes()
    bare = io.BytesIO()
    np.save(bare, np.zeros(3))
    # the first array's compressed bits stand behind a header of 30 bytes and its name
    wrong = whole[:60] + bytes(255 - bit for bit in whole[60:70]) + whole[70:]
    # in the list at the archive's end the ninth byte of an entry says that it is encrypted
    flags = whole.index(b"PK\x01\x02") + 8
    locked = whole[:flags] + b"\x01" + whole[flags + 1 :]
    odd = (whole[: len(whole) // 2], b"", b"not an archive", bare.getvalue(), wrong, locked)
    for damaged in odd:
        path.write_bytes(damaged)
        refused(lambda: Recording.load(path), FeatherbackError, f"{path}: not a complete archive")


def test_a_recording_has_activations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store activations where there are any, so that the motion can be run again from any row."""
    monkeypatch.setattr(context_module, "make_film", lambda path: (None, None))
    sim, u = push().sim, np.ones((5, 1))
    roll = sim.rollout([0.0], [0.0], u, act=[0.3])
    here = Context("push", 0, True, tmp_path, show=False)
    here.record(FILTERED, {"q": roll.q, "v": roll.v, "u": u, "act": roll.act}, dt=sim.dt)
    back = Recording.load(here.files["recording"])
    assert back.act is not None
    again = sim.rollout(back.q[2], back.v[2], back.u[2:], act=back.act[2])
    assert np.array_equal(again.q[-1], roll.q[-1])
    assert Recording.load(motion().save(tmp_path / "m.npz")).act is None


def test_a_film_or_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a GIF where there is GL; where there is none, name what to install."""
    pytest.importorskip("PIL")
    path = motion().save(tmp_path / "m.npz")
    film, reason = make_film(path)
    if reason is None:
        assert film == tmp_path / "m.gif"
        assert film.read_bytes().startswith(b"GIF8")
    else:
        assert film is None
    monkeypatch.setenv("MUJOCO_GL", "disable")
    (tmp_path / "m.gif").unlink(missing_ok=True)
    film, reason = make_film(path)
    assert film is None and not (tmp_path / "m.gif").exists()
    assert reason is not None
    assert reason.startswith("m.gif was not made, because MuJoCo's renderer failed (")
    assert "libegl1" in reason and "libosmesa6" in reason


def test_a_run_without_a_film_has_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the recording and note the reason where no film can be made."""
    monkeypatch.setattr(context_module, "make_film", lambda path: (None, "no film today."))
    here = Context("bowl", 0, True, tmp_path, show=False)
    kept = motion()
    here.record(kept.xml, {"q": kept.q, "v": kept.v, "u": kept.u}, dt=kept.dt)
    assert sorted(here.files) == ["recording"]
    assert here.notes == ["no film today."]
