"""NaN among the logits: such strings are wrong, and the table gives their number."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.evaluation.evaluators import evaluator_of
from unbounded.errors import NonFiniteError
from unbounded.evaluation import score, table
from unbounded.evaluation.memory_use import use_text
from unbounded.evaluation.metric_sets import EvaluationPlan, metric_set_of
from unbounded.evaluation.score import mean_nats
from unbounded.files import json_text
from unbounded.tasks import LengthRange, make_task

OPTIONS = {"train_lengths": "2:4", "test_lengths": "5:6"}
CASES = [
    ("copy", {"symbols": 3, **OPTIONS}),
    ("dyck_prefixes", {"train_lengths": "2:4", "test_lengths": "6:8"}),
    ("dyck", OPTIONS),
    ("answer_copy", {"symbols": 3, **OPTIONS}),
    ("ntm_copy", {"bits": 2, **OPTIONS}),
    ("anbn", {"sequences": 4, **OPTIONS}),
    ("flare", {"language": "parity", **OPTIONS}),
    ("reverse_string", OPTIONS),
]


class Overflowing(nn.Module):
    """Its logits are NaN from the second step on, for every third sequence."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None) -> Any:
        logits = torch.zeros(*inputs.shape, self.outputs)
        logits[::3, 1:] = torch.nan
        return logits, state


@pytest.mark.parametrize(("name", "options"), CASES)
def test_strings_with_nan_are_incorrect_and_counted(name: str, options: dict[str, Any]) -> None:
    task = make_task(name, **options)
    metric_set = metric_set_of(task.metric_set)
    outputs = 1 if task.objective == "binary" else len(task.output_vocabulary)
    evaluator = evaluator_of(Overflowing(outputs), task, count=9)
    evaluation_plan = EvaluationPlan("test", 1, [task.test_lengths], 9, every=5, streams=3)
    (row,) = metric_set.rows(evaluator, evaluation_plan)
    assert row["nan"] >= row["count"] / 3
    assert row["correct"] <= row["count"] - row["nan"]
    shares = (
        "token_accuracy", "accuracy", "exact_match", "symbol_accuracy", "prefix_accuracy",
        "partial_accuracy",
    )  # fmt: skip
    for name_of in shares:
        assert row.get(name_of, 0) <= 1 - row["nan"] / row["count"] + 1e-9
    report = {"task": name, "metric_set": task.metric_set, "split": "test", "seed": 1}
    report["rows"] = [row]
    note = f"NaN in {row['nan']} of {row['count']} strings of {row['lengths']}: they count as wrong"
    assert note in table(report).splitlines()
    # As in a file: JSON has neither NaN nor infinity.
    stored = json.loads(json_text(report))
    assert note in table(stored).splitlines()
    metric_set.details(stored["rows"])
    metric_set.values(stored)
    assert metric_set.assess(evaluator, task.test_lengths, 0, 9).correct <= 6


def test_nan_above_the_bound_is_infinite() -> None:
    task = make_task("stack_language", **OPTIONS)
    metric_set = metric_set_of(task.metric_set)
    evaluator = evaluator_of(Overflowing(len(task.output_vocabulary)), task, count=9)
    rows = metric_set.rows(evaluator, EvaluationPlan("test", 1, [LengthRange(5, 5)], 9))
    stored = json.loads(json_text({"rows": rows, "validation": {"nats_per_symbol": math.nan}}))
    assert stored["rows"][0]["nats_per_symbol"] is None
    assert metric_set.selection_metric_of(stored) == math.inf
    assert "inf" in metric_set.lines(stored["rows"])[1]
    assert metric_set.details(stored["rows"])


def test_nan_whose_likeliest_symbol_is_the_target_is_wrong() -> None:
    """The argmax of NaN logits is the first symbol, which may be the target."""
    task = make_task("copy", symbols=1, **OPTIONS)
    evaluator = evaluator_of(Overflowing(1), task, count=9)
    batch = task.batch(1, "validation", 0, 9, task.train_lengths)
    first = batch._replace(targets=torch.zeros_like(batch.targets))
    assert all(mask.any() for mask in first.mask)
    task.batch = lambda *arguments, **options: first
    assert metric_set_of("sequences").assess(evaluator, task.train_lengths, 0, 9).correct == 6


def test_a_mean_that_was_nan_is_read_from_a_report() -> None:
    """JSON has no NaN: a report has null there, which used to raise TypeError."""
    use = {"memory_use": {"6:100": {"scored": {"read_gate": None, "shift": [0.5, None]}}}}
    assert use_text(use, "6:100") == "at every step read_gate nan, shift 0.50 nan"


class Growing(nn.Module):
    """Overflows on sequences whose second symbol is even: raises an error, or gives NaN."""

    def __init__(self, outputs: int, raises: bool) -> None:
        super().__init__()
        self.outputs, self.raises = outputs, raises

    def forward(self, inputs: Tensor, state: Any = None) -> Any:
        logits = torch.nn.functional.one_hot(inputs % self.outputs, self.outputs).float()
        grown = inputs[:, 1] % 2 == 0 if inputs.shape[1] > 1 else torch.zeros(len(inputs)).bool()
        if self.raises and bool(grown.any()):
            raise NonFiniteError("read_key: too large")
        return torch.where(grown[:, None, None], torch.nan, logits), state


@pytest.mark.parametrize("chunk_tokens", [1, 32, 10**6])
def test_sequences_on_which_a_memory_overflows_alone_are_wrong(chunk_tokens: int) -> None:
    task = make_task("answer_copy", symbols=3, **OPTIONS)
    raising, silent = (
        score(
            Growing(len(task.output_vocabulary), raises), task, seed=1, split="test",
            lengths=task.test_lengths, count=20, chunk_tokens=chunk_tokens,
        )
        for raises in (True, False)
    )  # fmt: skip
    assert raising == silent
    assert 0 < raising.nan < 20
    model, batch = Growing(len(task.output_vocabulary), True), task.batch(1, "test", 0, 5)
    assert mean_nats(model, batch, task.objective) == math.inf
