"""Valid command lines and config files, and the messages for invalid ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.failing import Capture, failing, printed
from tests.experiments.tiny import tiny, tiny_arguments
from unbounded.cli import main
from unbounded.cli.main import VERBS
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import preset_of
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.trials.paper_studies import load_study
from unbounded.experiments.trials.trial import Trial


def test_help_shows_an_example(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "example:\n  unbounded train copy" in out
    for verb in VERBS:
        assert f"\n  {verb} " in out


def test_the_help_of_a_task_shows_its_preset(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["train", "anbn", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--model.hidden_size 40 units of the controller, or of each layer of an LSTM" in shown
    assert "config options, with the values of anbn:" in shown
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--model.hidden_size 256 units of the controller, or of each layer of an LSTM" in shown
    assert "config options, with the values without a preset:" in shown


def test_no_command_shows_the_help_and_fails(capsys: Capture) -> None:
    assert main([]) == 2
    assert "usage: unbounded VERB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "unknown command 'trian'. Did you mean 'train'?"),
        (["train", "revrsal"], "unknown task 'revrsal'. Did you mean 'reversal'?"),
        (["train"], "task: expected a task, got none. Valid: anb2n, "),
        (["train", "copy", "--config", "nowhere.yaml"], "config: nowhere.yaml: No such file or"),
        # Options cannot be abbreviated: the parsers of the commands disagreed on abbreviations.
        *(
            (["train", "copy", option], f"unknown option '{option}'. Did you mean")
            for option in ("--proto", "--quie", "--conf")
        ),
    ],
)
def test_unknown_names_and_missing_files_are_errors(
    arguments: list[str], message: str, capsys: Capture
) -> None:
    assert message in failing(capsys, *arguments)


def test_all_errors_of_a_command_line_together(capsys: Capture, tmp_path: Path) -> None:
    message = failing(
        capsys,
        *("train", "copy", "--seed", "x", "--model.memry", "queue", "--model.memory=heap"),
        *("--training.learning_rate", "-1", "--runs", str(tmp_path)),
    )
    assert "4 errors" in message
    assert "seed: expected an integer, got 'x'" in message
    assert "unknown option '--model.memry'. Did you mean '--model.memory'?" in message
    assert "model.memory: unknown memory 'heap'" in message
    assert "training.learning_rate: expected a number above 0" in message
    assert list(tmp_path.iterdir()) == []


def test_all_errors_of_a_config_file_together(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("task: copy\nseed: abc\nmodel: {memory: quue, hiden: 3}\n")
    message = failing(capsys, "train", "--config", str(path))
    assert "3 errors" in message
    assert "model has no option 'hiden'. Did you mean 'hidden_size'?" in message
    assert "seed: expected an integer, got 'abc'" in message
    assert "unknown memory 'quue'. Did you mean 'queue'?" in message


def test_the_config_of_a_run_folder_is_a_valid_config_file(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("task: copy\nid: x\nseed: 7\nused: {threads: 1, kernels: avx2}\n")
    assert main(["train", "--config", str(path), "--print_config"]) == 0
    out = capsys.readouterr().out
    assert "task:\n  name: copy\nid: null\nseed: 7\n" in out
    # It names every option, so nothing comes from the preset.
    assert "hardening:\n  name: none\n" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: [copy\n", "bad.yaml is not YAML, line 2, column 1: expected ',' or ']'"),
        (
            "task: copy\ntraining:\n  batches: 3\n  batches: 4\n",
            "bad.yaml is not YAML, line 4, column 3: the key 'batches' is already in line 3",
        ),
        ("- copy\n", "bad.yaml holds no options; expected lines such as 'task: copy'"),
        ("", "bad.yaml holds no options"),
    ],
)
def test_an_invalid_config_file_is_the_only_error(
    text: str, message: str, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    error = failing(capsys, "train", "--config", str(path))
    assert "1 error:" in error
    assert f"config: {tmp_path}" in error
    assert message in error


def test_values_of_a_wrong_type_are_described_in_words(capsys: Capture) -> None:
    given = {
        "--seed": ("1.5", "expected an integer, got 1.5"),
        "--training.clip": ("x", "expected a number, got 'x'"),
        "--training.minutes": ("x", "expected a number or null, got 'x'"),
        "--hardware.threads": ("x", "expected an integer or null, got 'x'"),
        "--model.output_bias": ("7", "expected true or false, got 7"),
        "--model": ("queue", "expected one of its options, as in --model.NAME VALUE"),
    }
    options = [word for name, (value, _) in given.items() for word in (name, value)]
    text = failing(capsys, "train", "copy", *options, "--quiet=maybe", "--jobs")
    assert "8 errors" in text
    for name, (_, message) in given.items():
        assert f"  - {name.removeprefix('--')}: " in text
        assert message in text
    assert "quiet: expected no value, got 'maybe'" in text
    assert "jobs: expected an integer after it, got nothing" in text
    assert "class" not in text
    assert "runs: expected a path after it, got nothing" in failing(
        capsys, "train", "copy", "--runs"
    )


def test_numbers_out_of_range_of_examples(capsys: Capture) -> None:
    message = failing(capsys, "sample", "copy", "-n", "0", "--seed", "-1", "--split", "tst")
    assert "-n: expected a number at least 1, got 0" in message
    assert "--seed: expected a number at least 0, got -1" in message
    assert "--split: unknown split 'tst'. Did you mean 'test'?" in message
    message = failing(capsys, "sample", "copy", "--seed", str(2**64))
    assert f"--seed: expected a number at most {2**64 - 1}, got {2**64}" in message


def test_precedence_is_preset_file_option(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("task: reversal\nmodel: {hidden_size: 7, memory: {width: 9}}\n")
    given = ["train", "--model.hidden_size", "5", "--config", str(path)]
    assert main([*given, "--print_config"]) == 0
    out = capsys.readouterr().out
    assert "name: stack" in out  # the preset of reversal
    assert "width: 9" in out  # the file
    assert "hidden_size: 5" in out  # the option


def test_an_option_of_a_mapping_has_a_dotted_name(capsys: Capture) -> None:
    given = ["train", "parity_check", "--model.memory", "turing_tape"]
    changes = ["--evaluation.memory", "{slots: 8, shift: zero}", "--evaluation.memory.slots=9"]
    assert main([*given, *changes, "--print_config"]) == 0
    config = plain_yaml.load(capsys.readouterr().out)
    assert config["evaluation"]["memory"] == {"slots": 9, "shift": "zero"}
    wrong = failing(capsys, *given, "--evaluation.memory.slot", "9")
    assert "evaluation.memory: memory 'turing_tape' has no option 'slot'" in wrong
    wrong = failing(capsys, *given, "--evaluation.count.slots", "9")
    assert "unknown option '--evaluation.count.slots'" in wrong


def test_a_protocol_changes_the_preset_and_options_change_both(capsys: Capture) -> None:
    given = ["--protocol", "paper", "--training.clip", "7", "--print_config"]
    assert main(["train", "anbn", *given]) == 0
    out = capsys.readouterr().out
    assert "optimizer:\n    name: sgd" in out
    assert "hidden_size: 40" in out
    assert "clip: 7\n" in out
    message = failing(capsys, "train", "anbn", "--protocol=papers")
    assert "unknown protocol 'papers'. Did you mean 'paper'?" in message


def test_a_config_with_errors_is_not_printed(capsys: Capture, tmp_path: Path) -> None:
    for given in (["--training.learning_rate", "-1"], ["--training.lengths=-5:3"]):
        assert given[0][2:].split("=")[0] in failing(
            capsys, "train", "copy", *given, "--print_config"
        )
    # The data of a task may be in another folder.
    assert main(["train", "penn_treebank", "--print_config"]) == 0
    assert "task:\n  name: penn_treebank" in capsys.readouterr().out


def test_the_error_for_a_value_with_a_minus_shows_the_valid_form(capsys: Capture) -> None:
    message = failing(capsys, "evaluate", "RUN", "--lengths", "-5:3")
    assert "lengths: expected a text after it, got nothing" in message
    assert "is written --lengths=-..." in message


def test_the_task_may_have_any_position(capsys: Capture) -> None:
    assert main(["train", "--seed", "3", "--resume", "reversal", "--print_config"]) == 0
    assert "name: stack" in capsys.readouterr().out


def test_another_schedule_drops_the_cooldown_of_the_preset(capsys: Capture) -> None:
    constant, cooldown = {"name": "constant"}, {"name": "cooldown", "batches": 2000}
    for given, schedule in (
        ("constant", constant),
        ("cooldown", cooldown),
        ("{name: cooldown}", {"name": "cooldown"}),
        ("{batches: 3}", {"name": "cooldown", "batches": 3}),
    ):
        training = printed(capsys, "gender", "--training.schedule", given)["training"]
        assert training["schedule"] == schedule
    message = failing(capsys, "train", "gender", "--training.schedule", "constat", "--runs", ".")
    assert "unknown schedule 'constat'. Did you mean 'constant'?" in message


def test_another_schedule_in_a_file_and_another_curriculum_drop_options(
    capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("task: gender\ntraining: {schedule: constant}\n")
    training = printed(capsys, "--config", str(path))["training"]
    assert training["schedule"] == {"name": "constant"}
    path.write_text("task: gender\ntraining: {schedule: {name: cooldown, batches: 7}}\n")
    constant = ("--training.schedule", "constant")
    training = printed(capsys, "--config", str(path), *constant)["training"]
    assert training["schedule"] == {"name": "constant"}
    training = printed(capsys, "binary_addition", "--training.curriculum", "doubling")["training"]
    assert training["curriculum"] == {"name": "doubling"}
    message = failing(capsys, "train", "copy", "--training.curriculum", "doubling")
    assert "training.length_bucketing: a doubling curriculum changes lengths at any" in message


def test_a_protocol_and_the_config_of_a_run_exclude_each_other(
    capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("task: copy\nused: {threads: 1}\n")
    message = failing(capsys, "train", "--config", str(path), "--protocol", "paper")
    assert "is a run's whole config; give --protocol or --config" in message
    path.write_text("task: copy\nused: 5\n")
    assert "a config has no option 'used'" in failing(capsys, "train", "--config", str(path))


def test_an_option_of_the_task_is_never_lost(capsys: Capture) -> None:
    """`--task.X` works with the positional TASK; it was once ignored without a message."""
    option = "--task.symbols"
    # It works with a mapping of options too.
    mapping = ("--task", '{symbols: 8, train_lengths: "1:4"}')
    for words in ((option, "9"), (f"{option}=9",)):
        assert printed(capsys, "copy", *words)["task"] == {"name": "copy", "symbols": 9}
        task = printed(capsys, "copy", *mapping, *words)["task"]
        assert task == {"name": "copy", "symbols": 9, "train_lengths": "1:4"}
    message = failing(capsys, "train", "copy", "--task.symbls", "9")
    assert "task 'copy' has no option 'symbls'" in message


@pytest.mark.parametrize("task", ["ntm_copy", "dyck"])
@pytest.mark.parametrize(
    "ranges",
    [
        ["--task.test_lengths", "4:6"],
        ["--task", '{train_lengths: "1:3"}'],
        ["--training.lengths=1:3"],
    ],
)
def test_other_training_ranges_drop_the_evaluation_ranges_of_the_preset(
    task: str, ranges: list[str], capsys: Capture
) -> None:
    def scored(*arguments: str) -> Any:
        return printed(capsys, task, *arguments)["evaluation"].get("lengths")

    assert len(scored()) > 1
    assert scored(*ranges) is None
    assert scored(*ranges, "--evaluation.lengths", "1:3,7:9") == ["1:3", "7:9"]


def test_other_training_ranges_keep_the_evaluation_ranges_of_a_stream(capsys: Capture) -> None:
    config = printed(capsys, "anbn", "--task.train_lengths", "2:9")
    assert config["evaluation"]["lengths"][0] == "2:60"


@pytest.mark.parametrize("memory", ["[1]", "{name: [queue]}", "null", "3"])
def test_an_invalid_memory_in_a_config_file_is_an_error(
    memory: str, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"task: copy\nmodel: {{memory: {memory}}}\n")
    message = failing(capsys, "train", "--config", str(path))
    assert "model.memory: expected a" in message
    assert "name" in message


def test_a_printed_config_is_the_run_itself(capsys: Capture, tmp_path: Path) -> None:
    """Once a file's protocol had no effect, its task was ignored, and a printed one was null."""
    path = tmp_path / "mine.yaml"
    for given in (("anbn", "--protocol", "paper"), ("copy", "--model.memory", "deque")):
        assert main(["train", *given, "--seed", "4", "--print_config"]) == 0
        text = capsys.readouterr().out
        path.write_text(text)
        assert main(["train", "--config", str(path), "--print_config"]) == 0
        assert capsys.readouterr().out == text
    message = failing(capsys, "train", "reversal", "--config", str(path))
    assert "is for task 'copy', but this run is for task 'reversal'; leave one out" in message
    path.write_text("task: anbn\nprotocol: paper\nmodel: {memory: queue}\n")
    assert main(["train", "--config", str(path), "--print_config"]) == 0
    out = capsys.readouterr().out
    assert "name: queue" in out
    assert "clip_by: value" in out
    assert "capacity" not in out
    path.write_text("task: anbn\nprotocol: nonsense\n")
    message = failing(capsys, "train", "--config", str(path))
    assert "unknown protocol 'nonsense'. Valid: paper." in message


