"""Incorrect bits per sequence, for answers that are bit vectors, at ranges of lengths.

Source: Graves et al. 2014, arXiv:1410.5401, section 4; the criterion of success, Collier & Beel
2018, arXiv:1807.08518.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from unbounded.evaluation.metric_sets.base import (
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
    Row,
    Texts,
    row_of,
    with_loss,
)
from unbounded.evaluation.metrics import check_scored
from unbounded.evaluation.score import Score, nan_fact, score_of, wilson
from unbounded.tasks import LengthRange
from unbounded.training.objective import OBJECTIVES

#: A run succeeds with fewer incorrect bits per sequence than this at the training lengths.
FEW = 0.1


class Bits(MetricSet):
    """Scores each sequence by the incorrect bits of its answer."""

    validates_on = "train"  # longer sequences are only for the test
    columns: ClassVar[Mapping[str, int]] = {"train": 2, "test": 2}
    measures: ClassVar[Mapping[str, str]] = {"bits": "bits_wrong_per_sequence"}
    column = "{row}"
    roles = ("train", "test")
    texts: ClassVar[Texts] = {
        "lengths": "{lengths}",
        "sequences": "{count}",
        "bits wrong": "{bits_wrong_per_sequence:.3f}",
        "+-": "{bits_wrong_error:.3f}",
        "of bits": "{bits_per_sequence:.1f}",
        "flawless": "{exact_match:.3f}",
        "95 % interval": "{exact_match_95[0]:.3f}-{exact_match_95[1]:.3f}",
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {"bits wrong": ("train", "test")}
    shown = "bits wrong"
    spread = ("test", "test bits wrong")
    selection_metric = selection_metric_heading = "validation bits wrong"
    why = " (plus a thousandth of its nats per step)"
    success = f"fewer than {FEW} bits wrong per sequence"
    solved = f"fewer than {FEW} bits wrong per sequence of the training lengths"
    legend = """\
"Bits wrong" counts the wrong bits of a sequence's answer. It is the mean over sequences of the test
split, at the training range / at the test range."""

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """See `MetricSet.assess`. The partial accuracy is the share of correct bits."""
        examples = evaluator.validation(lengths, start, count)
        wrong, bits, nan = self._numbers(evaluator, examples)
        return score_of((wrong == 0) & ~nan, 1 - wrong / bits, nan)

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        rows = []
        for row, lengths, _, _ in self.begun_rows(evaluator, evaluation_plan):
            numbers = self._numbers(evaluator, evaluation_plan.examples(lengths))
            if lengths == evaluator.train_lengths:  # this row defines success
                row["role"] = "train"
            rows.append({**row, **_numbers_of_sequences(*numbers)})
        return rows

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        numbers = _numbers_of_sequences(*self._numbers(evaluator, evaluator.validation()))
        return self.validation_facts(evaluator, numbers)

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """Incorrect bits per validation sequence; the loss breaks ties."""
        facts = report["validation"]
        wrong, nats = facts["bits_wrong_per_sequence"], facts["nats_per_token"]
        return with_loss(float(wrong), float(nats))

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether the number of incorrect bits at the training lengths is low enough."""
        trained = row_of(rows, "train")
        return None if trained is None else bool(trained["bits_wrong_per_sequence"] < FEW)

    def _numbers(self, evaluator: Evaluator, examples: Examples) -> tuple[Tensor, Tensor, Tensor]:
        """Incorrect bits and all bits of each sequence, float64 [B], and whether it has NaN."""
        predict = OBJECTIVES[evaluator.task.objective].predict

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            wrong = bits_wrong(predict(logits).cpu(), targets, mask)
            bits = mask.sum(dim=1) * logits.shape[-1]
            return torch.stack([wrong.double(), bits.double()], dim=1)

        numbers, nan = evaluator.numbers(examples.of(evaluator.task), look, 2)
        wrong, bits = numbers.unbind(dim=1)
        return torch.where(nan, bits, wrong), bits, nan


def bits_wrong(predicted: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The number of differing bits of each sequence, int64 [B].

    Args:
        predicted, targets: numbers whose bits are compared, int64 [B, T].
        mask: True at the counted steps, bool [B, T], at least one a row.
    Raises:
        ShapeError: the three shapes differ, or a row has no counted step.
    """
    check_scored(predicted, targets, mask)
    different = (predicted ^ targets).masked_fill(~mask, 0)
    wrong = torch.zeros(len(mask), dtype=torch.int64)
    while bool(different.any()):
        wrong += (different & 1).sum(dim=1)
        different = different >> 1
    return wrong


def _numbers_of_sequences(wrong: Tensor, bits: Tensor, nan: Tensor) -> dict[str, Any]:
    count, correct = len(wrong), int(((wrong == 0) & ~nan).sum())
    return {
        "count": count,
        "correct": correct,
        "exact_match": correct / count,
        "exact_match_95": list(wilson(correct, count)),
        "symbol_accuracy": float((1 - wrong / bits).mean()),
        "bits_wrong_per_sequence": float(wrong.mean()),
        "bits_wrong_error": float(wrong.std()) / math.sqrt(count) if count > 1 else 0.0,
        "bits_per_sequence": float(bits.mean()),
        **nan_fact(int(nan.sum())),
    }
