"""`unbounded train`: its results, the next commands it prints, and its errors."""

from __future__ import annotations

import json
import math
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.failing import Capture, failing
from tests.experiments.tiny import tiny, tiny_arguments
from tests.experiments.tiny_streams import tiny_streams
from unbounded.cli import main
from unbounded.cli.train import _say_next
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.run import trackers
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.run import train_run
from unbounded.tasks import make_task
from unbounded.training import OBJECTIVES


@pytest.mark.parametrize("below", ["", "below/it"])
def test_a_runs_folder_that_is_a_file_is_an_error(
    below: str, capsys: Capture, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    message = failing(capsys, *tiny_arguments(file / below, batches=1))
    assert (
        f"the folder of runs {file / below} cannot be made: {file} is not a folder; name" in message
    )
    assert ".locks" not in message


@pytest.mark.parametrize("verb", ["train", "sample"])
def test_a_text_needs_its_folder(
    verb: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "data: give the folder of ptb.train.txt" in failing(capsys, verb, "penn_treebank")
    message = failing(capsys, verb, "penn_treebank", "--data", str(tmp_path))
    assert (
        f"--data: {tmp_path}: it has none of ptb.train.txt, ptb.valid.txt, ptb.test.txt" in message
    )
    assert message.count("ptb.train.txt") == 1
    assert "task:" not in message
    for name in ("train", "valid", "test"):
        (tmp_path / f"ptb.{name}.txt").write_text("a b\n")
    message = failing(capsys, verb, "penn_treebank", "--data", str(tmp_path))
    assert "expected 929589 tokens with <eos>, got 3" in message
    assert not (tmp_path / "runs").exists()
    message = failing(capsys, verb, "anbn", "--data", str(tmp_path))
    assert "--data: the task 'anbn' reads no data" in message


def test_sentences_of_a_text(capsys: Capture, tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"ptb.{name}.txt").write_text("the cat sat\n")
    any_text = ("--data", str(tmp_path), "--task.published_counts", "false")
    assert main(["sample", "penn_treebank", "-n", "1", *any_text]) == 0
    assert "the cat sat" in capsys.readouterr().out
    message = failing(capsys, "sample", "penn_treebank", "--lengths", "4:5", *any_text)
    assert "lengths: a text has no lengths to choose, got 4:5" in message


def test_restarts_on_the_command_line(capsys: Capture, tmp_path: Path) -> None:
    arguments = tiny_arguments(tmp_path, batches=2, accuracy_every=0, report_every=1)
    assert main([*arguments, "--restarts", "2", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "copy, 2 restarts, the best by training perplexity: copy-queue-lstm-" in out
    assert "test exact match 1.00: " in out
    message = failing(capsys, "train", "copy", "--restarts", "0", "--jobs", "2")
    assert "restarts: expected at least 1, got 0" in message
    message = failing(capsys, "train", "copy", "--jobs", "2")
    assert "jobs: works only with several runs; give --restarts too" in message
    several = ("--restarts", "2", "--jobs", "2", "--hardware.threads")
    message = failing(capsys, "train", "copy", *several, "3")
    assert "hardware.threads: concurrent restarts have one thread each; leave it out" in message
    assert main(["train", "copy", *several, "1", "--print_config"]) == 0


def test_a_run_on_streams_prints_the_next_commands(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_streams(batches=40, learning_rate=0.1, report_every=20, checkpoint_every=20)
    file = tmp_path / "tiny.yaml"
    file.write_text(json.dumps(to_dict(config)))
    command = ["train", "--config", str(file), "--runs", str(tmp_path / "two words")]
    assert main(command) == 0
    *_, first, second = capsys.readouterr().out.splitlines()
    for line, options in ((first, []), (second, ["--batches", "1"])):
        program, *arguments = shlex.split(line, comments=True)
        assert program == "unbounded"
        assert main([*arguments, *options]) == 0
    output = capsys.readouterr().out
    assert "as trained:" in output
    assert "hardened" in output
    assert failing(capsys, *arguments).endswith("--overwrite hardens it again\n")
    # A worse hardened model is not accepted: there is only the trained model.
    place = "unbounded.experiments.run.hardening_phase.worse_sets"
    monkeypatch.setattr(place, lambda sets, before, after: ["lengths 2:4"])
    options = ["--harden", "--hardening.batches", "1", "--restarts", "1"]
    assert main([*command, *options]) == 0
    *_, explore, actions, verify = capsys.readouterr().out.splitlines()
    assert explore.split()[:2] == ["unbounded", "explore"]
    assert verify.split()[:2] == ["unbounded", "verify"]
    assert "--hardened" not in explore + actions
    program, *arguments = shlex.split(actions)
    assert main(arguments) == 0
    assert main([*command, "--resume", "--quiet"]) == 0
    assert "next:" not in capsys.readouterr().out


@pytest.fixture(scope="module")
def hardened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny_streams(batches=1)
    config.hardening = {"name": "gradual", "batches": 1}
    return train_run(config, root=tmp_path_factory.mktemp("hardened"), quiet=True).folder


@pytest.mark.parametrize(
    ("harm", "correct"), [(True, 1), (False, 1), (None, 1), (False, 0), ("not hardened", 0)]
)
def test_the_next_commands_depend_on_the_hardened_model_and_its_score(
    harm: bool | str | None, correct: int, capsys: Capture, tmp_path: Path, hardened: Path
) -> None:
    """A model without correct sequences gets no advice to harden or verify it."""
    folder = Path(shutil.copytree(hardened, tmp_path / hardened.name))
    report = json.loads((folder / "report.json").read_text())
    report["hardened"]["harm"] = harm
    if harm is None:  # as in old reports
        del report["hardened"]["harm"]
    elif harm == "not hardened":
        del report["hardened"]
    report["validation"]["correct"] = correct
    (folder / "report.json").write_text(json.dumps(report))
    _say_next(tiny_streams(batches=1), make_task("anbn"), folder, quiet=False)
    heading, explore, actions, *verify = capsys.readouterr().out.splitlines()
    assert heading == "next:"
    assert explore.split()[:2] == ["unbounded", "explore"]
    assert ("--hardened" in explore, "--hardened" in actions) == (not harm, not harm)
    assert [line.split()[:2] for line in verify] == [["unbounded", "verify"]] * correct
    assert main(shlex.split(actions)[1:]) == 0


def test_hardening_is_suggested_only_if_some_sequences_are_correct(
    capsys: Capture, tmp_path: Path
) -> None:
    config = tiny(batches=1)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    _say_next(config, make_task("copy"), folder, quiet=False)
    assert "unbounded harden" not in capsys.readouterr().out
    report = json.loads((folder / "report.json").read_text())
    report["rows"][0]["correct"] = 1
    (folder / "report.json").write_text(json.dumps(report))
    _say_next(config, make_task("copy"), folder, False, ("mine", "other", "mine"))
    explore, harden = capsys.readouterr().out.splitlines()[1:]
    assert "unbounded harden" in harden
    assert all(" --import mine,other    # " in line for line in (explore, harden))


@pytest.mark.parametrize("more", [(), ("--restarts", "2")])
def test_resume_starts_a_missing_run(
    capsys: Capture, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """One command serves the first and each later attempt."""
    arguments = [*tiny_arguments(tmp_path, batches=2, accuracy_every=0), "--resume", *more]
    assert main(arguments) == 0
    folder = tmp_path / run_name(tiny(batches=2, accuracy_every=0))
    assert f"there is no run to resume: starting {folder}\n" in "".join(capsys.readouterr())
    assert main(arguments) == 0
    assert "there is no run" not in "".join(capsys.readouterr())


def test_resume_without_a_task_makes_no_folder(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it left a folder."""
    monkeypatch.chdir(tmp_path)
    assert "task: expected a task, got none" in failing(capsys, "train", "--resume")
    assert list(tmp_path.iterdir()) == []


def test_control_characters_of_a_report_are_escaped(capsys: Capture, tmp_path: Path) -> None:
    """A terminal must not execute text of a report."""
    arguments = tiny_arguments(tmp_path, batches=2, accuracy_every=0)
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("copy, split test, seed 3\n")  # only the result
    (path,) = tmp_path.glob("*/report.json")
    report = json.loads(path.read_text())
    path.write_text(json.dumps({**report, "stopped": "done\x1b[31m\x07"}))
    assert main([*arguments, "--resume"]) == 0
    out = capsys.readouterr().out
    assert "this run is finished: done?[31m?\n" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "copy", "--lengths", "1:99999999999"], "expected lengths of at most 1000000"),
        (["evaluate", "RUN", "--lengths", "1:99999999999"], "expected lengths of at most 1000000"),
        (["train", "copy", "--model.hidden_size", "1000000000"], "model.hidden_size: expected"),
        (["train", "copy", "--training.batch_size", "1000000000000"], "training.batch_size: expec"),
        (["train", "copy", "--config", "BINARY"], "is not text in UTF-8"),
        (["train", "--config=BINARY"], "is not text in UTF-8"),
    ],
)
def test_absurd_sizes_and_files(
    capsys: Capture, tmp_path: Path, arguments: list[str], message: str
) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00\x01")
    given = [each.replace("BINARY", str(path)) for each in arguments]
    assert message in failing(capsys, *given)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError("Unable to allocate 373. GiB"),
    ],
)
def test_too_little_memory_is_an_error_without_a_run_folder(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(Plan, "model", lambda _: (_ for _ in ()).throw(error))
    message = failing(capsys, *tiny_arguments(tmp_path))
    assert f"there is not enough memory for these sizes: {error}" in message
    assert not list(tmp_path.glob("copy*"))
    monkeypatch.setattr(Plan, "model", lambda _: (_ for _ in ()).throw(RuntimeError("bug")))
    with pytest.raises(RuntimeError, match="bug"):
        main(tiny_arguments(tmp_path))


@pytest.mark.parametrize(
    ("loss", "messages"),
    [
        (
            lambda logits, *rest: logits.sum() * math.inf,
            ("training stopped in batch 1", "the first bad tensor: loss ("),
        ),
        (  # Each number of the gradient is finite in 32 bits, its square is not.
            lambda logits, *rest: logits.mean() * 1e25,
            (
                "the first bad tensor: none, but the gradient's norm is",
                "a lower training.learning_rate",
            ),
        ),
    ],
)
def test_a_diverging_run_ends_with_code_3(
    loss: Any, messages: tuple[str, ...], capsys: Capture, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    sound = OBJECTIVES["cross_entropy"]
    monkeypatch.setitem(OBJECTIVES, "cross_entropy", sound._replace(loss=loss))
    assert main([*tiny_arguments(tmp_path), "--quiet"]) == 3
    err = capsys.readouterr().err
    assert all(message in err for message in messages), err


def test_tensorboard_is_written_on_request(capsys: Capture, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    assert main([*tiny_arguments(tmp_path, batches=20), "--log_with", "tensorboard"]) == 0
    assert list(tmp_path.glob("*/trackers/unbounded/events*"))


def test_missing_and_unknown_trackers_are_reported(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "get_available_trackers", list)
    message = failing(capsys, *tiny_arguments(tmp_path), "--log_with", "tensorboard, tensorbored")
    assert "log_with: tensorboard is not installed; pip install 'unbounded[tensorboard]'" in message
    assert "log_with: unknown tracker 'tensorbored'; valid: aim, " in message
    message = failing(capsys, *tiny_arguments(tmp_path), "--log_with", "wandb", "--jobs", "2")
    assert "--log_with needs sequential restarts" in message
    assert "--log_with NAME" in failing(capsys, *tiny_arguments(tmp_path), "--tensorboard")
