from __future__ import annotations

import errno
import math
import os
import shutil
from pathlib import Path

import pytest

from tests.experiments.tiny import assert_same_run, tiny
from unbounded.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteError,
    RunBusyError,
    RunExistsError,
    StorageError,
)
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.run import run as run_module
from unbounded.experiments.run import run_lock, trackers
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.run_lock import lock
from unbounded.training import OBJECTIVES, checkpoint, metrics_log

CONFIG = {"batches": 2, "accuracy_every": 0, "stop": "budget"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tiny(**CONFIG), root=tmp_path_factory.mktemp("whole"), quiet=True).folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    folder = tmp_path / finished.name
    shutil.copytree(finished, folder)
    (folder / "mark").write_text("the old run")
    return folder


def overwrite(run: Path, **options: bool) -> None:
    train_run(tiny(**CONFIG), root=run.parent, quiet=True, overwrite=True, **options)


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != ".locks")


def test_overwrite_replaces_a_run(run: Path) -> None:
    overwrite(run)
    assert not (run / "mark").exists()
    assert (run / "report.json").exists()
    assert visible(run.parent) == [run.name]


def test_overwrite_that_cannot_start_leaves_the_run(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "get_available_trackers", list)
    with pytest.raises(ConfigError, match="tensorboard is not installed"):
        overwrite(run, log_with=("tensorboard",))
    assert (run / "mark").exists()
    assert (run / "report.json").exists()


