"""The file of a study: whole or as before, the same bytes again, and safe with two writers."""

from __future__ import annotations

import lzma
import multiprocessing
from pathlib import Path

import pytest

from unbounded.errors import CheckpointError
from unbounded.experiments.tables.study_file import (
    RUNS,
    add_to_study_file,
    pack_study_file,
    read_study_file,
    write_study_file,
)


def test_objects_come_back_and_the_same_objects_give_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "out" / RUNS
    assert read_study_file(path) == {}
    write_study_file(path, {"b": {"x": 1}, "a": {"text": "line\u2028 \u00e9", "nan": float("nan")}})
    assert read_study_file(path) == {"a": {"text": "line\u2028 \u00e9", "nan": None}, "b": {"x": 1}}
    before = path.read_bytes(), path.stat().st_mtime_ns
    add_to_study_file(path, {"b": {"x": 1}})
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    add_to_study_file(path, {"b": {"x": 2}, "c": {}})
    assert path.read_bytes().startswith(before[0])  # appended
    after = {"a": {"text": "line\u2028 \u00e9", "nan": None}, "b": {"x": 2}, "c": {}}
    assert read_study_file(path) == after
    pack_study_file(path)
    packed = path.read_bytes()
    assert read_study_file(path) == after
    write_study_file(path, after)
    assert path.read_bytes() == packed
    pack_study_file(tmp_path / "none")
    assert not (tmp_path / "none").exists()


LINE = b'{"run": "a"}\n'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no xz",
        lzma.compress(LINE)[:-5],
        lzma.compress(LINE) + b"more",
        lzma.compress(LINE + LINE),
        lzma.compress(b"[1]"),
        lzma.compress(b"{}"),
        lzma.compress(b"\xff"),
        lzma.compress(b"[" * 100_000),
    ],
    ids=["empty", "foreign", "cut", "longer", "twice", "list", "unnamed", "bytes", "brackets"],
)
def test_damage_is_named_with_what_to_do(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / RUNS
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"runs\.jsonl\.xz is damaged: .*git checkout"):
        read_study_file(path)
    with pytest.raises(CheckpointError, match="is damaged"):
        add_to_study_file(path, {"b": {}})
    assert path.read_bytes() == data


def add_ten(path: Path, writer: str) -> None:
    for number in range(10):
        add_to_study_file(path, {f"{writer}{number}": {"number": number}})


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / RUNS
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=add_ten, args=(path, writer)) for writer in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(read_study_file(path)) == 20
