from __future__ import annotations

import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.experiments.made_up import TINY, tiny_study
from unbounded.errors import CheckpointError, ConfigError, RunBusyError
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_lock import lock
from unbounded.experiments.run.verification import verify_run
from unbounded.experiments.tables import reproduce as module
from unbounded.experiments.tables.reproduce import plan_text, reproduce
from unbounded.experiments.tables.results import copy_reports
from unbounded.experiments.tables.runs_file import RUNS, VERIFIED, read_runs_file
from unbounded.experiments.trials.trial import Outcome
from unbounded.signals import Interrupted
from unbounded.verification import VerifyOptions


def call(study, folder, jobs=1, **options):
    lines: list[str] = []
    result = reproduce(
        study,
        study.trials,
        jobs=jobs,
        runs=folder / "runs",
        out=folder / "out",
        say=lines.append,
        **options,
    )
    return result, "\n".join(lines)


def test_a_second_call_after_a_finished_study_trains_nothing(tmp_path):
    study = tiny_study(seeds=[0])
    assert "2 of 2 runs to train" in plan_text(
        study, study.trials, tmp_path / "runs", tmp_path / "out"
    )
    result, output = call(study, tmp_path)
    assert result.failed == ()
    assert "0 of 2 runs are already finished" in output
    assert "[2/2] finished" in output
    assert "2 of 2 runs are finished" in result.table
    logs = [path.read_text() for path in (tmp_path / "runs" / "logs").glob("*.log")]
    assert len(logs) == 2
    assert "no run to resume" not in "".join(logs)
    names = {path.relative_to(tmp_path / "out").as_posix() for path in result.written}
    assert names == {"table.md", "table.json", "figures/convergence_copy.svg"}
    report = read_runs_file(tmp_path / "out" / RUNS)[study.trials[0].name]
    assert [row["lengths"] for row in report["rows"][:2]] == ["2:4", "5:6"]
    assert str(tmp_path) not in json.dumps(report)

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("metrics.jsonl")}
    again, output = call(study, tmp_path)
    assert "2 of 2 runs are already finished" in output
    assert again.table == result.table
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("metrics.jsonl")}
    assert after == before
    assert "0 of 2 runs to train" in plan_text(
        study, study.trials, tmp_path / "runs", tmp_path / "out"
    )


