import contextlib
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.failing import failing
from unbounded.cli import main
from unbounded.cli.sample import sample
from unbounded.errors import ChoiceError, ConfigError, StorageError
from unbounded.tasks import SPLITS, LengthRange, make_task


def test_prints_a_line_an_example(capsys):
    task = make_task("reversal")
    sample(task, 300, seed=4, split="test", lengths=LengthRange(3, 5))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(e) for e in task.examples(4, "test", 0, 300, LengthRange(3, 5))]
    source, target = lines[0].split(" ||| ")
    assert source.split() == target.split()[::-1]


def test_writes_json_lines(tmp_path, capsys):
    task, out = make_task("gender"), tmp_path / "pairs.jsonl"
    sample(task, 3, seed=1, out=out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["index"] for row in rows] == [0, 1, 2]
    for row in rows:
        example = task.example(1, "train", row["index"])
        assert row == {
            "task": "gender",
            "seed": 1,
            "split": "train",
            "index": row["index"],
            "source": list(example.source),
            "target": list(example.target),
        }
    assert capsys.readouterr().out == f"wrote 3 examples to {out}\n"
    assert list(tmp_path.iterdir()) == [out]


def test_a_single_example_is_counted_as_one(tmp_path, capsys):
    sample(make_task("copy"), 1, out=tmp_path / "one.jsonl")
    assert capsys.readouterr().out.startswith("wrote 1 example to ")


@pytest.mark.parametrize(
    ("option", "hint"),
    [("--computation", "Did you mean '--task.computation'?"), ("--count", "it is -n")],
)
def test_an_unknown_option_names_the_intended_one(option, hint, capsys):
    assert hint in failing(capsys, "sample", "parity_check", option, "2")


def test_an_existing_file_is_replaced_only_on_request(tmp_path):
    out = tmp_path / "pairs.jsonl"
    out.write_text("mine")
    with pytest.raises(ConfigError, match=r"out: .*pairs.jsonl exists"):
        sample(make_task("copy"), out=out)
    assert out.read_text() == "mine"
    sample(make_task("copy"), 2, out=out, overwrite=True)
    assert len(out.read_text().splitlines()) == 2


def test_an_invalid_output_path_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r"out: there is no folder .*none; make it first"):
        sample(make_task("copy"), out=tmp_path / "none" / "pairs.jsonl")
    with pytest.raises(ConfigError, match=r"out: .* is a folder; name a file in it"):
        sample(make_task("copy"), out=tmp_path)


def test_a_failed_write_is_a_storage_error(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(StorageError, match=r"pairs.jsonl failed: Read-only file system"):
            sample(make_task("copy"), out=tmp_path / "pairs.jsonl")


def test_an_error_during_sampling_leaves_no_file(tmp_path):
    with pytest.raises(ConfigError, match="derives no sentence"):
        sample(make_task("gender"), lengths=LengthRange(1, 2), out=tmp_path / "pairs.jsonl")
    assert not list(tmp_path.iterdir())


def own_data(folder: Path, name: str) -> list[str]:
    """Arguments for data whose split "train" has 24 examples."""
    if name == "text":
        for split, count in (("train", 24), ("valid", 3), ("test", 2)):
            (folder / f"{split}.txt").write_text("a b c\n" * count)
        return ["text", "--data", str(folder)]
    lines = [f"w{k}{' x' * (k % 3)}\tv{k}" for k in range(40)]
    path = folder / "pairs.tsv"
    for count in range(1, len(lines) + 1):
        path.write_text("\n".join(lines[:count]) + "\n")
        with contextlib.suppress(ConfigError):  # a split has no line yet
            task = make_task("pairs", data=path)
            if task.available("train", task.train_lengths) == 24:
                break
    return ["pairs", "--data", str(path)]


@pytest.mark.parametrize("name", ["text", "pairs"])
def test_more_examples_than_available_are_an_error(tmp_path, capsys, name):
    given = own_data(tmp_path, name)
    assert main(["sample", *given, "-n", "24"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 24
    out = tmp_path / "examples.jsonl"
    for more in ([], ["--out", str(out)]):
        message = failing(capsys, "sample", *given, "-n", "300", *more)
        assert f"-n: expected at most 24, as many as {name} has for train, got 300" in message
    assert not out.exists()
    task = make_task(name, data=given[2])
    with pytest.raises(ConfigError, match=r"n: expected at most \d+, as many as \w+ has for test"):
        sample(task, 25, split="test")
    if name == "pairs":
        there = task.available("train", LengthRange(1, 1))
        message = failing(capsys, "sample", *given, "-n", "24", "--lengths", "1:1")
        assert (
            f"-n: expected at most {there}, as many as pairs has for train, of lengths 1" in message
        )
        message = failing(capsys, "sample", *given, "--lengths", "7:9")
        assert "has no line for train with a source of length 7:9" in message
    else:
        assert [task.available(split, LengthRange(1, 2)) for split in SPLITS] == [24, 3, 2]
        with pytest.raises(ChoiceError, match="unknown split 'tst'"):
            task.available("tst", task.train_lengths)


def test_all_examples_are_shown_if_there_are_few(tmp_path, capsys):
    given = own_data(tmp_path, "text")
    assert main(["sample", *given, "--split", "test"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    sample(make_task("text", data=given[2]), split="test")
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["sample", "copy"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize("n", [0, -3, 1.5])
def test_bad_number(n):
    with pytest.raises(ConfigError, match="n: expected an integer from 1"):
        sample(make_task("copy"), n)


def test_bad_split():
    with pytest.raises(ChoiceError, match="unknown split"):
        sample(make_task("copy"), split="dev")


def test_a_closed_pipe_is_no_error():
    code = (
        "from unbounded.cli.sample import sample\n"
        "from unbounded.tasks import make_task\n"
        "sample(make_task('copy'), 20_000)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert " ||| " in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_a_hint_of_the_task_is_printed_to_stderr(tmp_path, capsys):
    """Once `train --quiet` and `sample` hid that characters were read as words."""
    data = tmp_path / "pairs.txt"
    data.write_text("".join(f"word{k}\tdrow{k}\n" for k in range(60)))
    assert main(["sample", "pairs", "--data", str(data), "-n", "2"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err.startswith(f"each source of {data} is one word")
    arguments = ["train", "pairs", "--data", str(data), "--runs", str(tmp_path / "runs")]
    sizes = ["--training.batches", "1", "--model.hidden_size", "4", "--evaluation.count", "2"]
    assert main([*arguments, *sizes, "--quiet"]) == 0
    assert f"each source of {data} is one word" in capsys.readouterr().err
