from __future__ import annotations

import errno
import hashlib
import json
import os
import pickle
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file

from tests.experiments.tiny import assert_same_run, tiny
from unbounded.errors import CheckpointError, CheckpointWarning, StorageError
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.run import train_run
from unbounded.training.checkpoint import checkpoint_folders, verify

CONFIG = {"accuracy_every": 0}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tiny(**CONFIG), root=tmp_path_factory.mktemp("whole"), quiet=True).folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of a run just before its end: two checkpoints, no report, no model."""
    folder = tmp_path / finished.name
    shutil.copytree(finished, folder)
    (folder / "report.json").unlink()
    shutil.rmtree(folder / "model")
    return folder


def newest(run: Path) -> Path:
    return checkpoint_folders(run / "checkpoints")[0]


def resume(run: Path) -> Path:
    return train_run(tiny(**CONFIG), root=run.parent, resume=True).folder


def reseal(folder: Path, name: str) -> None:
    """Update the manifest for an exchanged file, as an attacker would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    content = (folder / name).read_bytes()
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["files"][name] = entry
    path.write_text(json.dumps(manifest))


NAMES = ["model.safetensors", "optimizer.bin", "scheduler.bin", "loop.json", "manifest.json"]


@pytest.mark.parametrize("name", [*NAMES, "random_states_0.pkl"])
def test_a_truncated_checkpoint_is_named_and_the_previous_one_used(
    finished: Path, run: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = newest(run) / name
    damaged.write_bytes(damaged.read_bytes()[:-7])
    assert_same_run(finished, resume(run))
    output = capsys.readouterr().out
    assert str(damaged) in output
    assert f"{run / 'checkpoints' / 'batch-000000030'} is taken instead" in output
    assert "continuing after batch 30" in output


def test_one_flipped_bit_is_found(run: Path) -> None:
    path = newest(run) / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
        verify(newest(run))


def test_foreign_folders_and_foreign_runs_are_ignored(
    finished: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = run / "checkpoints" / "batch-000000099"
    foreign.mkdir()
    (foreign / "manifest.json").write_text('{"format": "something else"}')
    listed, bare = (run / "checkpoints" / f"batch-00000009{place}" for place in (7, 6))
    listed.mkdir()
    (listed / "manifest.json").write_text("[]")
    bare.mkdir()
    stranger = run / "checkpoints" / "batch-000000098"
    shutil.copytree(newest(finished), stranger)
    manifest = json.loads((stranger / "manifest.json").read_text())
    (stranger / "manifest.json").write_text(json.dumps({**manifest, "run": "other-run"}))
    resume(run)
    output = capsys.readouterr().out
    assert f"{foreign / 'manifest.json'} is not the manifest of a checkpoint" in output
    assert "is not the manifest of a checkpoint: expected an object, got list" in output
    assert f"{bare / 'manifest.json'} is missing" in output
    assert f"checkpoint {stranger} belongs to another run: other-run" in output


def test_an_error_names_every_checkpoint_if_none_can_be_used(run: Path) -> None:
    for folder in checkpoint_folders(run / "checkpoints"):
        (folder / "optimizer.bin").unlink()
    with pytest.raises(CheckpointError) as caught:
        resume(run)
    assert "no checkpoint can be used; --overwrite starts over" in str(caught.value)
    for folder in checkpoint_folders(run / "checkpoints"):
        assert f"{folder / 'optimizer.bin'} is missing" in str(caught.value)


def test_weights_that_are_missing_are_named(run: Path) -> None:
    for folder in checkpoint_folders(run / "checkpoints"):
        weights = load_file(folder / "model.safetensors")
        name = sorted(weights)[0]
        del weights[name]
        save_file(weights, folder / "model.safetensors")
        reseal(folder, "model.safetensors")
    with pytest.raises(CheckpointError, match=f"does not fit .*{name}"):
        resume(run)


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("name", ["optimizer.bin", "scheduler.bin", "random_states_0.pkl"])
@pytest.mark.parametrize("torch_file", [True, False])
def test_loading_a_checkpoint_runs_no_code(run: Path, name: str, torch_file: bool) -> None:
    mark = run.parent / "code-was-run"
    for folder in checkpoint_folders(run / "checkpoints"):
        if torch_file:
            torch.save(Evil(mark), folder / name)
        else:
            (folder / name).write_bytes(pickle.dumps(Evil(mark)))
        reseal(folder, name)
    mark.unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match="does not fit or cannot be read"):
        resume(run)
    assert not mark.exists()


def test_a_name_that_leaves_the_folder_is_refused(run: Path) -> None:
    path = newest(run) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["files"]["../../config.yaml"] = {"bytes": 1, "sha256": ""}
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="is missing from the checkpoint"):
        verify(newest(run))