def test_a_failure_before_the_first_checkpoint_restores_the_old_run(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = OBJECTIVES["cross_entropy"]
    infinite = sound._replace(loss=lambda logits, *rest: logits.sum() * math.inf)
    monkeypatch.setitem(OBJECTIVES, "cross_entropy", infinite)
    with pytest.raises(NonFiniteError):
        overwrite(run)
    assert (run / "mark").exists()
    assert (run / "report.json").exists()
    assert visible(run.parent) == [run.name]


def test_a_kill_before_the_first_checkpoint_restores_the_old_run(run: Path) -> None:
    run.rename(run.with_name(f".replaced-{run.name}"))
    run.mkdir()
    (run / "config.yaml").write_text("task: copy\n")
    assert not train_run(tiny(**CONFIG), root=run.parent, quiet=True, resume=True).fresh
    assert (run / "mark").exists()
    assert visible(run.parent) == [run.name]


def test_a_kill_after_the_first_checkpoint_keeps_the_new_run(run: Path) -> None:
    shutil.copytree(run, run.with_name(f".replaced-{run.name}"))
    (run / "mark").unlink()
    train_run(tiny(**CONFIG), root=run.parent, quiet=True, resume=True)
    assert not (run / "mark").exists()
    assert visible(run.parent) == [run.name]


def test_an_existing_run_is_overwritten_only_on_request(run: Path) -> None:
    with pytest.raises(RunExistsError, match=r"--resume continues it, --overwrite replaces it"):
        train_run(tiny(**CONFIG), root=run.parent, quiet=True)
    assert (run / "mark").exists()


@pytest.mark.parametrize("asked", [{}, {"overwrite": True}, {"resume": True}])
def test_a_folder_that_is_no_run_is_never_changed(tmp_path: Path, asked: dict[str, bool]) -> None:
    folder = tmp_path / run_name(tiny(**CONFIG))
    folder.mkdir()
    (folder / "precious").write_text("mine")
    with pytest.raises(RunExistsError, match=r"is not a run folder: it has no config.yaml"):
        train_run(tiny(**CONFIG), root=tmp_path, quiet=True, **asked)
    assert visible(folder) == ["precious"]


def test_a_run_with_checkpoints_resumes_without_its_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error for a damaged config gives this advice."""
    config = tiny(**CONFIG)
    full = train_run(config, root=tmp_path / "whole", quiet=True).folder
    folder = train_run(config, root=tmp_path, quiet=True).folder
    (folder / "report.json").unlink()
    (folder / "config.yaml").write_text("task: [copy\n")
    with pytest.raises(CheckpointError, match=r"Delete it, and .* --resume writes it again"):
        train_run(config, root=tmp_path, quiet=True, resume=True)
    (folder / "config.yaml").unlink()
    with pytest.raises(RunExistsError, match=r"it has no config\.yaml"):
        train_run(config, root=tmp_path, quiet=True, overwrite=True)
    train_run(config, root=tmp_path, quiet=True, resume=True)
    assert_same_run(full, folder)
    assert (folder / "config.yaml").read_text() == (full / "config.yaml").read_text()


def test_two_processes_cannot_train_one_run(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    folder = tmp_path / run_name(tiny(**CONFIG))
    with lock(folder), pytest.raises(RunBusyError, match="another process is at work"):
        train_run(tiny(**CONFIG), root=tmp_path, quiet=True)
    assert visible(tmp_path) == []


def test_the_error_names_the_process_that_holds_a_run_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has host, process and job; without file locks it has advice on stale locks."""
    monkeypatch.setenv("SLURM_JOB_ID", "71")
    folder = tmp_path / "run"
    me = rf"process {os.getpid()} on .*, job SLURM_JOB_ID=71; wait for it or stop it"
    with lock(folder), pytest.raises(RunBusyError, match=me), lock(folder):
        pass

    def refuse(self: object) -> None:
        raise NotImplementedError("no flock here")

    monkeypatch.setattr(run_lock.FileLock, "_acquire", refuse)
    gone = pytest.raises(RunBusyError, match="If it no longer exists, delete")
    with lock(folder), gone, lock(folder):
        pass
    with lock(folder):
        pass  # it went with its holder
    monkeypatch.setattr(run_lock.SoftFileLock, "_acquire", refuse)
    with pytest.raises(StorageError, match="no lock can be made at"), lock(folder):
        pass


def test_the_lock_error_on_a_disk_without_flock_has_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """filelock 4 switches to a soft lock without an error, which once lost the advice."""
    fcntl = pytest.importorskip("fcntl")

    def refuse(*given: object) -> None:
        raise OSError(errno.ENOSYS, "no flock here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = tmp_path / "run"
    advice = "If it no longer exists, delete .*run"
    with lock(folder), pytest.raises(RunBusyError, match=advice), lock(folder):
        pass
    with lock(folder):
        pass  # it went with its holder


def test_a_run_that_cannot_start_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a too large model, or a failing disk, left a folder."""

    def refuse(*given: object, **options: object) -> None:
        raise MemoryError("Unable to allocate 363 GiB")

    monkeypatch.setattr(run_module.Run, "train", refuse)
    with pytest.raises(MemoryError):
        train_run(tiny(**CONFIG), root=tmp_path, quiet=True)
    assert visible(tmp_path) == []
    monkeypatch.undo()

    def fail(*given: object, **options: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(checkpoint.Checkpoints, "save", fail)
    monkeypatch.setattr(metrics_log.MetricsLog, "append", fail)
    with pytest.raises(StorageError, match="the disk is full"):
        train_run(tiny(**CONFIG), root=tmp_path, quiet=True)
    assert visible(tmp_path) == []


def test_a_trained_run_is_kept_if_saving_the_model_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **options: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(RunFolder, "save_model", fail)
    with pytest.raises(StorageError):
        train_run(tiny(**CONFIG), root=tmp_path, quiet=True)
    assert visible(tmp_path) == [run_name(tiny(**CONFIG))]


@pytest.mark.parametrize("root", ["runs", "several/runs"])
def test_a_start_that_fails_leaves_no_new_folder(tmp_path: Path, root: str) -> None:
    """Once it left RUNS/.locks."""
    with pytest.raises(ConfigError, match="enough"), lock(tmp_path / root / "run"):
        raise ConfigError(["enough"])
    assert list(tmp_path.iterdir()) == []
    # Files from before or from the meantime are kept.
    (tmp_path / root).mkdir(parents=True)
    with pytest.raises(ConfigError, match="enough"), lock(tmp_path / root / "run"):
        raise ConfigError(["enough"])
    assert list((tmp_path / root).iterdir()) == []
    with lock(tmp_path / root / "run"):
        (tmp_path / root / "run").mkdir()
    with pytest.raises(ConfigError, match="enough"), lock(tmp_path / root / "other"):
        raise ConfigError(["enough"])
    assert (tmp_path / root / ".locks").is_dir()
    assert (tmp_path / root / "run").is_dir()
