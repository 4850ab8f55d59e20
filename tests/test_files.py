from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors

from tests.experiments.tiny import tiny
from tests.metrics import read_metrics
from unbounded.cli import main
from unbounded.errors import CheckpointError, CheckpointWarning, StorageError, say_once
from unbounded.experiments.run.run import train_run
from unbounded.files import json_text, replacing, write_bytes, write_text
from unbounded.models import MemoryModel
from unbounded.rnn import load_trace
from unbounded.rnn.trace import load_run_trace
from unbounded.training.checkpoint import checkpoint_folders, verify
from unbounded.training.metrics_log import MetricsLog


def test_cut_keeps_the_lines_a_checkpoint_counts(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for number in range(5):
        log.append({"kind": "train", "batch": number})
    with log.path.open("a") as stream:
        stream.write('{"kind": "tra')  # a line truncated by a crash
    assert [line["batch"] for line in read_metrics(log.path)] == [0, 1, 2, 3, 4]
    log.cut(5)
    assert len(log.path.read_text().splitlines()) == 5
    log.cut(2)
    assert [line["batch"] for line in read_metrics(log.path)] == [0, 1]
    log.cut(0)
    assert log.path.read_bytes() == b""


def test_cut_returns_the_number_of_lines(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"batch": 1})
    assert log.cut(3) == 1
    assert log.cut(1) == 1
    log.path.unlink()
    assert log.cut(2) == 0


def test_non_finite_numbers_become_null() -> None:
    assert json_text({"a": [float("nan"), (1.5, float("inf"))]}) == '{"a": [null, [1.5, null]]}'


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.path.symlink_to("/dev/full")
    with pytest.raises(StorageError, match=r"writing .*metrics\.jsonl failed: No space left"):
        log.append({"batch": 1})


def test_write_text_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.json"
    write_text(path, "old")

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(StorageError, match=r"report\.json failed: Read-only file system"):
        write_text(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
    assert path.read_text() == "old"


def test_an_abandoned_draft_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    write_text(path, "old")
    with contextlib.suppress(KeyboardInterrupt), replacing(path) as draft:
        draft.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_link_stays_a_link_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "told")
    assert os.read(reader, 9) == b"told"
    os.close(reader)


def unreadable(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Make a file unreadable, also for root."""
    plain = Path.open

    def refuse(self: Path, *given: Any, **options: Any) -> Any:
        if self.resolve() == path.resolve():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return plain(self, *given, **options)

    monkeypatch.setattr(Path, "open", refuse)


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny(batches=2, accuracy_every=0, stop="budget", checkpoint_every=1)
    before = os.umask(0o022)
    try:
        return train_run(config, root=tmp_path_factory.mktemp("whole"), quiet=True).folder
    finally:
        os.umask(before)


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / trained_run.name))


def test_all_files_of_a_run_have_the_usual_mode(trained_run: Path) -> None:
    """Once weights had mode 0600."""
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in trained_run.rglob("*") if path.is_file()
    }
    assert "model.safetensors" in modes
    assert set(modes.values()) == {0o644}, modes


def test_a_saved_model_has_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        MemoryModel(inputs=3, outputs=3, hidden_size=2).save_pretrained(tmp_path)
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.parametrize(
    "name", ["config.yaml", "report.json", "model/config.json", "model/model.safetensors"]
)
def test_an_unreadable_file_is_not_reported_as_damaged(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Once the message called it damaged and advised to delete it."""
    unreadable(monkeypatch, run / name)
    verb = ["verify"] if name == "report.json" else ["evaluate", "--count", "1"]
    assert main([verb[0], str(run), *verb[1:]]) == 2
    text = capsys.readouterr().err
    assert f"{run / name} cannot be read or written: permission denied." in text
    assert "chmod" in text
    assert "damaged" not in text
    assert "elete" not in text


@pytest.mark.parametrize("name", ["manifest.json", "loop.json", "model.safetensors"])
def test_an_unreadable_checkpoint_is_not_reported_as_damaged(
    run: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    newest = checkpoint_folders(run / "checkpoints")[0]
    unreadable(monkeypatch, newest / name)
    with pytest.raises(CheckpointError, match="permission denied") as caught:
        verify(newest)
    assert "damaged" not in str(caught.value)


def test_nothing_is_written_through_a_link_in_a_run(run: Path, tmp_path: Path) -> None:
    """Links inside a run are not followed."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    for name in ("evaluations", "traces", "automaton"):
        shutil.rmtree(run / name, ignore_errors=True)
        (run / name).symlink_to(precious)
    (run / "explore.html").symlink_to(precious / "file")
    (run / "verification-model.json").symlink_to(precious / "file")
    for path in (
        run / "evaluations" / "a.json",
        run / "traces" / "a.json",
        run / "automaton" / "a.txt",
        run / "explore.html",
        run / "verification-model.json",
    ):
        with pytest.raises(StorageError, match="expected a file or folder of the run, got a link"):
            write_text(path, "theirs")
        with pytest.raises(StorageError, match=r"Remove the link\."):
            write_bytes(path, b"theirs")
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(precious / "file")
    with pytest.raises(StorageError, match="got a link"):
        MetricsLog(run / "metrics.jsonl").append({"batch": 1})
    assert [path.name for path in precious.iterdir()] == ["file"]
    assert (precious / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "--count", "1", "--lengths", "2:3"),
        ("explore", "--no-open", "--overwrite"),
        ("verify", "--most", "2", "--times", "0", "--overwrite"),
    ],
)
def test_no_command_writes_through_a_link(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    shutil.rmtree(run / "evaluations", ignore_errors=True)
    (run / "evaluations").symlink_to(precious)
    for name in ("explore.html", "verification-model.json"):
        (run / name).symlink_to(precious / "file")
    assert main([arguments[0], str(run), *arguments[1:]]) == 2
    assert "got a link" in capsys.readouterr().err
    assert [path.name for path in precious.iterdir()] == ["file"]
    assert (precious / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [("evaluate", "--count", "1"), ("explore", "--no-open"), ("resume",)]
)
def test_an_older_checkpoint_is_reported_as_such(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """Once evaluate and explore called an older one the newest, and actions gave no message."""
    shutil.rmtree(run / "model")
    (run / "report.json").unlink()
    newest, older = checkpoint_folders(run / "checkpoints")
    (newest / "model.safetensors").write_bytes(b"damaged")
    say_once.cache_clear()
    if arguments[0] == "resume":
        config = tiny(batches=2, accuracy_every=0, stop="budget", checkpoint_every=1)
        train_run(config, root=run.parent, resume=True)
        text = "".join(capsys.readouterr())
    else:
        with pytest.warns(CheckpointWarning) as warned:
            assert main([arguments[0], str(run), *arguments[1:]]) == 0
        text = str(warned[0].message)
        assert "newest checkpoint" not in "".join(capsys.readouterr())
    assert f"{newest / 'model.safetensors'} is truncated" in text
    assert f"{older} is taken instead" in text


@pytest.mark.parametrize("load", [load_trace, load_run_trace])
def test_the_error_for_an_unreadable_trace_has_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Any
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = tmp_path / "trace.json"
    path.write_text("{}")
    unreadable(monkeypatch, path)
    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(safetensors, "safe_open", refuse)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}: permission denied. The file may be whole. Ask its owner, or change its mode "
        "(chmod)."
    )
