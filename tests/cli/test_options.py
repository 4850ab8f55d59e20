"""Options on the command line and in config files: types, merging, repetition, errors."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.failing import Capture, failing, printed
from unbounded.cli import main
from unbounded.cli.main import outliving


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"a{n} b\tb a{n}\n" for n in range(60)))
    return str(file)


@pytest.mark.parametrize(("word", "value"), [("no", False), ("false", False), ("yes", True)])
def test_a_command_line_accepts_words_for_booleans(
    capsys: Capture, pairs: str, word: str, value: bool
) -> None:
    config = printed(
        capsys,
        *("pairs", "--data", pairs, "--task.characters", word),
        *("--training.optimizer.maximize", word),
        *("--model.controller.second_bias", word),
    )
    assert config["task"] == {"name": "pairs", "characters": value}
    assert config["training"]["optimizer"] == {"name": "rmsprop", "maximize": value}


def test_text_for_a_boolean_or_a_number_in_a_file_is_an_error(
    capsys: Capture, tmp_path: Path, pairs: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "task: {name: pairs, characters: 'no'}\ntraining: {batches: '3', "
        "plateau: {name: halve, restore: 'true'}, "
        f"optimizer: {{momentum: '1'}}}}\nhardware: {{data: {pairs}}}\n"
        "model: {memory: {name: queue, width: '3'}}\n"
    )
    text = failing(capsys, "train", "--config", str(file))
    assert "characters: expected true or false, got 'no'" in text
    assert "training.batches: expected an integer, got '3'" in text
    assert "training.plateau.restore: expected true or false, got 'true'" in text
    assert "momentum: expected a number, got '1'" in text
    assert "model.memory.width: expected an integer, got '3'" in text
    # The command line overrides the file, and its text is parsed as command-line text.
    text = failing(capsys, "train", "--config", str(file), "--model.memory.width", "3")
    assert "model.memory.width" not in text


def test_several_config_files_are_merged_in_order(capsys: Capture, tmp_path: Path) -> None:
    """Once the first of two files was ignored."""
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(
        "task: copy\nseed: 4\nmodel: {memory: {name: queue, width: 3}, hidden_size: 9}\n"
        "training: {batches: 7, optimizer: {name: sgd, momentum: 0.9}}\n"
    )
    second.write_text(
        "model: {memory: {name: deque}}\ntraining: {clip: 3, optimizer: adam}\nseed: 5\n"
    )
    config = printed(capsys, f"--config={first}", "--config", str(second))
    assert config["seed"] == 5
    assert config["model"]["memory"] == {"name": "deque"}
    assert config["model"]["hidden_size"] == 9
    assert config["training"]["batches"] == 7
    assert config["training"]["clip"] == 3
    assert config["training"]["optimizer"] == {"name": "adam"}
    config = printed(capsys, "--config", str(second), "--config", str(first))
    assert config["seed"] == 4
    assert config["model"]["memory"] == {"name": "queue", "width": 3}
    assert config["training"]["optimizer"] == {"name": "sgd", "momentum": 0.9}
    second.write_text("task: reversal\n")
    text = failing(capsys, "train", "--config", str(first), "--config", str(second))
    assert f"config: {second} is for task 'reversal', but this run is for task 'copy'" in text


def test_an_empty_protocol_is_unknown(capsys: Capture) -> None:
    assert "unknown protocol ''" in failing(capsys, "train", "copy", "--protocol=")


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "RUN", "--lengths", "1:2", "--lengths=3:4"),
        ("train", "copy", "--evaluation.lengths", "1:2", "--evaluation.lengths", "3:4"),
        ("verify", "RUN", "--times", "2", "--times", "3"),
        ("train", "copy", "--log_with", "wandb", "--log_with", "mlflow"),
        ("sample", "copy", "-n", "2", "-n", "3"),
        ("sample", "copy", "--task.symbols", "2", "--task.symbols=3"),
        ("evaluate", "RUN", "--count", "2", "--count=3"),
        ("train", "copy", "--seed", "2", "--seed", "3"),
        ("train", "copy", "--model.memory", "stack", "--model.memory", "queue"),
        ("study", "copy", "--training.clip", "1", "--training.clip", "2"),
    ],
)
def test_a_repeated_option_is_refused(capsys: Capture, arguments: tuple[str, ...]) -> None:
    """Once the last value was used without a message."""
    option = arguments[2]
    assert f"{option}: expected it once, got it 2 times" in failing(capsys, *arguments)


def test_a_file_named_null_is_a_file(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it counted as no file."""
    monkeypatch.chdir(tmp_path)
    for arguments in (("train", "pairs", "--data", "null"), ("sample", "pairs", "--data", "null")):
        assert "--data: null: No such file" in failing(capsys, *arguments)
    Path("null").write_text("".join(f"a{n} b\tb a{n}\n" for n in range(60)))
    assert main(["sample", "pairs", "--data", "null", "-n", "1"]) == 0


def test_sample_takes_an_option_of_the_task_as_train_does(capsys: Capture, pairs: str) -> None:
    """Once the error was "unknown task 'true'"."""
    assert main(["sample", "pairs", "--task.characters", "no", "--data", pairs, "-n", "1"]) == 0
    assert capsys.readouterr().out.startswith("a")
    assert "--data: give a file" in failing(capsys, "sample", "pairs", "--task.characters", "true")
    text = failing(capsys, "sample", "pairs", "--task.characters", "maybe")
    assert "characters: expected true or false, got 'maybe'" in text


