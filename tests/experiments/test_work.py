"""The loop of a worker: each run once, recorded failures, resuming, runs of dead workers."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.experiments.test_claims import stopped
from tests.studies.tiny_study import tiny, trials
from unbounded.errors import ConfigError, RunBusyError, StorageError
from unbounded.experiments.run import run as run_module
from unbounded.experiments.trials.claims import CLAIMS, ClaimRecord, Claims, newest_claims
from unbounded.experiments.trials.work import EXIT_CONTINUE, Shard, WorkOptions, work
from unbounded.signals import Interrupted

PLAN = trials(tiny(seeds="0:4"))
FAST = WorkOptions(heartbeat_s=0.02, dead_after_s=0.3)


class Trainer:
    """Replaces `train_run`: writes an empty report and counts."""

    def __init__(self, act: Callable[[str], None] = lambda name: None) -> None:
        self.trained: list[str] = []
        self._act = act

    def __call__(self, config: Any, *, root: Path, **options: Any) -> Any:
        folder = root / next(trial.name for trial in PLAN if trial.config is config)
        if (folder / "report.json").exists():
            return SimpleNamespace(fresh=False)
        print("training", folder.name)
        self._act(folder.name)
        self.trained.append(folder.name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text("{}")
        return SimpleNamespace(fresh=True)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trainer]:
    def make(act: Callable[[str], None] = lambda name: None) -> Trainer:
        made = Trainer(act)
        monkeypatch.setattr(run_module, "train_run", made)
        return made

    return make


def names(number: int) -> str:
    return PLAN[number].name


def test_each_run_is_trained_once(tmp_path: Path, trainer: Any) -> None:
    first = trainer()
    messages: list[str] = []
    result = work(PLAN, tmp_path, FAST, messages.append)
    assert first.trained == [trial.name for trial in PLAN] == result.finished
    assert result.exit_code == 0
    assert len(messages) == len(PLAN)
    assert all(record.is_fresh for record in newest_claims(tmp_path).values())
    assert "training" in (tmp_path / "logs" / f"{names(0)}.log").read_text()
    (record,) = (tmp_path / "logs" / "workers").glob("*.json")
    assert json.loads(record.read_text())["finished"] == result.finished
    assert work(PLAN, tmp_path, FAST).finished == []
    assert len(first.trained) == len(PLAN)


def test_a_deleted_report_is_recreated(tmp_path: Path, trainer: Any) -> None:
    made = trainer()
    work(PLAN, tmp_path, FAST)
    (tmp_path / names(2) / "report.json").unlink()
    assert work(PLAN, tmp_path, FAST).finished == [names(2)]
    assert made.trained.count(names(2)) == 2


def test_a_failed_run_keeps_its_error_and_stops_no_other(tmp_path: Path, trainer: Any) -> None:
    broken = {names(1)}

    def act(name: str) -> None:
        if name in broken:
            raise ZeroDivisionError("by nought")

    trainer(act)
    result = work(PLAN, tmp_path, FAST)
    assert result.failed == [names(1)]
    assert len(result.finished) == len(PLAN) - 1
    assert result.exit_code == 1
    record = newest_claims(tmp_path)[names(1)]
    assert record.state == "failed"
    assert record.error.endswith("ZeroDivisionError: by nought")
    assert "Traceback" in record.error
    assert "by nought" in (tmp_path / "logs" / f"{names(1)}.log").read_text()
    broken.clear()
    assert work(PLAN, tmp_path, FAST).finished == []
    retrying = WorkOptions(retry=True, heartbeat_s=0.02, dead_after_s=0.3)
    assert work(PLAN, tmp_path, retrying).finished == [names(1)]


def test_a_signal_saves_and_the_same_call_resumes(tmp_path: Path, trainer: Any) -> None:
    stops = [names(1)]

    def act(name: str) -> None:
        if name in stops:
            stops.remove(name)
            raise Interrupted(signal.SIGTERM)

    made = trainer(act)
    result = work(PLAN, tmp_path, FAST)
    assert result.exit_code == EXIT_CONTINUE
    assert result.finished == [names(0)]
    assert newest_claims(tmp_path)[names(1)].state == "released"
    assert work(PLAN, tmp_path, FAST).exit_code == 0
    assert sorted(made.trained) == sorted(trial.name for trial in PLAN)


def test_ctrl_c_has_its_own_code(tmp_path: Path, trainer: Any) -> None:
    def act(name: str) -> None:
        raise Interrupted(signal.SIGINT)

    trainer(act)
    assert work(PLAN, tmp_path, FAST).exit_code == 130


def test_the_time_limit_stops_between_runs_too(tmp_path: Path, trainer: Any) -> None:
    trainer(lambda name: threading.Event().wait(0.1))
    options = WorkOptions(time_limit_s=0.15, heartbeat_s=0.02, dead_after_s=0.3)
    result = work(PLAN, tmp_path, options)
    assert result.exit_code == EXIT_CONTINUE
    assert 1 <= len(result.finished) < len(PLAN)


def test_the_run_of_a_dead_worker_is_taken_over(tmp_path: Path, trainer: Any) -> None:
    made = trainer()
    stopped(tmp_path).take(names(3))
    result = work(PLAN, tmp_path, FAST)
    assert sorted(made.trained) == sorted(trial.name for trial in PLAN)
    assert made.trained[-1] == names(3)
    assert result.wait_s < 3
    assert newest_claims(tmp_path)[names(3)].deaths == 1


def test_a_worker_leaves_the_run_of_a_living_one(tmp_path: Path, trainer: Any) -> None:
    made = trainer()
    with Claims(tmp_path) as alive:
        alive._clock.heartbeat_s = 0.02
        alive.take(names(3))
        # The first heartbeat comes after the usual time.
        path = tmp_path / CLAIMS / "workers" / alive.worker
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(0.02):
                os.utime(path)

        thread = threading.Thread(target=beat)
        thread.start()
        result = work(PLAN, tmp_path, FAST)
        stop.set()
        thread.join()
    assert len(made.trained) == len(PLAN) - 1
    assert result.elsewhere == 1
    assert result.exit_code == 0


def test_a_lost_claim_stops_its_run_and_no_other(tmp_path: Path, trainer: Any) -> None:
    class Stopped:
        first = True

    def act(name: str) -> None:
        if Stopped.first:
            Stopped.first = False
            claim = json.dumps(vars(ClaimRecord("another", "finished")))
            (tmp_path / CLAIMS / f"{name}.2").write_text(claim)
            threading.Event().wait(0.2)  # a heartbeat sees it and sends the signal
            raise Interrupted(signal.SIGUSR1)

    trainer(act)
    messages: list[str] = []
    result = work(PLAN, tmp_path, FAST, messages.append)
    assert "took it over" in messages[0]
    assert len(result.finished) == len(PLAN) - 1
    assert result.stopped is None


def test_a_run_of_another_command_is_tried_later(tmp_path: Path, trainer: Any) -> None:
    tries: list[str] = []

    def act(name: str) -> None:
        if name == names(0):
            tries.append(name)
            if len(tries) < 2:
                raise RunBusyError("another process is at work")

    trainer(act)
    result = work(PLAN, tmp_path, FAST)
    assert len(result.finished) == len(PLAN)
    assert result.finished[-1] == names(0)


def test_a_full_disk_stops_the_worker_and_fails_no_run(tmp_path: Path, trainer: Any) -> None:
    def act(name: str) -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError as error:
            raise StorageError("writing failed: No space left on device") from error

    trainer(act)
    with pytest.raises(StorageError, match="No space left"):
        work(PLAN, tmp_path, FAST)
    assert newest_claims(tmp_path)[names(0)].state == "released"
    trainer()
    assert work(PLAN, tmp_path, FAST).exit_code == 0


def test_a_full_disk_is_recognized_without_a_disk_error(
    tmp_path: Path, trainer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(name: str) -> None:
        raise RuntimeError("unexpected pos 64 vs 0")

    trainer(act)
    usage = SimpleNamespace(free=0)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(StorageError, match="is full: unexpected pos"):
        work(PLAN, tmp_path, FAST)


@pytest.mark.parametrize("total", [1, 3, 5, 8, 20])
def test_shards_share_the_plan(total: int) -> None:
    own: list[str] = []
    for number in range(1, total + 1):
        order = [trial.name for trial in Shard(number, total).order(PLAN)]
        assert sorted(order) == sorted(trial.name for trial in PLAN)
        own += order[: (len(PLAN) + total - number) // total]
    assert sorted(own) == sorted(trial.name for trial in PLAN)


def test_an_isolated_shard_leaves_the_others_alone(tmp_path: Path, trainer: Any) -> None:
    made = trainer()
    for number in (1, 2, 3):
        options = WorkOptions(shard=Shard(number, 3), isolated=True)
        work(PLAN, tmp_path / str(number), options)
    assert sorted(made.trained) == sorted(trial.name for trial in PLAN)


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "a/b", "1/2/3", "-1/2"])
def test_an_invalid_shard_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match="such as 3/16"):
        Shard.parse(text)


def test_the_shard_of_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Shard.parse("3/16") == Shard(3, 16)
    assert Shard.of_job() == Shard(1, 1)
    for name, value in (("ID", "5"), ("MIN", "4"), ("MAX", "11")):
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert Shard.of_job() == Shard(2, 8)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "five")
    with pytest.raises(ConfigError, match="SLURM_ARRAY_TASK_ID=five"):
        Shard.of_job()


def test_options_survive_a_round_trip_through_json() -> None:
    options = WorkOptions(Shard(2, 3), True, 60.0, True, True, ("a.b",), ("wandb",), 1.0, 2.0)
    assert WorkOptions.from_json(options.to_json()) == options


def test_a_share_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without locks the run's lock is a file, which a killed worker of another host leaves."""

    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", refuse)
    stopped(tmp_path).take(names(0))
    (tmp_path / ".locks").mkdir()
    for suffix in ("", ".soft"):
        (tmp_path / ".locks" / f"{names(0)}{suffix}").write_text("12345\nanother-machine\n")
    result = work(PLAN[:1], tmp_path, FAST)
    assert result.finished == [names(0)]
    assert json.loads((tmp_path / names(0) / "report.json").read_text())["batches"] == 2
