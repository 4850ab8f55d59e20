"""`unbounded study` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.failing import Capture, failing
from tests.studies.tiny_study import TINY, tiny, trials, write
from unbounded.cli import main
from unbounded.experiments.trials.claims import newest_claims


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reports(folder: str = "studies/mine") -> list[str]:
    return sorted(path.parent.name for path in Path(folder, "runs").glob("*/report.json"))


def test_a_study_from_its_plan_to_its_table(capsys: Capture) -> None:
    write(Path("mine.yaml"))
    assert main(["study", "mine.yaml", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "mine: tiny runs" in out
    assert "4 of 4 runs to train, in 2 cells" in out
    assert "of training with --jobs 1, if every run uses its whole budget" in out
    assert not Path("studies").exists()

    assert main(["study", "mine.yaml", "--jobs", "2"]) == 0
    out = capsys.readouterr().out
    assert "[4/4] finished" in out
    assert "| hidden_size | runs | solved" in out
    assert Path("studies/mine/table.md").read_text().startswith("| hidden_size |")
    assert len(reports()) == 4
    records = newest_claims(Path("studies/mine/runs"))
    assert [record.state for record in records.values()] == ["finished"] * 4
    assert len({record.worker for record in records.values()}) == 2
    assert not list(Path("studies/mine/runs").glob("*/figures"))

    # The same command shows the table of a finished study without a worker, and the plan knows its
    # minutes.
    logs = {path: path.stat().st_mtime_ns for path in Path("studies/mine/runs/logs").rglob("*.log")}
    assert len(logs) >= 2
    assert main(["study", "mine.yaml"]) == 0
    assert {path: path.stat().st_mtime_ns for path in logs} == logs
    assert "4 of 4 runs are already finished" in capsys.readouterr().out
    assert main(["study", "mine.yaml", "--dry-run"]) == 0
    assert "0 of 4 runs to train" in capsys.readouterr().out


def test_shards_in_one_folder_share_the_runs(capsys: Capture) -> None:
    write(Path("mine.yaml"))
    assert main(["study", "mine.yaml", "--shard", "2/2", "--isolated"]) == 0
    assert "shard 2/2: 2 runs finished" in capsys.readouterr().out
    assert len(reports()) == 2
    assert main(["study", "mine.yaml", "--shard", "1/2"]) == 0
    assert "shard 1/2: 2 runs finished" in capsys.readouterr().out
    assert len(reports()) == 4


def test_a_study_on_the_command_line(capsys: Capture) -> None:
    small = ["--task.train_lengths", "1:2", "--task.test_lengths", "3:3"]
    command = ["study", "copy", "--grid", "training.learning_rate=5e-3,1e-3", "--grid",
               "model.memory=stack,queue", "--seeds", "0:10", "--training.batches", "3",
               *small]  # fmt: skip
    assert main([*command, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "40 of 40 runs to train, in 4 cells" in out
    assert "copy/learning_rate=0.005, memory=stack" in out


def write_custom(statement: str, seeds: Any) -> None:
    """A study of no memory, and of a memory whose steps run a given statement."""
    Path("custom.py").write_text(
        "import os, signal\n"
        "from unbounded.memories import NeuralStack\n"
        "class Custom(NeuralStack):\n"
        "    def step(self, state, instruction):\n"
        f"        {statement}\n"
    )
    axes = {"model.memory": ["custom.Custom", "none"]}
    hardware = {"device": "cpu", "backend": "reference"}
    base = {**TINY["base"], "hardware": hardware}
    write(
        Path("mine.yaml"),
        {**TINY, "axes": axes, "import": ["custom"], "seeds": seeds, "base": base},
    )


def test_a_run_that_raises_keeps_its_error_and_stops_no_other(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_custom("raise ZeroDivisionError('a broken memory')", [0])
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.syspath_prepend(".")
    assert main(["study", "mine.yaml"]) == 1
    del sys.modules["custom"]
    out, err = capsys.readouterr()
    assert "a broken memory" in err
    assert "1 run failed; the logs are in studies/mine/runs/logs" in err
    assert len(reports()) == 1
    assert "1 of 2 runs are finished; 1 failed." in out
    (failed,) = (r for r in newest_claims(Path("studies/mine/runs")).values() if r.error)
    assert "custom.py" in failed.error


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGUSR1, signal.SIGXCPU)),
    ],
)
def test_a_signal_saves_within_ten_seconds_and_prints_how_to_resume(number: int) -> None:
    write(Path("mine.yaml"), tiny(budget={"batches": 10**6}, seeds=[0]))
    command = [sys.executable, "-m", "unbounded", "study", "mine.yaml", "--shard", "1/1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(600):
            if any(Path("studies").glob("*/runs/*/metrics.jsonl")):
                break
            time.sleep(0.1)
        sent = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == 75
        assert time.monotonic() - sent < 10
        assert process.stderr is not None
        assert "the same command resumes" in process.stderr.read()
    (record,) = newest_claims(Path("studies/mine/runs")).values()
    assert record.state == "released"
    assert any(Path("studies/mine/runs").glob("*/checkpoints/batch-*"))


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGUSR1]
)
def test_a_signal_before_the_first_run_exits_with_code_75(number: int) -> None:
    write(Path("mine.yaml"))
    command = [sys.executable, "-m", "unbounded", "study", "mine.yaml", "--shard", "1/1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"planning" in process.stderr.readline()
        time.sleep(0.3)  # torch is imported
        process.send_signal(number)
        assert process.wait(30) == 75


def test_the_time_limit_serves_the_first_and_each_later_attempt(capsys: Capture) -> None:
    study = tiny(budget={"batches": 1500}, axes={"model.hidden_size": [4]}, seeds=[0])
    study["base"] = {**study["base"], "training": {**study["base"]["training"],
                                                   "report_every": 50}}  # fmt: skip
    write(Path("mine.yaml"), study)
    from unbounded.cli import executors as of_command

    codes = []
    for attempt in range(60):
        # The limit counts from the start of the process. The first one ends in the set-up.
        limit = (time.monotonic() - of_command.BEGAN + 0.3 + 0.3 * attempt) / 60
        codes.append(main(["study", "mine.yaml", "--shard", "1/1", "--time_limit", str(limit)]))
        if codes[-1] == 0:
            break
        assert not list(Path("studies/mine/runs").glob("*/report.json"))
    assert codes == [75] * (len(codes) - 1) + [0]
    assert len(codes) >= 3, "no later attempt was limited"
    (name,) = reports()
    report = json.loads(Path("studies/mine/runs", name, "report.json").read_text())
    assert report["batches"] == 1500


def test_workers_that_begin_no_run_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Exit code 75 would ask a script to submit such workers again and again."""
    write(Path("mine.yaml"))
    monkeypatch.setattr("unbounded.studies.executors.run_plan", lambda *_, **__: True)
    assert main(["study", "mine.yaml"]) == 1
    text = capsys.readouterr().err
    assert "every worker has ended before it began one of the 4 runs; the workers' m" in text