def test_the_error_for_an_unknown_option_names_only_a_few(capsys: Capture) -> None:
    message = failing(capsys, "train", "copy", "--trainig.batch_size", "3")
    assert "Did you mean '--training.batch_size'? Others like it: --training.b" in message
    assert "--help shows all" in message
    assert message.count("--") < 8


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_prints_how_to_resume(tmp_path: Path) -> None:
    options = {"batches": 100000, "stop": {"every": 100000}, "accuracy_every": 0}
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
    assert "stopped by SIGINT; the run is saved; the same command with --resume continues" in err
    assert "Traceback" not in err
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("given", "step"),
    [
        (["answer_odd_first", "--model.memory.variant", "2016"], "bounded"),
        (["answer_odd_first", "--model.memory.variant=2017"], "bounded"),
        (["answer_addition", "--model.memory.variant", "2017"], "normalised_candidate"),
        (["answer_addition", "--model.memory.variant", "2016"], "normalised_candidate"),
        (["answer_addition", "--model.memory.variant=2017", "--model.memory.step=free"], "free"),
    ],
)
def test_another_variant_of_a_memory_keeps_its_other_options(
    given: list[str], step: str | None, capsys: Capture
) -> None:
    assert printed(capsys, *given)["model"]["memory"].get("step") == step