def test_a_shortened_metrics_file_is_reported_and_training_continues(
    finished: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(newest(run))  # at batch 40, so that there is something left to train
    path = run / "metrics.jsonl"
    first, _, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first)
    resume(run)
    output = capsys.readouterr().out
    assert f"warning: {path} has 1 of the " in output
    weights = [load_file(newest(folder) / "model.safetensors") for folder in (finished, run)]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    assert path.read_bytes().count(b"\n") < len(rest) + 2
    # The new checkpoint counts the existing lines.
    (run / "report.json").unlink()
    resume(run)
    assert "warning" not in capsys.readouterr().out


def test_evaluation_uses_the_previous_checkpoint(run: Path) -> None:
    (newest(run) / "model.safetensors").write_bytes(b"short")
    with pytest.warns(CheckpointWarning, match="is truncated: 5 of .*batch-000000030 is taken"):
        report = evaluate_run(run, lengths=None, split="test", count=5)
    assert report["weights"] == "checkpoints/batch-000000030"
    assert report["weights_batch"] == 30
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(CheckpointError, match="has no model that can be used"):
        evaluate_run(run, lengths=None, split="test", count=5)


@pytest.mark.parametrize("step", ["sync", "rename"])
def test_a_refused_write_leaves_the_last_checkpoint(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The disk fails while the third checkpoint is written."""
    real = {"sync": os.fsync, "rename": os.rename}[step]
    folder = tmp_path / run_name(tiny(**CONFIG))

    def refuse(*arguments: Any) -> None:
        if (folder / "checkpoints" / "batch-000000030").exists():
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync" if step == "sync" else "rename", refuse)
        with pytest.raises(StorageError, match="Read-only file system"):
            train_run(tiny(**CONFIG), root=tmp_path, quiet=True)
    left = [path.name for path in (folder / "checkpoints").iterdir()]
    assert sorted(left) == ["batch-000000015", "batch-000000030"]
    train_run(tiny(**CONFIG), root=tmp_path, quiet=True, resume=True)
    assert_same_run(finished, folder)


def test_a_renamed_checkpoint_is_used_until_it_is_replaced(finished: Path, run: Path) -> None:
    """The state after a kill between the two renames of a checkpoint that replaces another."""
    for folder in checkpoint_folders(run / "checkpoints")[1:]:
        shutil.rmtree(folder)
    only = newest(run)
    aside = only.with_name(f".partial-old-{only.name}")
    shutil.copytree(only, aside)
    assert checkpoint_folders(run / "checkpoints") == [only]
    shutil.rmtree(only)
    assert checkpoint_folders(run / "checkpoints") == [aside]
    assert evaluate_run(run)["weights_batch"] == 40
    rows = json.loads((finished / "report.json").read_text())["rows"]
    assert json.loads((resume(run) / "report.json").read_text())["rows"] == rows


def test_a_renamed_checkpoint_is_restored_before_the_next_write(run: Path) -> None:
    (last, before) = checkpoint_folders(run / "checkpoints")
    shutil.rmtree(last)
    before.rename(before.with_name(f".partial-old-{before.name}"))
    folder = resume(run) / "checkpoints"
    assert [path.name for path in sorted(folder.iterdir())] == [before.name, last.name]


def test_a_failed_write_of_a_library_reports_the_free_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")

    monkeypatch.setattr(Accelerator, "save_state", refuse)
    with pytest.raises(StorageError, match=r"failed: the disk has \d+ MiB free and refused a"):
        train_run(tiny(**CONFIG), root=tmp_path, quiet=True)


@pytest.mark.parametrize("refusal", ["CUDA out of memory. Tried to", "MPS backend out of memory"])
def test_an_error_of_a_gpu_is_not_reported_as_the_disks(
    refusal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise torch.OutOfMemoryError(refusal)

    monkeypatch.setattr(Accelerator, "save_state", refuse)
    with pytest.raises(torch.OutOfMemoryError):
        train_run(tiny(**CONFIG), root=tmp_path, quiet=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        done = False
    if not done:
        pytest.skip("cannot mount a small tmpfs here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_the_last_checkpoint(finished: Path, small_disk: Path) -> None:
    filler = small_disk / "filler"
    config = tiny(**CONFIG)
    folder = small_disk / run_name(config)
    # First a run that fits up to its first checkpoint, then no room for the next one.
    filler.write_bytes(b"x" * 170_000)
    with pytest.raises(StorageError, match="failed"):
        train_run(config, root=small_disk, quiet=True)
    for checkpoint in (folder / "checkpoints").iterdir():
        verify(checkpoint)
    filler.unlink()
    train_run(config, root=small_disk, quiet=True, resume=True)
    assert_same_run(finished, folder)
