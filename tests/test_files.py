from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from tests.metrics import read_metrics
from unbounded.errors import StorageError
from unbounded.files import json_text, replacing, write_bytes, write_text
from unbounded.training.metrics_log import MetricsLog


def test_cut_keeps_the_lines_a_checkpoint_counts(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for number in range(5):
        log.append({"kind": "train", "batch": number})
    with log.path.open("a") as stream:
        stream.write('{"kind": "tra')  # a line that a crash cut short
    assert [line["batch"] for line in read_metrics(log.path)] == [0, 1, 2, 3, 4]
    log.cut(5)
    assert len(log.path.read_text().splitlines()) == 5
    log.cut(2)
    assert [line["batch"] for line in read_metrics(log.path)] == [0, 1]
    log.cut(0)
    assert log.path.read_bytes() == b""


def test_cut_says_how_many_lines_there_are(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.append({"batch": 1})
    assert log.cut(3) == 1
    assert log.cut(1) == 1
    log.path.unlink()
    assert log.cut(2) == 0


def test_what_is_not_finite_becomes_null() -> None:
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


def test_a_draft_that_is_given_up_leaves_the_old_file(tmp_path: Path) -> None:
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