@pytest.mark.parametrize("module", ["", "..", ".a", "a..b", "a b"])
@pytest.mark.parametrize("verb", ["train", "evaluate", "explore"])
def test_an_invalid_module_name_for_import_is_refused(
    capsys: Capture, tmp_path: Path, verb: str, module: str
) -> None:
    what = "copy" if verb == "train" else str(tmp_path)
    text = failing(capsys, verb, what, f"--import={module}")
    assert f"import: expected a module such as mypackage.memories, got {module!r}" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "x" * 5000),
        ("train", "copy", "--runs", "x" * 300),
        ("explore", "--no-open", "--export", "x" * 300),
        ("sample", "copy", "--out", "x" * 300),
        ("sample", "pairs", "--data", "x" * 300),
    ],
)
def test_a_name_that_is_too_long_is_an_error(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "too long" in failing(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_seed_is_named_in_words(capsys: Capture) -> None:
    assert "seed: expected an integer, got ''" in failing(capsys, "train", "copy", "--seed=")


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_symbols_that_a_terminal_cannot_show_are_escaped(encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    before, sys.stdout = sys.stdout, stream
    try:
        with outliving(work=False):
            print("a \N{GREEK SMALL LETTER ALPHA}")
    finally:
        sys.stdout = before
    stream.flush()
    assert stream.buffer.getvalue() == b"a \\u03b1\n"  # type: ignore[attr-defined]  # a BytesIO


def test_sample_writes_to_a_terminal_of_another_language(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text(
        "".join(f"\N{GREEK SMALL LETTER ALPHA}{n} b\tb\n" for n in range(60)), encoding="utf-8"
    )
    command = [sys.executable, "-m", "unbounded", "sample", "pairs", "--data", str(file), "-n", "1"]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"\\u03b1" in done.stdout


def test_a_mapping_on_the_command_line_has_the_types_of_yaml(capsys: Capture) -> None:
    """Once `{symbols: "3"}` was the number 3."""
    task = printed(capsys, "copy", "--task", "{symbols: 3}")["task"]
    assert task == {"name": "copy", "symbols": 3}
    err = failing(capsys, "train", "copy", "--task", '{symbols: "3"}')
    assert "symbols: expected an integer, got '3'" in err
    err = failing(capsys, "train", "copy", "--model.memory", '{name: queue, width: "8"}')
    assert "model.memory.width: expected an integer, got '8'" in err
    memory = ("--model.memory", "{name: stack, width: 8}", "--model.memory.width", "9")
    assert printed(capsys, "copy", *memory)["model"]["memory"] == {"name": "stack", "width": 9}


def test_only_names_of_components_are_imported(capsys: Capture, tmp_path: Path) -> None:
    for given in (("--data", "big.tsv"), ("--hardware.data", "big.tsv"), ("--task.data", "a.tsv")):
        text = failing(capsys, "train", "pairs", *given)
        assert "cannot be imported" not in text
        assert "No such file" in text
    config = printed(capsys, "copy", "--id", "run.v2")
    assert config["id"] == "run.v2"
    assert "cannot be imported" in failing(
        capsys, "train", "copy", "--model.memory", "no_such.Ring"
    )


def test_a_second_task_is_refused_and_a_mapping_may_name_the_task(capsys: Capture) -> None:
    for given in (("--task.name", "reversal"), ("--task", "{name: reversal}")):
        text = failing(capsys, "train", "copy", *given)
        assert "task: expected one task, got 'copy' and 'reversal'" in text
    config = printed(capsys, "--task", "{name: copy, symbols: 5}")
    assert config["task"] == {"name": "copy", "symbols": 5}
    assert main(["sample", "copy", "--task", "{symbols: 3}", "-n", "1"]) == 0
    capsys.readouterr()
    assert "expected one task" in failing(capsys, "sample", "copy", "--task.name", "reversal")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: null", "model: expected options, got None"),
        ("model: queue", "model: expected options, got 'queue'"),
        ("hardening: null", "hardening: expected a name, or a mapping such as"),
        ("hardening: []", "hardening: expected a name, or a mapping such as"),
        ("hardware: [cpu]", "hardware: expected options, got ['cpu']"),
        ("other_memories: 3", "a config has no option 'other_memories'"),
        ("training: {epsilon: 1}", "training has no option 'epsilon'. Did you mean"),
    ],
)
def test_an_invalid_section_of_a_config_file_is_an_error(
    capsys: Capture, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"task: copy\n{text}\n")
    more = ("--harden", "--data", "x", "--model.memory", "deque", "--model.memory.pop_bias", "3")
    assert message in failing(capsys, "train", "--config", str(file), *more)


def test_a_component_with_invalid_yaml_is_an_error(capsys: Capture) -> None:
    text = failing(capsys, "train", "copy", "--training.schedule", "{name: cooldown")
    assert "training.schedule: '{name: cooldown' is not YAML, line 1" in text
    config = printed(capsys, "copy", "--training.schedule", " {batches: 3}")
    assert config["training"]["schedule"] == {"name": "cooldown", "batches": 3}


def test_help_shows_the_protocol(capsys: Capture) -> None:
    for given, schedule in (((), "cooldown"), (("--protocol", "paper"), "constant")):
        with pytest.raises(SystemExit):
            main(["train", "--runs", "anbn", "copy", *given, "--help"])
        out = capsys.readouterr().out
        assert "with the values of copy:" in out
        assert f"--training.schedule {schedule}" in out