@pytest.mark.parametrize("form", [["--model.memory={name: stack, width: 8}"],
                                  ["--model.memory", "{name: stack, width: 8}"]])  # fmt: skip
def test_a_memory_as_a_mapping(form: list[str], capsys: Capture) -> None:
    memory = printed(capsys, "copy", *form)["model"]["memory"]
    assert (memory["name"], memory["width"]) == ("stack", 8)


def _named_anew() -> dict[str, Trial]:
    """A trial of each memory or controller whose config lacks an option of the preset."""
    found: dict[str, Trial] = {}
    for paper, study in (
        ("matrix", "laptop"),
        ("grefenstette2015", "small"),
        ("yang2016", "paper"),
    ):
        for trial in load_study(paper, study).trials:
            preset = preset_of(trial.config.task["name"])["model"]
            for part in ("memory", "controller"):
                own = getattr(trial.config.model, part)
                if own["name"] == preset[part]["name"] and preset[part].keys() - own.keys():
                    found.setdefault(f"{trial.config.task['name']}: {own}", trial)
    return found


@pytest.mark.parametrize("share", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_memory_named_in_a_file_drops_the_options_of_the_preset(
    capsys: Capture, tmp_path: Path, share: int
) -> None:
    path = tmp_path / "mine.yaml"
    trials = _named_anew()
    assert len(trials) > 10
    for trial in [*trials.values()][::share]:
        data = to_dict(trial.config)
        path.write_text(plain_yaml.dump(data))
        config = printed(capsys, "--config", str(path))
        assert config["model"] == data["model"]
        assert config["training"] == data["training"]
    for memory, is_the_presets in (
        ("{name: queue, width: 8}", False),
        ("queue", True),
        ("{width: 8}", True),
    ):
        path.write_text(f"task: gender\nmodel: {{memory: {memory}}}\n")
        assert main(["train", "--config", str(path), "--print_config"]) == 0
        assert ("pop_bias: -2.0" in capsys.readouterr().out) is is_the_presets


def test_a_memory_named_by_dotted_keys_drops_the_options_of_the_preset(
    capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    for text in (
        "model.memory: {name: queue, width: 8}",
        "model.memory.name: queue\nmodel.memory.width: 8",
    ):
        path.write_text(f"task: gender\n{text}\n")
        memory = printed(capsys, "--config", str(path))["model"]["memory"]
        assert memory == {"name": "queue", "width": 8}
    for text in ("model: {memory: {width: 8}}", "model: 3"):
        path.write_text(f"task: gender\nmodel.memory.width: 9\n{text}\n")
        message = failing(capsys, "train", "--config", str(path))
        assert "config: model.memory.width: expected it once in the file, got it twice" in message


def test_a_printed_config_keeps_a_stack_without_a_capacity(capsys: Capture, tmp_path: Path) -> None:
    own = ("anbn", "--model.memory", "{name: superposition_stack, count: 3}")
    config = printed(capsys, *own)
    assert "capacity" not in config["model"]["memory"]
    path = tmp_path / "mine.yaml"
    path.write_text(plain_yaml.dump(config))
    assert printed(capsys, "--config", str(path)) == config


def test_null_removes_an_option_of_a_memory(capsys: Capture) -> None:
    for given in (
        ("--model.memory.pop_bias", "null"),
        ("--model.memory", "{name: queue, pop_bias: null}"),
    ):
        assert printed(capsys, "gender", *given)["model"]["memory"] == {"name": "queue"}
    kept = printed(
        capsys, "anbn", "--model.memory.capacity", "null", "--model.memory.overflow", "error"
    )
    assert kept["model"]["memory"]["capacity"] is None
