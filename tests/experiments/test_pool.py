from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.experiments.made_up import tiny_study
from tests.experiments.tiny import tiny
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.trials.pool import WORKER as THE_WORKER
from unbounded.experiments.trials.pool import run_trials
from unbounded.experiments.trials.work import WorkOptions
from unbounded.experiments.trials.workers import PlanWatch, run_workers, visible_gpus
from unbounded.training.signals import Interrupted

# Stands in for the worker: leaves marks of its beginning and end, fails for seed 1.
WORKER = """
import json, pathlib, signal, sys, time
config, runs = json.load(open(sys.argv[1])), pathlib.Path(sys.argv[2])
mark = f"{config['model']['memory']['name']}{config['seed']}"
def stop(*_):
    (runs / f"saved-{mark}").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
(runs / f"began-{mark}").write_text(str(time.monotonic()))
print("hello from", mark)
time.sleep(SECONDS)
(runs / f"ended-{mark}").write_text(str(time.monotonic()))
sys.exit(1 if config["seed"] == 1 else 0)
"""


def worker(folder: Path, seconds: float) -> tuple[str, str]:
    path = folder / "worker.py"
    path.write_text(WORKER.replace("SECONDS", str(seconds)))
    return sys.executable, str(path)


def times(runs: Path, which: str) -> list[float]:
    return sorted(float(path.read_text()) for path in runs.glob(f"{which}-*"))


def test_one_failure_leaves_the_others_alone(tmp_path):
    seen: list[int] = []
    trials = tiny_study(models=["queue"], seeds=[0, 1, 2]).trials
    outcomes = run_trials(
        trials,
        tmp_path,
        jobs=2,
        watch=lambda running: seen.append(len(running)),
        ended=lambda outcome: None,
        command=worker(tmp_path, 0.3),
    )
    codes = {outcome.trial.config.seed: outcome.exit_code for outcome in outcomes}
    assert codes == {0: 0, 1: 1, 2: 0}
    assert max(seen) == 2
    for outcome in outcomes:
        assert f"hello from queue{outcome.trial.config.seed}" in outcome.log.read_text()


def test_no_more_than_jobs_at_once(tmp_path):
    trials = tiny_study(models=["queue"], seeds=[0, 2, 3]).trials
    run_trials(
        trials,
        tmp_path,
        jobs=1,
        watch=lambda running: None,
        ended=lambda outcome: None,
        command=worker(tmp_path, 0.1),
    )
    begins, ends = times(tmp_path, "began"), times(tmp_path, "ended")
    assert all(end <= begin for end, begin in zip(ends[:-1], begins[1:], strict=True))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_every_trial_to_save(tmp_path, number):
    trials = tiny_study(models=["queue"], seeds=[0, 2, 3]).trials

    def interrupt(running: object) -> None:
        if len(list(tmp_path.glob("began-*"))) == 2:
            os.kill(os.getpid(), number)

    began = time.monotonic()
    with pytest.raises(Interrupted) as caught:
        run_trials(
            trials,
            tmp_path,
            jobs=2,
            watch=interrupt,
            ended=lambda outcome: None,
            command=worker(tmp_path, 60),
        )
    assert caught.value.exit_code == 128 + number
    assert time.monotonic() - began < 30
    assert {path.name for path in tmp_path.glob("saved-*")} == {"saved-queue0", "saved-queue2"}
    assert not list(tmp_path.glob("began-queue3"))


@pytest.mark.parametrize("name", ["queue", "copy", "types", "torch", "unbounded"])
def test_a_worker_imports_nothing_from_the_current_folder(tmp_path: Path, name: str) -> None:
    """Item 18: an own queue.py there broke every seed, and a planted types.py ran."""
    (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    done = subprocess.run(
        [*THE_WORKER, "no-config.json", "runs"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "no-config.json" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.py"]


def test_a_worker_imports_what_pythonpath_names(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("print('mine is there')\n")
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**to_dict(tiny()), "task": "nowhere"}))
    done = subprocess.run(
        [*THE_WORKER, "mine", str(config), str(tmp_path / "runs")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "mine is there" in done.stdout


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
