"""Runs on answer tasks: their answers are saved and drawn, and inputs can be given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.cli.failing import Capture, failing
from unbounded.cli.main import main
from unbounded.evaluation import Answer, answers_of
from unbounded.evaluation.answers import answers_from_json
from unbounded.experiments.config.check import errors
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.figures import draw_run
from unbounded.rnn import load_trace
from unbounded.tasks import LengthRange, make_task


def config(name: str, model: dict[str, Any], **changes: Any) -> RunConfig:
    small: dict[str, Any] = {
        "model": {**model, "hidden_size": 5, "embedding_size": 3},
        "training": {
            "batches": 2, "batch_size": 3, "validation_count": 4, "report_every": 1,
            "checkpoint_every": 1, "keep_checkpoints": 9, "accuracy_every": 0,
            "schedule": "constant",
        },
        "hardening": "none",
        "task": {"train_lengths": "2:3", "test_lengths": "4:5"},
        "evaluation": {"count": 5},
    }  # fmt: skip
    data = overlay(preset_of(name), small, changes)
    plateau = data["training"]["plateau"]
    if plateau["name"] == "halve":
        data["training"]["plateau"] = {**plateau, "every": 1, "hold": 0}
    data["hardware"] = {"device": "cpu", "threads": 1, "backend": "auto", "data": None}
    return composed(data)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = {"task": {"symbols": 4}}
    own = config("answer_copy", {"memory": {"width": 3}}, **options)
    return train_run(own, root=tmp_path_factory.mktemp("runs"), quiet=True).folder


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = config("programs", {"memory": "stack"})
    return train_run(own, root=tmp_path_factory.mktemp("runs"), quiet=True).folder


def test_a_report_has_one_two_four_and_eight_times_the_lengths(copies: Path):
    report = json.loads((copies / "report.json").read_text())
    assert [row["lengths"] for row in report["rows"]] == ["2:3", "4:5", "6:10", "11:20"]
    assert {"symbol_accuracy", "prefix_accuracy", "times"} <= set(report["rows"][0])
    assert report["validation"]["lengths"] == "4:5"


def test_answers_of_a_run_are_kept_and_drawn(copies: Path):
    answers = answers_from_json(json.loads((copies / "answers.json").read_text()))
    task = make_task("answer_copy", symbols=4)
    drawn = [
        example
        for lengths in ("2:3", "4:5")
        for example in task.examples(1, "test", 0, 2, LengthRange.parse(lengths))
    ]
    assert [answer.source[1:] for answer in answers] == [source for source, _ in drawn]
    assert [answer.target[:-1] for answer in answers] == [target for _, target in drawn]
    model, _ = RunFolder(copies).load_model()
    batch = task.batch(1, "test", 0, 2, LengthRange(2, 3))
    assert answers_of(model, task, batch) == answers[:2]
    assert all(isinstance(answer, Answer) and answer.target[-1] == "</s>" for answer in answers)
    written = {path.name for path in draw_run(copies)}
    assert {"answers.svg", "example.svg"} <= written


def test_answers_are_no_longer_than_the_strings_of_the_evaluation(tmp_path: Path):
    own = config("answer_copy", {"memory": {"width": 3}}, task={"symbols": 4})
    own.evaluation = {**own.evaluation, "lengths": ["2:3"]}
    folder = train_run(own, root=tmp_path, quiet=True).folder
    answers = answers_from_json(json.loads((folder / "answers.json").read_text()))
    assert len(answers) == 2
    assert all(len(answer.source) <= 4 for answer in answers)


def test_the_memory_is_not_written_while_answering(copies: Path):
    trace = load_trace(copies / "traces" / "example.json")
    strengths = trace.arrays["instruction.strength"][0]
    first = trace.symbols[0].index("|||")
    assert bool((strengths[:first] > 0).all())
    assert not strengths[first:].any()


def test_actions_show_the_answer_to_a_source(copies: Path, tmp_path: Path, capsys: Capture):
    course = tmp_path / "course.gif"
    command = ["actions", str(copies), "s1 s0 s3", "--out", str(tmp_path), "--course", str(course)]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = "step input output read_at written_at".replace("_", " ").split()
    gates = ("read key gate", "read action gate", "write key gate", "write action gate", "strength")
    assert lines[0].split() == [*titles, *" ".join(gates).split()]
    assert [line.split()[1] for line in lines[2:7]] == ["<s>", "s1", "s0", "s3", "|||"]
    assert any(line.startswith("answer: ") for line in lines)
    with Image.open(course) as animation:
        assert animation.n_frames == 2
    assert (tmp_path / "keys.svg").exists()
    err = failing(capsys, "actions", str(copies), "s1", "--out", str(tmp_path))
    assert "exists; --overwrite replaces it" in err


def test_actions_show_the_answer_to_a_program(programs: Path, capsys: Capture):
    assert main(["actions", str(programs), "a=7;#print((a if 3<4 else 1))"]) == 0
    assert "answer: " in capsys.readouterr().out
    err = failing(capsys, "actions", str(programs), "print((2%3))")
    assert "program: character 9 is '%', which is not allowed" in err
    err = failing(capsys, "actions", str(programs), "print((1+2))", "--course", "course.gif")
    assert "--course: keys are drawn for a Lie-access memory only" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["s1 s9"], "s9"),
        ([""], "source: expected at least one symbol, got none"),
        (
            ["s1 |||"],
            "source: symbol 2 is '|||', which is not among the 4 of task answer_copy: s0, ",
        ),
        (["s1", "--discretize"], "--discretize: has no meaning on task 'answer_copy'"),
    ],
)
def test_an_invalid_source_is_an_error(
    copies: Path, arguments: list[str], message: str, capsys: Capture
):
    assert message in failing(capsys, "actions", str(copies), *arguments)


def test_a_k_beyond_the_maximum_of_a_task_is_an_error_before_scoring(
    programs: Path, capsys: Capture
):
    err = failing(capsys, "evaluate", str(programs), "--lengths", "4:99")
    assert "expected numbers of at most 15 digits, got 4:99" in err
    own = config("answer_priority_sort", {}, evaluation={"lengths": ["2:5", "900:2000"]})
    (error,) = errors(own)
    assert error == (
        "evaluation.lengths: answer_priority_sort: length range: expected k of at most 1000 items, "
        "got 900:2000"
    )


def test_a_missing_picture_is_reported(programs: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["actions", str(programs), "print(1)", "--out", str(tmp_path / "pictures")]) == 0
    assert "no picture: keys are drawn for a Lie-access memory only" in capsys.readouterr().out
