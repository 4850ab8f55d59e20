"""Common option names produce hints, and common number formats are accepted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.cli.failing import Capture, failing
from unbounded.cli import main
from unbounded.cli.main import VERBS
from unbounded.experiments.config.schema import HardeningConfig, all_options
from unbounded.training.hooks import SCHEDULES


@pytest.mark.parametrize(
    ("option", "here"),
    [
        ("--lr", "--training.learning_rate"),
        ("--epochs", "--training.batches, the budget in batches"),
        ("--gpu", "--hardware.device cuda"),
        ("--batch-size", "--training.batch_size"),
    ],
)
def test_option_names_of_other_programs_produce_a_hint(
    option: str, here: str, capsys: Capture
) -> None:
    """Once there was no hint, or a misleading one."""
    message = failing(capsys, "train", "copy", option, "1")
    assert f"unknown option '{option}': it is {here}" in message


def test_an_option_for_the_task_name_produces_a_hint(capsys: Capture) -> None:
    message = failing(capsys, "train", "--task", "copy")
    assert "the name of the task is the first word after the command" in message
    assert "first word" not in failing(capsys, "reproduce", "--task", "copy")


def test_explore_with_the_option_out_suggests_export(capsys: Capture) -> None:
    message = failing(capsys, "explore", "--out", "page.html")
    assert "unknown option '--out': it is --export FILE" in message


@pytest.mark.parametrize("verb", ["verify", "harden", "extract"])
def test_commands_without_an_output_option_name_the_output_folder(
    verb: str, capsys: Capture
) -> None:
    message = failing(capsys, verb, "run", "--out", "folder")
    assert "unknown option '--out': the results are written into the run's own folder" in message
    message = failing(capsys, "evaluate", "run", "--output", "folder")
    assert "unknown option '--output'. Did you mean '--out'?" in message


@pytest.mark.parametrize("word", ["--version", "-V", "-v", "version"])
def test_version(word: str, capsys: Capture) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out.startswith("unbounded ")


def test_help(capsys: Capture) -> None:
    assert main(["help"]) == 0
    assert "unbounded train copy" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["help", "sample"])
    assert "unbounded sample" in capsys.readouterr().out


@pytest.mark.parametrize("number", ["0x10", "1_000", "٣٢", "1e", "5 6"])
def test_numbers_in_odd_forms(number: str, capsys: Capture) -> None:
    """Once some were accepted with an unexpected meaning."""
    message = failing(capsys, "train", "copy", "--model.hidden_size", number, "--print_config")
    assert "model.hidden_size: expected an integer" in message
    assert number in message


@pytest.mark.parametrize("number", ["1e-3", ".5", "2."])
def test_common_number_formats_are_accepted(number: str, capsys: Capture) -> None:
    assert main(["train", "copy", "--training.learning_rate", number, "--print_config"]) == 0
    assert f"learning_rate: {float(number)}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--evaluation.lengths", "[]"], "expected at least one range of lengths, such as 65:128"),
        (["--runs", ""], "runs: expected a folder, got an empty string; '.' is the current folder"),
        (["--hardening"], "hardening: expected a name after it, got nothing"),
        (["--training", "3"], "training: expected one of its options, as in --training.NAME"),
        (["2"], "expected an option such as --NAME VALUE after 'copy', got '2'"),
    ],
)
def test_empty_values_are_errors(
    arguments: list[str],
    message: str,
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once these trained and printed an empty table, or wrote into the folder."""
    monkeypatch.chdir(tmp_path)
    assert message in failing(capsys, "train", "copy", *arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("task", ["anbn", "binary_addition"])
def test_no_memory_can_replace_the_memory_of_a_preset(
    task: str, capsys: Capture, tmp_path: Path
) -> None:
    """Once the preset's capacity and overflow were then errors."""
    assert main(["train", task, "--model.memory", "none", "--print_config"]) == 0
    out = capsys.readouterr().out
    assert "  memory:\n    name: none\n  controller:" in out


def test_a_sampled_line_separates_source_and_target(capsys: Capture) -> None:
    assert main(["sample", "reversal", "-n", "1", "--lengths", "40:40"]) == 0
    source, mark, target = capsys.readouterr().out.partition(" ||| ")
    assert mark
    assert source.split() == target.split()[::-1]
    assert len(source.split()) == 40
    message = failing(capsys, "sample", "copy", "2")
    assert "expected an option such as --NAME VALUE after 'copy', got '2'" in message


YAMLS = {
    "task: [copy]": "unknown task ['copy']",
    "{task: copy, model: [1, 2]}": "model",
    "[" * 2000: "nested more than 50 levels deep",
}


@pytest.mark.parametrize(("text", "message"), YAMLS.items(), ids=range(len(YAMLS)))
def test_an_invalid_config_file_is_an_error(
    text: str, message: str, capsys: Capture, tmp_path: Path
) -> None:
    """Once each ended in a traceback."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert message in failing(capsys, "train", "--config", str(path))


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_on_two_screens(
    verb: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it had 342 lines and began with a block of 50."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert f"\n  unbounded {verb}" in out
    lines = out.splitlines()
    assert len(lines) <= 96
    examples = next(n for n, line in enumerate(lines) if line.startswith("example"))
    assert examples < 14
    assert examples < next(n for n, line in enumerate(lines) if line.startswith("options"))


def test_help_shows_every_option_of_a_config(capsys: Capture) -> None:
    for arguments in ([], ["copy"]):
        with pytest.raises(SystemExit):
            main(["train", *arguments, "--help"])
        out = capsys.readouterr().out
        for option in {*all_options()} - {"task", "hardware.data"}:
            assert f"  --{option} " in out
        assert "--log_with" in out
        assert ", ".join(SCHEDULES) in out
    assert main(["train", "copy", "--training.plateu.least", "1"]) == 2
    assert "Did you mean '--training.plateau'" in capsys.readouterr().err


def test_harden_has_every_option_of_hardening(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(["harden", "--help"])
    shown = capsys.readouterr().out
    names = {field.name for field in dataclasses.fields(HardeningConfig)} - {"validation_count"}
    assert all(f"--{name} " in shown for name in names | {"count"})
    assert "Offset of random sign on the logits" in shown