def test_a_metric_of_the_table_is_checked_before_any_run(capsys: Capture) -> None:
    write(Path("mine.yaml"), tiny(table={"columns": ["model.hidden_size"], "metric": "nonsense"}))
    text = failing_study(capsys, "mine.yaml", "--dry-run")
    assert "table: unknown metric 'nonsense'" in text
    assert "selection_metric, success" in text
    write(Path("mine.yaml"))
    text = failing_study(capsys, "mine.yaml", "--table", "--retry")
    assert "--retry: has no meaning with --table" in text
    text = failing_study(capsys, "mine.yaml", "--watch", "--time_limit", "1")
    assert "time_limit: has no meaning with --watch" in text


def test_a_study_that_changed(capsys: Capture) -> None:
    write(Path("mine.yaml"))
    assert main(["study", "mine.yaml", "--shard", "1/1"]) == 0
    capsys.readouterr()
    write(Path("mine.yaml"), tiny(seeds="0:3", about="more runs"))
    text = failing_study(capsys, "mine.yaml", "--shard", "1/1")
    assert "the study changed after it began: 2 runs are new" in text
    assert "--extend adds them" in text
    assert 'seeds: was "0:2", is "0:3"' in text
    assert main(["study", "mine.yaml", "--shard", "1/1", "--extend"]) == 0
    assert "2 runs finished" in capsys.readouterr().out
    write(Path("mine.yaml"), tiny(seeds="1:3"))
    text = failing_study(capsys, "mine.yaml", "--extend", "--shard", "1/1")
    assert "2 of 6 runs are no longer in it" in text
    assert "--extend does not remove them: put them back" in text
    assert "2 of 6 runs are no longer in it" in failing_study(capsys, "mine.yaml", "--dry-run")
    write(Path("mine.yaml"), tiny(seeds="0:4"))
    assert "2 runs are new" in failing_study(capsys, "mine.yaml", "--dry-run")
    assert main(["study", "mine.yaml", "--dry-run", "--extend"]) == 0
    assert "2 of 8 runs to train" in capsys.readouterr().out
    # Options that affect only the table may change.
    write(Path("mine.yaml"), tiny(seeds="0:3", table={"columns": ["model.hidden_size"]}))
    assert main(["study", "mine.yaml"]) == 0
    assert "| 4 " in capsys.readouterr().out