def test_a_study_may_have_its_runs_verified(tmp_path, monkeypatch):
    def asking(count):
        own = {**TINY["cells"]["copy/queue"], "verify": {"count": count}}
        return tiny_study(seeds=[0], models=["queue"], verify=True, cells={"copy/queue": own})

    study = asking(3)
    folder = train_run(study.trials[0].config, root=tmp_path / "runs", quiet=True).folder
    dry = plan_text(study, study.trials, tmp_path / "runs", tmp_path / "out")
    assert f"  trained         4 batches  {study.trials[0].name}  copy/queue\n" in dry
    assert dry.endswith("0 of 1 runs to train, 1 trained but not verified")
    asked = []

    def verify(trials, runs, jobs, *, watch, ended):
        asked.append([(trial, trial.verify) for trial in trials])
        if trials:
            verify_run(folder, VerifyOptions(**trials[0].verify), look=lambda name, share: None)
            ended(Outcome(trials[0], 0, folder / "log", 1.0))

    monkeypatch.setattr(module, "train_trials", verify)
    monkeypatch.setattr(VerifyOptions.__init__, "__defaults__", (3, 100, 2, (2,), 2, 1))
    result, output = call(study, tmp_path)
    # Trained runs are verified without new training.
    assert asked == [[(study.trials[0], {"count": 3})]]
    assert "0 of 1 runs are already finished" in output
    name = study.trials[0].name
    found = read_runs_file(tmp_path / "out" / VERIFIED)[name]
    assert [row["how"] for row in found["rows"]].count("every") == 3
    assert {row["count"] for row in found["rows"] if row["how"] == "drawn"} == {3}
    assert "| Copy, Queue-LSTM | 0 | 1:3, 2 symbols | 0 of 14 | " in result.table
    assert '"certainty" is the certainty of' in result.table
    again, output = call(study, tmp_path)
    assert asked[1:] == [[]]
    dry = plan_text(study, study.trials, tmp_path / "runs", tmp_path / "out")
    assert f"  finished        4 batches  {study.trials[0].name}  copy/queue\n" in dry
    assert dry.endswith("0 of 1 runs to train")
    assert again.table == result.table
    # A verification of fewer sequences than requested does not count.
    assert copy_reports([asking(4).trials[0]], tmp_path / "runs", tmp_path / "out")
    (folder / "verification-model.json").write_text("[]")
    with pytest.raises(CheckpointError, match="is not a verification report of version 2"):
        call(study, tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    study = tiny_study(seeds=[0], models=["queue"])
    runs = tmp_path_factory.mktemp("finished")
    train_run(study.trials[0].config, root=runs, quiet=True)
    return study, runs


@pytest.mark.parametrize(
    "change",
    [
        lambda report: report.pop("config"),
        lambda report: report["config"].update(hardware=None),
        lambda report: report.update(rows=None),
        lambda report: report.pop("selection_metric"),
    ],
    ids=["no config", "no machine", "no rows", "no selection metric"],
)
def test_a_damaged_report_of_a_run_is_not_copied(finished, tmp_path, change):
    study, runs = finished
    shutil.copytree(runs, tmp_path / "runs")
    path = tmp_path / "runs" / study.trials[0].name / "report.json"
    report = json.loads(path.read_text())
    change(report)
    path.write_text(json.dumps(report))
    with pytest.raises(CheckpointError, match=rf"{path} is .*not a (run|trial)'s report") as error:
        call(study, tmp_path)
    assert "Delete it, and --resume makes it again" in str(error.value)
    assert not (tmp_path / "out" / RUNS).exists()


def train_here(trials, runs, jobs, *, watch, ended):
    """In this process; tests/cli/test_study.py tests a failing run of a worker process."""
    for trial in trials:
        log, code = runs / f"{trial.name}.log", 0
        try:
            train_run(trial.config, root=runs, quiet=True, resume=True)
        except CheckpointError as error:
            log.write_text(f"{type(error).__name__}: {error}")
            code = 1
        ended(Outcome(trial, code, log, 1.0))


@pytest.mark.parametrize(
    "train", [train_here, pytest.param(None, id="processes", marks=pytest.mark.slow)]
)
def test_a_failing_trial_is_shown_with_its_log_and_the_others_continue(tmp_path, train):
    study = tiny_study(seeds=[0])
    foreign = tmp_path / "runs" / study.trials[0].name / "config.yaml"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("just: a note\n")
    result, output = call(study, tmp_path, train=train)
    assert [outcome.trial.name for outcome in result.failed] == [study.trials[0].name]
    assert f"FAILED {study.trials[0].name} (exit code 1)" in output
    assert "CheckpointError" in output
    assert "1 of 2 runs are finished" in result.table
    assert "not run" in result.table


def test_an_interrupted_study_has_one_stream_of_runs(tmp_path):
    study = tiny_study(seeds=[0])

    def train(*given, **options):
        train_here(*given, **options)
        raise Interrupted(signal.SIGTERM)

    with pytest.raises(Interrupted):
        call(study, tmp_path, train=train)
    decompressor = lzma.LZMADecompressor()
    text = decompressor.decompress((tmp_path / "out" / RUNS).read_bytes())
    assert decompressor.unused_data == b""
    assert len(text.splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_the_same_call_resumes_after_kill_9(tmp_path, capsys):
    changes = {"models": ["queue"], "seeds": [0], "batches": 200}
    study = tiny_study(**changes)
    program = (
        "from pathlib import Path\n"
        "from unbounded.experiments.tables.reproduce import reproduce\n"
        "from unbounded.experiments.trials.paper_studies import make_study\n"
        f"study = make_study('grefenstette2015', 'tiny', { ({**TINY, **changes})!r})\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "reproduce(study, study.trials, jobs=1, runs=folder / 'runs', out=folder / 'out')\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    run = tmp_path / "runs" / study.trials[0].name
    wait_until(lambda: any((run / "checkpoints").glob("*")), parent)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    # The trial notices that nobody waits for it any more, saves and ends.
    wait_until(lambda: is_free(tmp_path / "runs", study), None)
    assert not (run / "report.json").exists()

    def train(trials, runs, jobs, *, watch, ended):
        """In this process, whose output is seen."""
        train_run(trials[0].config, root=runs, resume=True)
        ended(Outcome(trials[0], 0, runs / "log", 1.0))

    result, _ = call(study, tmp_path, train=train)
    assert result.failed == ()
    assert "1 of 1 runs are finished" in result.table
    assert "continuing after batch" in capsys.readouterr().out
    batches = [
        json.loads(line)["batch"] for line in (run / "metrics.jsonl").read_text().splitlines()
    ]
    assert batches == sorted(batches)
    assert batches[-1] == 200


def wait_until(true, process, seconds=60):
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit, "it took too long"
        assert process is None or process.poll() is None, "the process ended early"
        time.sleep(0.02)


def is_free(runs, study):
    try:
        with lock(runs / study.trials[0].name):
            return True
    except RunBusyError:
        return False


def test_zero_jobs_is_an_error_at_the_start(tmp_path):
    study = tiny_study()
    with pytest.raises(ConfigError, match="jobs: expected at least 1, got 0"):
        reproduce(study, study.trials, jobs=0, runs=tmp_path / "runs", out=tmp_path / "out")
    assert os.listdir(tmp_path) == []
