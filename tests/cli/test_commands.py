from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

import unbounded
from tests.experiments.tiny import tiny, tiny_arguments
from tests.experiments.tiny_streams import tiny_streams
from unbounded.cli import main
from unbounded.cli.main import VERBS
from unbounded.cli.names import NAMES
from unbounded.cli.train import _say_next
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.run import trackers
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.run import train_run
from unbounded.tasks import make_task
from unbounded.training import OBJECTIVES

Capture = pytest.CaptureFixture[str]


def failing(capsys: Capture, *arguments: str, code: int = 2) -> str:
    """What a command that fails says, on standard error alone and without a traceback."""
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("unbounded: ")
    return err


def test_help_shows_an_example(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "example:\n  unbounded train copy" in out
    for verb in VERBS:
        assert f"\n  {verb} " in out


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_each_verbs_help_shows_an_example(verb: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    assert f"\n  unbounded {verb}" in capsys.readouterr().out


def test_the_help_of_a_task_shows_its_preset(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["train", "anbn", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "or of each LSTM layer. (type: int, default: 40)" in shown
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "or of each LSTM layer. (type: int, default: 256)" in shown
    assert "else general ones, which presets override; --print_config prints" in shown


def test_no_command_shows_the_help_and_fails(capsys: Capture) -> None:
    assert main([]) == 2
    assert "usage: unbounded VERB" in capsys.readouterr().out


def test_unknown_command(capsys: Capture) -> None:
    assert "unknown command 'trian'. Did you mean 'train'?" in failing(capsys, "trian")


def test_unknown_task(capsys: Capture) -> None:
    assert "unknown task 'revrsal'. Did you mean 'reversal'?" in failing(capsys, "train", "revrsal")


def test_no_task(capsys: Capture) -> None:
    assert "task: none was named. Valid: anb2n, " in failing(capsys, "train")


def test_all_faults_of_a_command_line_together(capsys: Capture, tmp_path: Path) -> None:
    said = failing(
        capsys,
        *("train", "copy", "--seed", "x", "--model.memry", "queue", "--model.memory=heap"),
        *("--training.learning_rate", "-1", "--runs", str(tmp_path)),
    )
    assert "4 faults" in said
    assert "seed: expected an integer, got 'x'" in said
    assert "unknown option '--model.memry'. Did you mean '--model.memory'?" in said
    assert "model.memory: unknown memory 'heap'" in said
    assert "training.learning_rate: expected a number above 0" in said
    assert list(tmp_path.iterdir()) == []


def test_all_faults_of_a_config_file_together(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("task: copy\nseed: abc\nmodel: {memory: quue, hiden: 3}\n")
    said = failing(capsys, "train", "--config", str(path))
    assert "3 faults" in said
    assert "seed: expected an integer, got 'abc'" in said
    assert "unknown option '--model.hiden'. Did you mean '--model.hidden_size'?" in said
    assert "unknown memory 'quue'. Did you mean 'queue'?" in said


def test_the_config_of_a_run_folder_is_one(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("task: copy\nseed: 7\nused: {threads: 1, kernels: avx2}\n")
    assert main(["train", "--config", str(path), "--print_config"]) == 0
    assert "task: copy\ntask_options: {}\nseed: 7\n" in capsys.readouterr().out


def test_a_config_file_that_is_not_there(capsys: Capture) -> None:
    said = failing(capsys, "train", "copy", "--config", "nowhere.yaml")
    assert "config: nowhere.yaml: No such file or directory" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: [copy\n", "bad.yaml is not YAML, line 2, column 1: expected ',' or ']'"),
        ("- copy\n", "bad.yaml holds no options; expected lines such as 'task: copy'"),
        ("", "bad.yaml holds no options"),
    ],
)
def test_a_config_file_that_is_none_is_the_only_fault(
    text: str, message: str, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    said = failing(capsys, "train", "--config", str(path))
    assert "1 fault:" in said
    assert f"config: {tmp_path}" in said
    assert message in said


def test_values_of_another_type_are_named_in_words(capsys: Capture) -> None:
    given = {
        "--seed": ("1.5", "expected an integer, got '1.5'"),
        "--training.clip": ("x", "expected a number, got 'x'"),
        "--training.minutes": ("x", "expected a number or null, got 'x'"),
        "--machine.threads": ("x", "expected an integer or null, got 'x'"),
        "--model.output_bias": ("7", "expected true or false, got '7'"),
        "--task_options": ("3", "expected a mapping such as {name: value}, got '3'"),
        "--evaluation.lengths": ("3", "expected MINIMUM:MAXIMUM such as 65:128, got '3'"),
        "--model": ("queue", "expected the options below it, as in --model.NAME VALUE"),
    }
    options = [word for name, (value, _) in given.items() for word in (name, value)]
    said = failing(capsys, "train", "copy", *options, "--quiet=maybe", "--jobs")
    assert "10 faults" in said
    for name, (_, message) in given.items():
        assert f"  - {name.removeprefix('--')}: " in said
        assert message in said
    assert "quiet: it is given without a value, got 'maybe'" in said
    assert "jobs: expected an integer after it, got nothing" in said
    assert "class" not in said
    assert "runs: expected a path after it, got nothing" in failing(
        capsys, "train", "copy", "--runs"
    )


@pytest.mark.parametrize("below", ["", "below/it"])
def test_runs_in_the_place_of_a_file(below: str, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    said = failing(capsys, *tiny_arguments(file / below, batches=1))
    assert f"the folder of runs {file / below} cannot be made: {file} is not a folder; name" in said
    assert ".locks" not in said


def test_numbers_out_of_range_of_examples(capsys: Capture) -> None:
    said = failing(capsys, "sample", "copy", "-n", "0", "--seed", "-1", "--split", "tst")
    assert "-n: expected a number at least 1, got 0" in said
    assert "--seed: expected a number at least 0, got -1" in said
    assert "--split: unknown split 'tst'. Did you mean 'test'?" in said
    said = failing(capsys, "sample", "copy", "--seed", str(2**64))
    assert f"--seed: expected a number at most {2**64 - 1}, got {2**64}" in said


def test_precedence_is_preset_file_option(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("task: reversal\nmodel: {hidden_size: 7, memory: {width: 9}}\n")
    given = ["train", "--model.hidden_size", "5", "--config", str(path)]
    assert main([*given, "--model.hidden_size", "5", "--print_config"]) == 0
    out = capsys.readouterr().out
    assert "name: stack" in out  # the preset of reversal
    assert "width: 9" in out  # the file
    assert "hidden_size: 5" in out  # the option


def test_a_protocol_changes_the_preset_and_options_change_both(capsys: Capture) -> None:
    given = ["--protocol", "paper", "--training.clip", "7", "--print_config"]
    assert main(["train", "anbn", *given]) == 0
    out = capsys.readouterr().out
    assert "optimizer: sgd" in out
    assert "hidden_size: 40" in out
    assert "clip: 7.0" in out
    said = failing(capsys, "train", "anbn", "--protocol=papers")
    assert "unknown protocol 'papers'. Did you mean 'paper'?" in said


@pytest.mark.parametrize("verb", ["train", "sample"])
def test_a_text_needs_its_folder(
    verb: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "data: give the folder of ptb.train.txt" in failing(capsys, verb, "penn_treebank")
    said = failing(capsys, verb, "penn_treebank", "--data", str(tmp_path))
    assert f"--data: {tmp_path}: it has none of ptb.train.txt, ptb.valid.txt, ptb.test.txt" in said
    assert said.count("ptb.train.txt") == 1
    assert "task:" not in said
    for name in ("train", "valid", "test"):
        (tmp_path / f"ptb.{name}.txt").write_text("a b\n")
    said = failing(capsys, verb, "penn_treebank", "--data", str(tmp_path))
    assert "expected 929589 tokens with <eos>, got 3" in said
    assert not (tmp_path / "runs").exists()
    said = failing(capsys, verb, "anbn", "--data", str(tmp_path))
    assert "--data: the task 'anbn' reads no data" in said


def test_sentences_of_a_text(capsys: Capture, tmp_path: Path) -> None:
    for name in ("train", "valid", "test"):
        (tmp_path / f"ptb.{name}.txt").write_text("the cat sat\n")
    any_text = ("--data", str(tmp_path), "--task_options", '{"published_counts": false}')
    assert main(["sample", "penn_treebank", "-n", "1", *any_text]) == 0
    assert "the cat sat" in capsys.readouterr().out
    said = failing(capsys, "sample", "penn_treebank", "--lengths", "4:5", *any_text)
    assert "lengths: a text has none to choose, got 4:5" in said


def test_restarts_on_the_command_line(capsys: Capture, tmp_path: Path) -> None:
    arguments = tiny_arguments(tmp_path, batches=2, accuracy_every=0, report_every=1)
    assert main([*arguments, "--restarts", "2", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "copy, 2 restarts, the best by training perplexity: copy-queue-lstm-" in out
    assert "test coarse 1.00: " in out
    said = failing(capsys, "train", "copy", "--restarts", "0", "--jobs", "2")
    assert "restarts: expected at least 1, got 0" in said
    said = failing(capsys, "train", "copy", "--jobs", "2")
    assert "jobs: one run is one job; give --restarts too" in said


def test_a_run_on_streams_says_what_can_be_done_next(capsys: Capture, tmp_path: Path) -> None:
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
    said = capsys.readouterr().out
    assert "as trained:" in said
    assert "hardened" in said
    assert failing(capsys, *arguments).endswith("--overwrite hardens it anew\n")
    options = ["--harden", "--rounding.batches", "1", "--restarts", "1"]
    assert main([*command, *options]) == 0
    *_, explore, actions, verify = capsys.readouterr().out.splitlines()
    assert explore.split()[:2] == ["unbounded", "explore"]
    assert verify.split()[:2] == ["unbounded", "verify"]
    # One batch of hardening betters nothing: there is only what was trained.
    assert "--rounded" not in explore + actions
    program, *arguments = shlex.split(actions)
    assert main(arguments) == 0
    assert main([*command, "--resume", "--quiet"]) == 0
    assert "next:" not in capsys.readouterr().out


@pytest.mark.parametrize("harm", [True, False, None])
def test_what_is_said_to_be_next_is_of_the_machine_if_there_is_one(
    harm: bool | None, capsys: Capture, tmp_path: Path
) -> None:
    config = tiny_streams(batches=1)
    config.rounding.batches = 1
    folder = train_run(config, root=tmp_path, quiet=True).folder
    report = json.loads((folder / "report.json").read_text())
    report["rounded"]["harm"] = harm
    if harm is None:  # as reports once were
        del report["rounded"]["harm"]
    report["validation"]["right"] = 1
    (folder / "report.json").write_text(json.dumps(report))
    _say_next(config, make_task("anbn"), folder, quiet=False)
    heading, explore, actions, verify = capsys.readouterr().out.splitlines()
    assert heading == "next:"
    assert ("--rounded" in explore, "--rounded" in actions) == (not harm, not harm)
    assert verify.split()[:2] == ["unbounded", "verify"]
    assert main(shlex.split(actions)[1:]) == 0


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("grefenstette2015", "unbounded reproduce grefenstette2015 --dry-run"),
        ("adagrad", "--training.optimizer adagrad"),
        ("tail", "--training.schedule tail"),
    ],
)
def test_what_has_no_options_is_told_how_to_be_used(kind: str, says: str, capsys: Capture) -> None:
    assert main(["list", kind]) == 0
    assert says in capsys.readouterr().out
    assert main(["list", kind, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {}


def test_a_config_with_faults_is_not_printed(capsys: Capture, tmp_path: Path) -> None:
    for given in (["--training.learning_rate", "-1"], ["--training.lengths=-5:3"]):
        assert given[0][2:].split("=")[0] in failing(
            capsys, "train", "copy", *given, "--print_config"
        )
    # The data of a task may lie elsewhere.
    assert main(["train", "penn_treebank", "--print_config"]) == 0
    assert "task: penn_treebank" in capsys.readouterr().out


def test_a_value_that_begins_with_a_minus_is_told_how_to_be_written(capsys: Capture) -> None:
    said = failing(capsys, "evaluate", "RUN", "--lengths", "-5:3")
    assert "lengths: expected a text after it, got nothing" in said
    assert "is written --lengths=-..." in said


@pytest.mark.parametrize("hardened", [True, False])
def test_what_is_right_on_nothing_is_neither_to_be_hardened_nor_verified(
    hardened: bool, capsys: Capture, tmp_path: Path
) -> None:
    config = tiny_streams(batches=1)
    config.rounding.batches = int(hardened)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    report = json.loads((folder / "report.json").read_text())
    report["validation"]["right"] = 0
    (folder / "report.json").write_text(json.dumps(report))
    _say_next(config, make_task("anbn"), folder, quiet=False)
    said = capsys.readouterr().out
    assert "unbounded explore" in said
    assert "unbounded actions" in said
    assert "verify" not in said
    assert "harden" not in said


def test_of_sequences_too_nothing_is_offered_where_nothing_is_right(
    capsys: Capture, tmp_path: Path
) -> None:
    config = tiny(batches=1)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    _say_next(config, make_task("copy"), folder, quiet=False)
    assert "harden" not in capsys.readouterr().out
    report = json.loads((folder / "report.json").read_text())
    report["rows"][0]["right"] = 1
    (folder / "report.json").write_text(json.dumps(report))
    _say_next(config, make_task("copy"), folder, quiet=False)
    assert "unbounded harden" in capsys.readouterr().out


def test_actions_of_a_run(capsys: Capture, tmp_path: Path) -> None:
    config = tiny_streams(batches=1)
    config.rounding.batches = 1
    folder = train_run(config, root=tmp_path, quiet=True).folder
    assert main(["actions", str(folder), "aab b"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["current", "next", "predicted"]
    assert [row.split()[:2] for row in rows] == [["a", "a"], ["a", "b"], ["b", "b"]]
    assert "PUSH" in rows[0] or "POP" in rows[0]
    pictures = tmp_path / "pictures"
    arguments = ["actions", str(folder), "aabb", "--rounded", "--out", str(pictures)]
    assert main(arguments) == 0
    assert "action_table.svg" in capsys.readouterr().out
    assert (pictures / "actions.png").stat().st_size > 0
    assert "--overwrite replaces it" in failing(capsys, *arguments)
    said = failing(capsys, "actions", str(folder), "aaxb")
    assert "unknown symbol of task anbn 'x'" in said
    assert "expected at least two" in failing(capsys, "actions", str(folder), "a")
    copy = train_run(tiny(batches=1, accuracy_every=0), root=tmp_path, quiet=True).folder
    for text in ("1 2 1", "aab"):
        said = failing(capsys, "actions", str(copy), text)
        assert "superposition stacks or lists" in said
        assert "unbounded explore RUN" in said


def test_the_task_may_stand_anywhere(capsys: Capture) -> None:
    assert main(["train", "--seed", "3", "--resume", "reversal", "--print_config"]) == 0
    assert "name: stack" in capsys.readouterr().out


def test_train_evaluate_and_what_they_refuse(capsys: Capture, tmp_path: Path) -> None:
    arguments = tiny_arguments(tmp_path, batches=20)
    assert main(arguments) == 0
    out = capsys.readouterr().out
    folder = tmp_path / run_name(tiny(batches=20))
    assert f"run folder: {folder}" in out
    assert "lengths  sequences  coarse  95 % interval" in out
    assert "\x1b" not in out
    assert (folder / "figures" / "convergence.svg").exists()

    assert "--resume goes on with it, --overwrite replaces it" in failing(capsys, *arguments)
    assert main([*arguments, "--resume"]) == 0
    assert "this run is finished: budget: 20 batches" in capsys.readouterr().out

    assert main(["evaluate", str(folder), "--lengths", "1:3,4:6,7:9", "--count", "30"]) == 0
    out = capsys.readouterr().out
    path = Path(out.rsplit("report: ", 1)[1].strip())
    report = json.loads(path.read_text())
    assert [row["lengths"] for row in report["rows"]] == ["1:3", "4:6", "7:9"]
    assert report["rows"][0]["count"] == 30
    assert {"task", "split", "seed", "versions", "commit", "machine"} <= set(report)
    # The same sequences as in the table of the training run: one function of seed and index.
    assert main(["evaluate", str(folder), "--lengths", "4:6", "--count", "20"]) == 0
    capsys.readouterr()
    path = folder / "evaluations" / "test-4-6-n20-seed3.json"
    again = json.loads(path.read_text())
    whole = json.loads((folder / "report.json").read_text())
    assert again["rows"][0] == whole["rows"][1]
    # A report that is there is never replaced unasked.
    path.write_text("mine")
    for number in (2, 3):
        assert main(["evaluate", str(folder), "--lengths", "4:6", "--count", "20"]) == 0
        assert capsys.readouterr().out.endswith(f"test-4-6-n20-seed3_again{number}.json\n")
    assert path.read_text() == "mine"

    said = failing(
        capsys,
        *("evaluate", str(folder), "--lengths", "6:4,x,1:5,3:9", "--count", "0"),
        *("--split", "tst", "--sed", "1"),
    )
    assert "6 faults" in said
    assert "6:4 is reversed; write 4:6" in said
    assert "length ranges 1:5 and 3:9 overlap" in said
    assert "unknown split 'tst'. Did you mean 'test'?" in said
    assert "unknown option '--sed'. Did you mean '--seed'?" in said
    out_file = tmp_path / "out.json"
    out_file.write_text("mine")
    said = failing(capsys, "evaluate", str(folder), "--out", str(out_file))
    assert f"{out_file} exists; --overwrite replaces it" in said


def test_what_is_scored_of_an_unfinished_run(capsys: Capture, tmp_path: Path) -> None:
    config = tiny(batches=3, accuracy_every=0, checkpoint_every=2)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    command = ["evaluate", str(folder), "--count", "5", "--out", str(tmp_path / "report.json")]
    assert main(command) == 0
    assert "not finished" not in capsys.readouterr().out
    assert json.loads((tmp_path / "report.json").read_text())["weights_batch"] is None
    for left in ("model", "checkpoints/batch-000000003"):
        shutil.rmtree(folder / left)
    assert main([*command, "--overwrite"]) == 0
    assert capsys.readouterr().out.startswith(
        "this run is not finished: its newest checkpoint is scored, after batch 2 (checkpoints/"
    )
    assert json.loads((tmp_path / "report.json").read_text())["weights_batch"] == 2


def test_resume_with_nothing_to_resume_names_what_is_there(capsys: Capture, tmp_path: Path) -> None:
    arguments = [*tiny_arguments(tmp_path, batches=2, accuracy_every=0), "--resume"]
    said = failing(capsys, *arguments)
    name = run_name(tiny(batches=2, accuracy_every=0))
    assert f"there is no run to resume: {tmp_path / name} is not there" in said
    assert f"{tmp_path} holds no run" in said
    for other in ("reversal-stack", "copy-other", ".replaced-copy-old"):
        (tmp_path / other).mkdir()
        (tmp_path / other / "config.yaml").write_text("task: copy\n")
    assert f"Runs in {tmp_path}:\n  copy-other\n  reversal-stack\n" in (
        said := failing(capsys, *arguments)
    )
    assert ".replaced" not in said
    assert f"there is no run to resume: {tmp_path / name} is not there" in failing(
        capsys, *arguments, "--restarts", "2"
    )
    assert not (tmp_path / name).exists()


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
def test_what_does_not_fit_into_memory(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(Plan, "model", lambda _: (_ for _ in ()).throw(error))
    said = failing(capsys, *tiny_arguments(tmp_path))
    assert f"there is not enough memory for these sizes: {error}" in said
    assert not list(tmp_path.glob("copy*"))
    monkeypatch.setattr(Plan, "model", lambda _: (_ for _ in ()).throw(RuntimeError("bug")))
    with pytest.raises(RuntimeError, match="bug"):
        main(tiny_arguments(tmp_path))


def test_lengths_of_the_table_as_evaluate_takes_them(capsys: Capture) -> None:
    for given in (["--evaluation.lengths", "65:128,129:256"], ["--evaluation.lengths=65:128"]):
        assert main(["train", "copy", *given, "--print_config"]) == 0
        assert "lengths:\n  - 65:128\n" in capsys.readouterr().out
    said = failing(capsys, "train", "copy", "--evaluation.lengths", "65:128,x,3:70")
    assert "expected MINIMUM:MAXIMUM such as 65:128, got 'x'" in said
    assert "length ranges 3:70 and 65:128 overlap" in said


def test_evaluate_needs_a_run(capsys: Capture, tmp_path: Path) -> None:
    assert "run: this argument is required" in failing(capsys, "evaluate", "--count", "3")
    assert "is not a run folder: it has no config.yaml" in failing(
        capsys, "evaluate", str(tmp_path)
    )


def test_a_truncated_model_is_named(capsys: Capture, tmp_path: Path) -> None:
    folder = train_run(tiny(batches=2, accuracy_every=0), root=tmp_path, quiet=True).folder
    path = folder / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    assert f"{path} is damaged: its SHA-256 is not" in failing(capsys, "evaluate", str(folder))
    path.with_name("model.safetensors.sha256").unlink()  # as older versions saved it
    assert f"{path} cannot be used" in failing(capsys, "evaluate", str(folder))
    path.with_name("config.json").write_text("[]")
    said = failing(capsys, "evaluate", str(folder))
    assert "config.json cannot be used: TypeError: expected an object of keywords, got list" in said


def test_a_diverging_run_ends_with_code_3(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = OBJECTIVES["cross_entropy"]
    infinite = sound._replace(loss=lambda logits, *rest: logits.sum() * math.inf)
    monkeypatch.setitem(OBJECTIVES, "cross_entropy", infinite)
    assert main([*tiny_arguments(tmp_path), "--quiet"]) == 3
    err = capsys.readouterr().err
    assert "training stopped in step 1" in err
    assert "the first bad tensor: loss (" in err


def test_a_gradient_whose_norm_alone_is_infinite_is_called_so(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each number of it is finite in 32 bits, its square is not."""
    sound = OBJECTIVES["cross_entropy"]
    steep = sound._replace(loss=lambda logits, *rest: logits.mean() * 1e25)
    monkeypatch.setitem(OBJECTIVES, "cross_entropy", steep)
    assert main([*tiny_arguments(tmp_path), "--quiet"]) == 3
    err = capsys.readouterr().err
    assert "the first bad tensor: none, but the gradient's norm is" in err
    assert "a lower training.learning_rate" in err


def test_quiet_shows_only_the_result(capsys: Capture, tmp_path: Path) -> None:
    assert main([*tiny_arguments(tmp_path, batches=20), "--quiet"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("copy, split test, seed 3\n")


def test_tensorboard_on_request(capsys: Capture, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    assert main([*tiny_arguments(tmp_path, batches=20), "--log_with", "tensorboard"]) == 0
    assert list(tmp_path.glob("*/trackers/unbounded/events*"))


def test_trackers_that_are_not_there_are_said(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trackers, "get_available_trackers", list)
    said = failing(capsys, *tiny_arguments(tmp_path), "--log_with", "tensorboard, tensorbored")
    assert "log_with: tensorboard is not installed; pip install 'unbounded[tensorboard]'" in said
    assert "log_with: unknown tracker 'tensorbored'; valid: aim, " in said
    said = failing(capsys, *tiny_arguments(tmp_path), "--log_with", "wandb", "--jobs", "2")
    assert "--log_with is for restarts one after the other" in said
    assert "--log_with NAME" in failing(capsys, *tiny_arguments(tmp_path), "--tensorboard")


def test_another_schedule_has_not_the_tail_of_the_presets(capsys: Capture) -> None:
    assert main(["train", "gender", "--training.schedule", "constant", "--print_config"]) == 0
    assert "  tail_batches: 500\n" in capsys.readouterr().out
    assert main(["train", "gender", "--training.schedule", "tail", "--print_config"]) == 0
    assert "  tail_batches: 2000\n" in capsys.readouterr().out
    said = failing(capsys, "train", "gender", "--training.schedule", "constat", "--runs", ".")
    assert "unknown schedule 'constat'. Did you mean 'constant'?" in said


def test_so_it_is_with_a_config_file_and_with_a_curriculum(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("task: gender\ntraining: {schedule: constant}\n")
    assert main(["train", "--config", str(path), "--print_config"]) == 0
    assert "  tail_batches: 500\n" in capsys.readouterr().out
    path.write_text("task: gender\ntraining: {schedule: tail, tail_batches: 7}\n")
    constant = ["--training.schedule", "constant"]
    assert main(["train", "--config", str(path), *constant, "--print_config"]) == 0
    assert "  tail_batches: 500\n" in capsys.readouterr().out
    for task in ("copy", "binary_addition"):
        doubling = ["--training.curriculum", "doubling", "--print_config"]
        assert main(["train", task, *doubling]) == 0
        text = capsys.readouterr().out
        assert "  deal: 1\n" in text
        assert "  curriculum_every: 1\n" in text


def test_a_protocol_and_the_config_of_a_run_exclude_each_other(
    capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("task: copy\nused: {threads: 1}\n")
    said = failing(capsys, "train", "--config", str(path), "--protocol", "paper")
    assert "is of a run and names every option; give --protocol or --config" in said
    path.write_text("task: copy\nused: 5\n")
    assert "unknown option '--used'" in failing(capsys, "train", "--config", str(path))


def test_an_option_of_the_task_is_never_lost(capsys: Capture) -> None:
    """`--task.X` stands beside the positional TASK, which took it for its own and said nothing."""
    for words in (["--task.symbols", "9"], ["--task.symbols=9"], ["--task_options.symbols", "9"]):
        assert main(["train", "copy", *words, "--print_config"]) == 0
        assert "task_options:\n  symbols: 9\n" in capsys.readouterr().out
    # Also where all of them are given after it, and the last of two counts.
    whole = ["--task_options", '{symbols: 8, train_lengths: "1:4"}', "--print_config"]
    short, long = "--task.symbols", "--task_options.symbols"
    for words in ([short, "9"], [f"{long}=9"], [short, "7", long, "9"], [long, "7", short, "9"]):
        assert main(["train", "copy", *words, *whole]) == 0
        said = capsys.readouterr().out
        assert "task_options:\n  symbols: 9\n  train_lengths: '1:4'\n" in said
    assert main(["train", "copy", "--task.symbls", "9"]) != 0
    assert "task 'copy' has no option 'symbls'" in capsys.readouterr().err


def test_list_names_everything(capsys: Capture) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for name in ("copy", "gender", "stack", "deque", "none", "gru", "elman", "rmsprop"):
        assert f"  {name} " in out or f"  {name}\n" in out
    assert main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["presets"].keys() == found["tasks"].keys()
    assert "superposition_stack" in found["memories"]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("turing_tape", ["--model.memory.OPTION", "  slots            128\n"]),
        ("stack", ["  width      as wide as the hidden layer\n", "  pop_bias   -1.0\n"]),
        ("lstm", ["--model.controller.OPTION", "  forget_bias  1.0\n", "  num_layers   1\n"]),
        ("dyck", ["--task_options.OPTION", "  kinds                1\n"]),
        ("none", ["none: No memory", "It has no options."]),
    ],
)
def test_list_shows_the_options_of_one(name: str, lines: list[str], capsys: Capture) -> None:
    assert main(["list", name]) == 0
    out = capsys.readouterr().out
    assert [line for line in lines if line not in out] == []
    assert "device" not in out
    assert main(["list", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert "Did you mean 'stack'?" in failing(capsys, "list", "stak")


def test_sample_is_wired(capsys: Capture) -> None:
    assert main(["sample", "copy", "-n", "2", "--lengths", "3:3"]) == 0
    assert capsys.readouterr().out.count("|||") == 2
    said = failing(capsys, "sample", "copyy", "-n", "x", "--lengths", "5:3")
    assert "3 faults" in said
    said = failing(capsys, "sample", "copy", "-n", "0")
    assert "-n: expected a number at least 1, got 0" in said


@pytest.mark.parametrize("memory", ["[1]", "{name: [queue]}", "null", "3"])
def test_a_memory_of_a_config_file_that_is_none(
    memory: str, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"task: copy\nmodel: {{memory: {memory}}}\n")
    said = failing(capsys, "train", "--config", str(path))
    assert "config: model.memory: expected a name, or a mapping such as {name: queue" in said


@pytest.mark.parametrize("option", ["--proto", "--quie", "--conf"])
def test_options_are_not_abbreviated(option: str, capsys: Capture) -> None:
    """Item 4 of the outside tests: some parsers took what others did not see."""
    assert f"unknown option '{option}'. Did you mean" in failing(capsys, "train", "copy", option)


def test_options_of_a_model_that_have_moved_say_where_to(capsys: Capture) -> None:
    said = failing(capsys, "train", "copy", "--model.memory_width", "3", "--model.layers=2")
    assert "unknown option '--model.memory_width': it is --model.memory.width now" in said
    assert "it is --model.controller.num_layers now" in said


def test_a_printed_config_is_the_run_itself(capsys: Capture, tmp_path: Path) -> None:
    """Item 4: a file's protocol had no effect, its task was overlooked, and a printed one null."""
    path = tmp_path / "mine.yaml"
    for given in (("anbn", "--protocol", "paper"), ("copy", "--model.memory", "deque")):
        assert main(["train", *given, "--seed", "4", "--print_config"]) == 0
        text = capsys.readouterr().out
        path.write_text(text)
        assert main(["train", "--config", str(path), "--print_config"]) == 0
        assert capsys.readouterr().out == text
    said = failing(capsys, "train", "reversal", "--config", str(path))
    assert "is for task 'copy', and 'reversal' was named; leave one out" in said
    path.write_text("task: anbn\nprotocol: paper\nmodel: {memory: queue}\n")
    assert main(["train", "--config", str(path), "--print_config"]) == 0
    out = capsys.readouterr().out
    assert "name: queue" in out
    assert "clip_by: value" in out
    assert "capacity" not in out
    path.write_text("task: anbn\nprotocol: nonsense\n")
    said = failing(capsys, "train", "--config", str(path))
    assert "unknown protocol 'nonsense'. Valid: paper." in said


def test_an_unknown_option_names_a_few_and_not_all(capsys: Capture) -> None:
    said = failing(capsys, "train", "copy", "--trainig.batch_size", "3")
    assert "Did you mean '--training.batch_size'? Others like it: --training.b" in said
    assert "--help-all shows all" in said
    assert said.count("--") < 8


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts(shell: str, capsys: Capture) -> None:
    assert main(["--print_shtab", shell]) == 0
    out = capsys.readouterr().out
    assert "--training.learning_rate" in out
    assert "bigram_flip" in out
    assert "grefenstette2015" in out
    assert "unknown shell 'fsh'" in failing(capsys, "--print_shtab=fsh")


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


HEAVY = [
    "torch",
    "accelerate",
    "matplotlib",
    "huggingface_hub",
    "jsonargparse",
    "scipy",
    "rich",
    "yaml",
]


@pytest.mark.parametrize(
    "command", [["--help"], ["list"], ["train", "--help"], ["--print_shtab", "bash"]]
)
def test_what_only_shows_text_starts_without_torch(command: list[str]) -> None:
    heavy = HEAVY if command == ["--help"] else HEAVY[:4]
    code = (
        "import sys\nfrom unbounded.cli import main\n"
        f"try:\n    main({command})\nexcept SystemExit:\n    pass\n"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    assert run_python(code).strip().endswith("[]")


def test_public_names_are_imported_when_they_are_used() -> None:
    folders = [each.parent.name for each in Path(unbounded.__file__).parent.glob("*/__init__.py")]
    code = (
        "import sys, unbounded\n"
        f"folders = {[*folders, 'errors']}\n"
        f"loaded = [m for m in {HEAVY} if m in sys.modules]\n"
        "missing = set(unbounded.__all__) - set(dir(unbounded))\n"
        "more = set(dir(unbounded)) - set(unbounded.__all__) - set(folders)\n"
        "from unbounded import *\n"
        "print(loaded, missing, more, unbounded.memories.NeuralStack is NeuralStack,"
        " [m for m in ('accelerate', 'matplotlib') if m in sys.modules])\n"
        "try:\n    unbounded.NeuralStak\nexcept AttributeError as error:\n    print(error)\n"
    )
    out = run_python(code).splitlines()
    assert out == [
        "[] set() set() True []",
        "module 'unbounded' has no attribute 'NeuralStak'",
    ]


def test_list_says_what_options_mean(capsys: Capture) -> None:
    assert main(["list", "lie_access"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        '"translation" of R^n',
        '"inverse_square" (InvNorm) or "softmax"',
        "exactly 0 up to -2.5",
    ):
        assert text in shown
    for name in ("copy", "reversal", "answer_odd_first"):
        assert main(["list", name]) == 0
        shown = capsys.readouterr().out
        assert "number of symbols, at least 1" in shown
        assert ("lengths k are of 2k symbols." in shown) == (name == "answer_odd_first")


def test_the_names_that_are_listed_are_those_there_are() -> None:
    from unbounded.experiments.tables.published import PAPERS
    from unbounded.layers import CONTROLLERS, SRCN
    from unbounded.memories import MEMORIES
    from unbounded.tasks import TASKS
    from unbounded.training import OPTIMIZERS, SCHEDULES

    def lines(registry: Mapping[str, object]) -> dict[str, str]:
        return {k: (v.__doc__ or "").strip().split("\n", 1)[0] for k, v in registry.items()}

    hint = "write it into cli/names.py"
    # What is read in a terminal does not speak of a function's arguments.
    assert not [text for kind in NAMES.values() for text in kind.values() if "Args" in text]
    assert NAMES["tasks"] == lines(TASKS), hint
    memories = lines(MEMORIES)
    assert dict(list(NAMES["memories"].items())[1:]) == memories, hint
    controllers = {**lines(CONTROLLERS), **lines({"srcn": SRCN})}
    assert NAMES["controllers"] == controllers, hint
    assert NAMES["papers"] == PAPERS, hint
    assert list(NAMES["optimizers"]) == list(OPTIMIZERS), hint
    assert list(NAMES["schedules"]) == list(SCHEDULES), hint


def test_ctrl_c_while_something_is_imported(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise ImportError("half imported") from error  # what numpy makes of it, for one

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["unbounded.cli.main"], "verb_module", interrupted)
        said = failing(capsys, "list", code=130)
    assert said == "unbounded: stopped by Ctrl-C\n"
    assert signal.signal(signal.SIGINT, before) == signal.default_int_handler


def test_ctrl_c_before_the_command_has_begun() -> None:
    code = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(name, path, target=None):\n"
        "        if name == 'unbounded.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from unbounded.__main__ import start\n"
        "sys.exit(start())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "unbounded: stopped by Ctrl-C\n")


def test_it_is_a_module_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "unbounded", "--version"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"unbounded ")


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_says_how_to_go_on_(tmp_path: Path) -> None:
    options = {"batches": 100000, "validate_every": 100000, "accuracy_every": 0}
    arguments = tiny_arguments(tmp_path, **options)
    command = [sys.executable, "-m", "unbounded.cli", *arguments]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    folder = tmp_path / run_name(tiny(**options))
    deadline = time.monotonic() + 60
    while not list(folder.glob("checkpoints/batch-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "stopped by SIGINT; the run is saved, the same command with --resume goes on" in err
    assert "Traceback" not in err
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("given", "step"),
    [
        (["answer_odd_first", "--model.memory.variant", "2016"], None),
        (["answer_odd_first", "--model.memory.variant=2017"], "bounded"),
        (["answer_addition", "--model.memory.variant", "2017"], None),
        (["answer_addition", "--model.memory.variant", "2016"], "normalised_candidate"),
        (
            [
                *("answer_addition", "--model.memory.variant", "2017"),
                *("--model.memory.step", "free"),
            ],
            "free",
        ),
    ],
)
def test_another_variant_of_a_memory_takes_the_presets_step_with_it(
    given: list[str], step: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *given, "--print_config"]) == 0
    memory = yaml.safe_load(capsys.readouterr().out)["model"]["memory"]
    assert memory.get("step") == step


@pytest.mark.parametrize("form", [["--model.memory={name: stack, width: 8}"],
                                  ["--model.memory", "{name: stack, width: 8}"]])  # fmt: skip
def test_a_memory_as_a_mapping(form: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "copy", *form, "--print_config"]) == 0
    memory = yaml.safe_load(capsys.readouterr().out)["model"]["memory"]
    assert memory["name"] == "stack"
    assert memory["width"] == 8