def failing_study(capsys: Capture, *arguments: str) -> str:
    assert main(["study", *arguments]) == 2
    return capsys.readouterr().err


def test_a_useless_condition_is_an_error_of_a_new_study_only(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    write(Path("mine.yaml"), tiny(exclude=[{"model.hidden_size": 7}]))
    text = failing_study(capsys, "mine.yaml")
    assert "mine.yaml: exclude 1: model.hidden_size: expected a value of this axis" in text
    assert not Path("studies").exists()
    # As if it had begun before this check existed.
    with monkeypatch.context() as patched:
        patched.setattr("unbounded.experiments.trials.study_file._useless", lambda grid: ())
        assert main(["study", "mine.yaml", "--shard", "1/1"]) == 0
    assert main(["study", "mine.yaml", "--table"]) == 0
    assert main(["study", "mine.yaml"]) == 0
    assert "warning: exclude 1: model.hidden_size: expected" in capsys.readouterr().err


def test_a_misspelled_option_of_a_memory_does_not_point_to_rules(capsys: Capture) -> None:
    typo = {"model.memory": ["stack", {"name": "queue", "wdth": 3}]}
    write(Path("mine.yaml"), tiny(axes=typo))
    text = failing_study(capsys, "mine.yaml")
    assert "memory 'queue' has no option 'wdth'. Did you mean 'width'?" in text
    assert "of a rule" not in text


def test_a_plan_of_one_cell_is_worded_for_one(capsys: Capture) -> None:
    write(Path("mine.yaml"), tiny(axes={"model.hidden_size": [4]}))
    assert main(["study", "mine.yaml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "2 of 2 runs to train, in 1 cell" in lines
    assert lines[-1].startswith("less than a minute of training with --jobs 1")
    assert lines[-1].endswith("from timed batches of 1 cell")


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["a run", "a dry run"])
def test_the_folder_of_another_study_is_checked_and_kept(capsys: Capture, more: list[str]) -> None:
    write(Path("one.yaml"))
    write(Path("two.yaml"))
    text = failing_study(capsys, "two.yaml", "--out", ".", *more)
    assert "holds other files" in text
    assert main(["study", "one.yaml", "--out", "here", "--shard", "1/1"]) == 0
    before = {path: path.stat().st_mtime_ns for path in Path("here").rglob("*")}
    text = failing_study(capsys, "two.yaml", "--out", "here", *more)
    assert "here is the folder of study 'one', not of 'two'" in text
    text = failing_study(capsys, "one.yaml", "--out", "here", *more, "--log_with", "no_such")
    assert "no_such" in text
    assert {path: path.stat().st_mtime_ns for path in Path("here").rglob("*")} == before


def test_a_plan_includes_hardening(monkeypatch: pytest.MonkeyPatch) -> None:
    from unbounded.studies import session

    plain = tiny(seeds=[0])
    (short, *_), (long, *_) = (
        trials({**plain, "base": {**plain["base"], "hardening": hardening}})
        for hardening in ("none", {"name": "gradual", "batches": 10**9, "cool": 0})
    )
    assert session.budget_minutes(short.config) < 1e3 < session.budget_minutes(long.config)
    monkeypatch.setattr(session, "budget_minutes", lambda config: 7.0)
    text = session.plan_text("x", [long], Path("none"), 1)
    assert text.endswith(
        "at most about 7 minutes of training with --jobs 1, if every run uses its whole budget "
        "and all batches of its hardening; from timed batches of 1 cell"
    )
    assert "hardening" not in session.plan_text("x", [short], Path("none"), 1)


def copying(**evaluation: Any) -> dict[str, Any]:
    """The content of the file of a study of copy without hardening."""
    base = {"task": {"train_lengths": "1:2", "test_lengths": "3:4"}, "hardening": "none",
            "training": {"batch_size": 1, "validation_count": 2, "accuracy_every": 0},
            "evaluation": {"count": 1, "multiples": None, **evaluation},
            "hardware": {"device": "cpu"}}  # fmt: skip
    return {"preset": "copy", "base": base, "budget": {"batches": 2},
            "axes": {"model.hidden_size": [4]}}  # fmt: skip


def test_a_study_without_a_scored_test_range_has_a_warning(capsys: Capture) -> None:
    write(Path("mine.yaml"), copying(lengths=["1:2", "3:3"]))
    assert main(["study", "mine.yaml", "--dry-run"]) == 0
    err = capsys.readouterr().err
    assert 'warning: task copy: no scored range has the role "test".' in err
    assert "1:2 (train), 3:3 (longer)" in err
    for lengths in (None, ["1:2", "3:4"]):
        write(Path("mine.yaml"), copying(lengths=lengths))
        assert main(["study", "mine.yaml", "--dry-run"]) == 0
        assert "warning" not in capsys.readouterr().err
    # On streams the first range is the test range, whatever its lengths are.
    write(Path("mine.yaml"))
    assert main(["study", "mine.yaml", "--dry-run"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_an_option_that_one_memory_lacks_points_to_rules(capsys: Capture) -> None:
    axes = {"model.memory": ["stack", "turing_tape"], "model.memory.slots": [64, 128]}
    write(Path("mine.yaml"), {**copying(), "axes": axes})
    err = failing_study(capsys, "mine.yaml", "--dry-run")
    assert "memory 'stack' has no option 'slots'" in err
    assert "rules: [{where: {model.memory: turing_tape}, axes: {model.memory.slots:" in err
    write(Path("mine.yaml"), {**copying(), "data": "none.tsv"})
    err = failing_study(capsys, "mine.yaml", "--dry-run")
    assert "- data: the task 'copy' reads no data" in err


def test_a_new_study(capsys: Capture) -> None:
    assert main(["study", "--new", "mine.yaml"]) == 0
    assert "unbounded study mine.yaml --dry-run" in capsys.readouterr().out
    assert "unbounded study mine.yaml --jobs 2" in Path("mine.yaml").read_text()
    assert "exists" in failing(capsys, "study", "--new", "mine.yaml")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "study: expected a study's file or a task"),
        ("none.yaml", "there is no file none.yaml; --new none.yaml writes an example"),
        ("coppy", "unknown study 'coppy'. Did you mean 'copy'?"),
        ("copy", "grid: expected an axis, as in --grid model.memory=stack,queue"),
        ("copy --grid model.memry=stack", "Did you mean 'model.memory'?"),
        ("copy --grid model.memory", "grid: expected OPTION=VALUE,VALUE"),
        (
            "copy --grid model.memory=stack --grid model.memory=queue",
            "grid: expected one axis for option model.memory, got two",
        ),
        (
            "copy --grid model.hidden_size=4,5 --model.hidden_size 3",
            "model.hidden_size: an option and an axis; leave one of them out",
        ),
        ("copy --grid model.memory=stak", "unknown memory 'stak'. Did you mean 'stack'?"),
        ("copy --grid model.hidden_size=4,x", "model.hidden_size: expected an integer"),
        ("copy --grid model.hidden_size=4 --seeds x", "seeds such as 0:10"),
        ("copy --jobs 0", "jobs: expected at least 1, got 0"),
        ("copy --executor slrum", "unknown executor 'slrum'"),
        ("copy --isolated", "isolated: works only with --shard"),
        ("copy --grid model.hidden_size=4 --log_with wandbb", "log_with: unknown tracker 'wandbb'"),
        ("copy --table xls", "unknown format 'xls'"),
        ("copy --time_limit soon", "expected minutes or hours:minutes:seconds"),
        ("copy --time_limit nan", "minutes or hours:minutes:seconds above 0, got 'nan'"),
        ("copy --time_limit 0:0", "minutes or hours:minutes:seconds above 0, got '0:0'"),
        ("mine.yaml --data x", "--data: expected in the file; write it into mine.yaml"),
        ("pairs --grid model.hidden_size=4 --data none.tsv", "none.tsv"),
        ("mine.yaml --seeds 0:3", "--seeds: expected in the file; write it into mine.yaml"),
    ],
)
def test_each_wrong_call_has_its_error(arguments: str, expected: str, capsys: Capture) -> None:
    write(Path("mine.yaml"))
    assert expected in failing_study(capsys, *arguments.split())


@pytest.mark.slow
def test_a_run_that_kills_its_worker_fails_after_three_attempts(capsys: Capture) -> None:
    write_custom("os.kill(os.getpid(), signal.SIGKILL)", "0:2")
    command = [sys.executable, "-m", "unbounded", "study", "mine.yaml", "--jobs", "2"]
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": "."})  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "the workers of 3 attempts died" in done.stderr
    assert len(reports()) == 2
