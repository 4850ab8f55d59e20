"""`evaluation.memory`: memory options for sequences longer than in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.experiments.tiny import planned, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.evaluation.metric_sets import Place
from unbounded.experiments.config.check import errors
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run import evaluate
from unbounded.experiments.run.evaluate import evaluate_run, with_memory
from unbounded.experiments.run.hardening_phase import far_evaluators
from unbounded.experiments.run.run import train_run
from unbounded.models import MemoryModel
from unbounded.tasks import LengthRange


def config(slots: int | None) -> RunConfig:
    made = tiny(batches=20, accuracy_every=0, curriculum={"name": "one_length"})
    made.task = {"name": "reverse_string", "train_lengths": "1:3", "test_lengths": "4:12"}
    made.model.memory = {"name": "turing_tape", "slots": 7, "width": 4}
    made.evaluation = {"count": 20}
    if slots is not None:
        made.evaluation["memory"] = {"slots": slots}
    return made


def accuracies(report: dict[str, Any]) -> list[float]:
    return [row["token_accuracy"] for row in report["rows"]]


def test_memory_options_apply_to_longer_sequences_only(tmp_path: Path) -> None:
    short, long = (
        train_run(config(slots), root=tmp_path, quiet=True, figures=False) for slots in (None, 30)
    )
    assert run_name(config(None)) != run_name(config(30))
    assert short.report["validation"] == long.report["validation"]
    of_short, of_long = accuracies(short.report), accuracies(long.report)
    assert of_short[0] == of_long[0]
    assert of_short[1] != of_long[1]
    # `unbounded evaluate` uses the run's options; options of the command apply to all lengths.
    again = evaluate_run(long.folder)
    assert accuracies(again) == of_long
    assert again["memory_options_of_longer"] == {"slots": 30}
    assert accuracies(evaluate_run(short.folder, memory={"slots": 30}))[1] == of_long[1]
    assert accuracies(evaluate_run(long.folder, memory={"slots": 7})) == of_short


def test_a_given_capacity_is_not_enlarged_for_longer_sequences(tmp_path: Path) -> None:
    """A tape with fewer slots than symbols wraps; by default the library enlarges it."""
    made, kept = config(None), config(4)
    for each in (made, kept):
        each.model.memory = {"name": "rolling_tape", "slots": 7, "width": 4}
    run, of_test = (
        train_run(each, root=tmp_path, quiet=True, figures=False) for each in (made, kept)
    )
    given = evaluate_run(run.folder, memory={"slots": 4})
    assert accuracies(given)[1] != accuracies(run.report)[1]
    assert accuracies(of_test.report)[1] == accuracies(given)[1]


def test_a_given_capacity_of_stacks_drops_cells(tmp_path: Path) -> None:
    made = tiny_streams(batches=4)
    made.model.memory = {
        "name": "superposition_stack", "count": 2, "capacity": 20, "overflow": "drop_bottom"
    }  # fmt: skip
    folder = train_run(made, root=tmp_path, quiet=True, figures=False).folder
    lengths = [LengthRange(30, 30)]
    assert evaluate_run(folder, lengths=lengths)["rows"][0]["capacity_given"] >= 60
    given = evaluate_run(folder, lengths=lengths, memory={"capacity": 5})
    assert given["rows"][0]["capacity_given"] is None


def test_hardening_checks_longer_strings_with_the_options(monkeypatch) -> None:
    """A tape of 7 slots cannot hold the 4 x 3 symbols of the check, and one of 30 can."""
    seen: list[tuple[int, int]] = []

    def watched(model: MemoryModel, options: dict[str, Any]) -> MemoryModel:
        longer = with_memory(model, options)
        seen.append((slots_of(model), slots_of(longer)))
        return longer

    monkeypatch.setattr(evaluate, "with_memory", watched)
    made = config(30)
    made.hardening = {"name": "gradual", "far": 4}
    own = planned(made)
    evaluator = evaluate.with_test_memory(
        own.evaluator(own.model(), Place(torch.device("cpu"))), made
    )
    (far,) = far_evaluators(own, evaluator)
    assert str(far.validation_lengths) == "12:12"
    own.metric_set.assess(evaluator, evaluator.train_lengths, 0, 5)
    assert seen == []
    own.metric_set.validation_error(far)
    assert set(seen) == {(7, 30)}


def slots_of(model: MemoryModel) -> int:
    return int(model.sequence.layer.layers[0].memory.slots)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"slots": 0}, "evaluation.memory.slots: "),
        ({}, "evaluation.memory: expected at least one option"),
        ({"slot": 8}, "evaluation.memory: "),
        ({"width": 8}, "evaluation.memory.width: changes the parameters of the run"),
        ("512", "evaluation.memory: expected"),
    ],
)
def test_bad_options_are_refused_before_training(options: Any, message: str) -> None:
    made = config(None)
    made.evaluation["memory"] = options
    (error,) = errors(made)
    assert error.startswith(message)


def test_a_model_without_a_memory_has_no_options() -> None:
    made = config(8)
    made.model.memory = {"name": "none"}
    assert errors(made) == ["evaluation.memory: the model has no memory; leave it out"]


def test_metric_sets_that_score_without_lengths_have_no_options() -> None:
    made = tiny()
    made.evaluation["memory"] = {"width": 4}
    (error,) = errors(made)
    assert error.startswith("evaluation has no option 'memory' on task 'copy'")


@pytest.mark.parametrize("language", ["marked_reversal", "odds_first", "parity"])
def test_no_training_sequence_counts_as_longer(language: str) -> None:
    made = tiny()
    made.task = {"name": "flare", "language": language, "train_lengths": "1:10"}
    own = planned(made)
    evaluator = own.evaluator(own.model(), Place(torch.device("cpu")))
    drawn = own.task.batch(made.seed, "train", 0, 2000, own.train_lengths)
    assert int(drawn.lengths.max()) == evaluator._steps_of_training
