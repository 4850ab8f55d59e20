"""Runs on Dyck words: evaluation with a longer tape, and early abort."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.failing import Capture, failing
from unbounded.cli.main import main
from unbounded.errors import ConfigError, RoomWarning, say_once
from unbounded.experiments.config.check import build_task, errors
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.evaluate import evaluate_run, with_memory
from unbounded.experiments.run.examples import course_of, typed_word
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run import train_run
from unbounded.figures import draw_run, read_tape
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import LengthRange, make_task
from unbounded.training import EarlyAbort
from unbounded.training.state import LoopState


def config(**changes: Any) -> RunConfig:
    small: dict[str, Any] = {
        "model": {"memory": {"slots": 8, "width": 3}, "hidden_size": 4},
        "training": {
            "batches": 2, "batch_size": 4, "validation_count": 8, "stop": {"every": 2},
            "report_every": 1, "checkpoint_every": 2, "accuracy_every": 0,
            "validation_lengths": "3:4",
        },
        "task": {"train_lengths": "1:2", "test_lengths": "3:4"},
        "evaluation": {"count": 10, "every": 2, "lengths": ["1:2", "3:4"]},
    }  # fmt: skip
    data = overlay(preset_of("dyck"), small, changes)
    data["hardware"] = {"device": "cpu", "threads": 1, "backend": "auto", "data": None}
    return composed(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(config(), root=tmp_path_factory.mktemp("runs"), quiet=True).folder


def test_the_preset_has_no_error():
    for task in ("dyck", "ntm_copy", "repeat_copy", "associative_recall"):
        assert errors(composed(preset_of(task))) == []


def test_the_preset_of_dyck_words_has_the_parameters_of_the_papers_program():
    """2300 of the controller, 2626 of the read head, 6666 of the write head, 101 of the output."""
    preset = composed(preset_of("dyck"))
    model = plan(preset, build_task(preset)).model()
    layer = model.sequence.layer
    assert sum(each.numel() for each in layer.layers[0].controller.parameters()) == 2300
    rows = {head.name: layer.layers[0].heads.rows(head.name) for head in layer.memory.heads}
    read = sum(rows[name].stop - rows[name].start for name in rows if name.startswith("read_"))
    assert read * 101 == 2626
    assert sum(each.numel() for each in layer.layers[0].heads.parameters()) == 2626 + 6666
    assert sum(each.numel() for each in model.sequence.output.parameters()) == 101
    assert sum(each.numel() for each in model.parameters() if each.requires_grad) == 11693


def test_a_run_is_scored_with_more_slots(folder: Path, capsys: Capture):
    small = evaluate_run(folder)
    larger = evaluate_run(folder, memory={"slots": 16})
    assert larger["memory_options"] == {"slots": 16}
    assert small["memory_options"] == {}
    assert len(larger["rows"]) == len(small["rows"])
    assert main(["evaluate", str(folder), "--model.memory.slots", "9"]) == 0
    assert "test-slots9-1-2_3-4-by2-n10-seed1.json" in capsys.readouterr().out


#: Arguments after the run, and a part of their error.
INVALID = {
    "evaluate": [
        (["--model.memory.width", "5"], "model.memory.width: changes the parameters of the run"),
        (["--model.memory.slots=0"], "model.memory.slots: expected an integer >= 1, got 0"),
        (["--model.memory.slots", "many"], "slots: expected an integer, got 'many'"),
        (["--model.memory.depth", "3"], "has no option 'depth'"),
        (["--model.memory.slots"], "model.memory.slots: expected a value after it, got nothing"),
        (["--evaluation.memory.slots", "64"], "expected --model.memory.OPTION and its value"),
        (["--evaluation.count", "5"], "did you mean --count?"),
        (["--model.memory.name", "queue"], "expected --model.memory.OPTION and its value"),
    ],
    "actions": [
        (["uux"], "unknown symbol of task dyck 'x'. Valid: d, u"),
        ([" "], "input: expected at least one symbol, got none"),
        (["ud", "--discretize"], "--discretize: has no meaning on task 'dyck'; leave it out"),
        (["ud", "--course", "a.mp4"], "--course: expected a name that ends in .gif, got 'a.mp4'"),
    ],
}


@pytest.mark.parametrize(
    ("command", "arguments", "text"),
    [(command, *row) for command, rows in INVALID.items() for row in rows],
)
def test_invalid_options_and_words_are_errors(
    folder: Path, command: str, arguments: list[str], text: str, capsys: Capture
):
    assert text in failing(capsys, command, str(folder), *arguments)


def test_a_word_is_judged_prefix_by_prefix(folder: Path, tmp_path: Path, capsys: Capture):
    course = tmp_path / "course.gif"
    command = ["actions", str(folder), "uu dddu", "--out", str(tmp_path), "--course", str(course)]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = ["step", "symbol", "height", "chance:", "Dyck", "word"]
    heads = ["read", "head", "write", "head", "read", "gate", "read", "shift"]
    assert lines[0].split()[: len(titles + heads)] == titles + heads
    rows = [line.split() for line in lines[2:8]]
    assert [row[1] for row in rows] == list("uudddu")
    assert [row[2] for row in rows] == ["1", "2", "1", "0", "-1", "0"]
    assert all(0 <= float(row[3]) <= 1 and 0 <= float(row[4]) < 8 for row in rows)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"path.svg", "tape.svg", "course.gif"} <= names
    assert "exists; --overwrite replaces it" in failing(capsys, *command)
    drawn = {path.name for path in draw_run(folder)}
    assert {"example_dyck_word.svg", "example_other_word.svg"} <= drawn
    assert (folder / "figures" / "lengths.svg").is_file()


def test_a_run_without_a_tape_judges_words(tmp_path: Path, capsys: Capture):
    alone = config(model={"memory": "none", "controller": "lstm"}, training={"batches": 1})
    run = train_run(alone, root=tmp_path, quiet=True).folder
    assert main(["actions", str(run), "ud", "--out", str(tmp_path / "pictures")]) == 0
    assert "read head" not in capsys.readouterr().out
    assert {path.stem for path in (tmp_path / "pictures").iterdir()} == {"path"}
    dyck, empty = make_task("dyck"), tmp_path / "empty"
    (empty / "model").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"train with --training\.keep_checkpoints"):
        course_of(empty, dyck, lambda _: typed_word(dyck, "ud"), read_tape)


def test_the_requested_number_of_checkpoints_is_kept(tmp_path: Path):
    many = config(training={"batches": 4, "checkpoint_every": 1, "keep_checkpoints": 3})
    run = train_run(many, root=tmp_path, quiet=True).folder
    task = make_task("dyck")
    frames = course_of(run, task, lambda _: typed_word(task, "uudd"), read_tape)
    assert sorted(frames) == [2, 3, 4]


def test_a_model_without_a_memory_has_no_options_to_change():
    model = MemoryModel(inputs=2, outputs=1, memory="none", hidden_size=3)
    with pytest.raises(ConfigError, match=r"model\.memory: the run has no memory, so no options"):
        with_memory(model, {"slots": 3})


def test_weights_stay_when_the_tape_grows():
    memory = {"name": "turing_tape", "slots": 8, "width": 3}
    model = MemoryModel(inputs=2, outputs=1, memory=memory, hidden_size=4).double().eval()
    other = with_memory(model, {"slots": 20})
    assert other.sequence.layer.memory.slots == 20
    assert not other.training
    for name, weight in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight)


def test_words_higher_than_the_tape_are_scored_with_a_warning(folder: Path):
    say_once.cache_clear()
    with pytest.warns(RoomWarning, match="up to 12 high, and the tape has 8 slots") as caught:
        evaluate_run(folder, lengths=[LengthRange(9, 12)])
    assert sum(each.category is RoomWarning for each in caught) == 1
    evaluate_run(folder, lengths=[LengthRange(9, 12)])  # warned once
    evaluate_run(folder, lengths=[LengthRange(9, 12)], memory={"slots": 13})
    say_once.cache_clear()


def test_early_abort_stops_a_run_and_is_reported(tmp_path: Path):
    early_abort = {"name": "perplexity", "after": 3, "perplexity": 1.01}
    training = {"batches": 9, "early_abort": early_abort}
    own = config(training=training, evaluation={"count": 100})
    result = train_run(own, root=tmp_path, quiet=True)
    assert result.report["batches"] == 3
    assert result.report["stopped"].startswith("failed early: training perplexity is ")
    assert result.report["success"] is False


def test_early_abort_is_checked_once():
    rule = EarlyAbort(after=10, perplexity=1.2).after_batch
    assert rule(LoopState(batch=9, perplexity=2.0), None, None) is None
    assert rule(LoopState(batch=10, perplexity=1.1), None, None) is None
    assert "above 1.2; another seed" in str(rule(LoopState(batch=10, perplexity=1.3), None, None))
    assert rule(LoopState(batch=11, perplexity=2.0), None, None) is None


def test_errors_of_the_new_options():
    abort = {"early_abort": {"name": "perplexity", "after": 3}, "report_every": 2}
    (line,) = errors(config(training=abort))
    assert line == (
        "training.early_abort.after: expected a multiple of training.report_every (2), got 3"
    )
    (line,) = errors(config(training={"early_abort": "perplexity"}))
    assert line == "training.early_abort: early abort 'perplexity' needs the option 'after'"
