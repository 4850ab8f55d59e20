from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.experiments.made_up import tiny_study
from tests.studies.tiny_study import tiny, write
from unbounded.experiments.run.run import train_run
from unbounded.experiments.trials.work import WorkOptions, work
from unbounded.experiments.trials.workers import WORKER, PlanWatch, run_workers, visible_gpus
from unbounded.signals import Interrupted

# Replaces a worker: writes files at its start and at a request to save.
STOPPED = """
import json, pathlib, signal, sys, time
number, runs = json.loads(sys.argv[1])["shard"][0], pathlib.Path(sys.argv[3])
def stop(*_):
    (runs / f"saved-{number}").touch()
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
(runs / f"began-{number}").touch()
time.sleep(60)
"""


def test_a_worker_imports_from_pythonpath_and_not_from_the_current_folder(
    tmp_path: Path,
) -> None:
    """Once a local queue.py broke every seed, and a planted types.py ran."""
    here, named = tmp_path / "here", tmp_path / "named"
    here.mkdir()
    named.mkdir()
    names = sorted(f"{name}.py" for name in ("queue", "copy", "types", "torch", "unbounded"))
    for name in names:
        (here / name).write_text("open('ran', 'w').close()\n")
    (named / "mine.py").write_text("print('mine is there')\n")
    options = WorkOptions(modules=("mine",)).to_json()
    done = subprocess.run(
        [*WORKER, options, "no-plan.jsonl", "runs", str(os.getpid())],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(named)},
        capture_output=True,
        text=True,
    )
    assert "mine is there" in done.stdout
    assert "no-plan.jsonl" in done.stderr
    assert sorted(path.name for path in here.iterdir()) == names


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("kills_early", [True, False])
def test_workers_end_when_the_study_is_killed(tmp_path: Path, kills_early: bool) -> None:
    write(tmp_path / "mine.yaml", tiny(budget={"batches": 1_000_000}))
    out = tmp_path / "here"
    command = ["study", "mine.yaml", "--jobs", "2", "--out", str(out)]
    study = subprocess.Popen([sys.executable, "-m", "unbounded", *command], cwd=tmp_path)
    runs = out / "runs"
    sign = "logs/workers/2.log" if kills_early else "*/metrics.jsonl"
    while not list(runs.glob(sign)):
        assert study.poll() is None
        time.sleep(0.01)
    study.kill()
    study.wait()
    until = time.monotonic() + 60
    while any(str(out / "plan.jsonl") in command for command in _commands()):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert not list(runs.glob("*/report.json"))


def _commands() -> list[str]:
    """The command lines of all processes."""
    return subprocess.run(
        ["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_makes_every_worker_save(tmp_path: Path, number: int) -> None:
    script = tmp_path / "worker.py"
    script.write_text(STOPPED)
    trials = tiny_study(models=["queue"], seeds=[0, 1, 2]).trials

    def interrupt(running: object) -> None:
        if len(list(tmp_path.glob("began-*"))) == 2:
            os.kill(os.getpid(), number)

    began = time.monotonic()
    with pytest.raises(Interrupted) as caught:
        run_workers(
            tmp_path / "plan.jsonl",
            PlanWatch(trials, tmp_path),
            tmp_path,
            2,
            WorkOptions(),
            watch=interrupt,
            ended=lambda outcome: None,
            command=(sys.executable, str(script)),
        )
    assert caught.value.exit_code == 128 + number
    assert time.monotonic() - began < 30
    assert len(list(tmp_path.glob("saved-*"))) == 2


def test_replaced_runs_are_retrained_once(tmp_path: Path) -> None:
    trial = tiny_study(models=["queue"], seeds=[0]).trials[0]
    old = train_run(trial.config, root=tmp_path, quiet=True).folder
    old_inode = old.stat().st_ino
    options = WorkOptions(replaced={trial.name: old_inode})
    watched = PlanWatch([trial], tmp_path, replaced=options.replaced)
    assert watched.finished == 0
    assert work([trial], tmp_path, options).finished == [trial.name]
    new_inode = old.stat().st_ino
    assert new_inode != old_inode
    # The same worker, started again after its death, keeps the new run.
    assert work([trial], tmp_path, options).finished == []
    assert old.stat().st_ino == new_inode
    # Killed before the new run's first checkpoint: the old run is aside and must not count.
    aside = tmp_path / f".replaced-{trial.name}"
    old.rename(aside)
    options = WorkOptions(replaced={trial.name: new_inode})
    assert work([trial], tmp_path, options).finished == [trial.name]
    assert old.stat().st_ino != new_inode
    assert not aside.exists()


def test_workers_share_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for count, expected in ((0, ()), (1, ()), (3, ("0", "1", "2"))):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        assert visible_gpus() == expected
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c")
    assert visible_gpus() == ("GPU-a", "GPU-b", "GPU-c")
    script = tmp_path / "worker.py"
    script.write_text("import os; print('on', os.environ['CUDA_VISIBLE_DEVICES'])")
    trials = tiny_study(models=["queue"], seeds=[0, 1, 2]).trials
    run_workers(
        tmp_path / "plan.jsonl",
        PlanWatch(trials, tmp_path),
        tmp_path,
        3,
        WorkOptions(),
        watch=lambda running: None,
        ended=lambda outcome: None,
        gpus=("a", "b"),
        command=(sys.executable, str(script)),
    )
    logs = [(tmp_path / f"logs/workers/{number}.log").read_text() for number in (1, 2, 3)]
    assert logs == ["on a\n", "on b\n", "on a\n"]
