"""Recognition of complete strings: the share of correct labels, over all strings and by length.

Source: Butoi et al. 2025, arXiv:2411.07107, section 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from unbounded.evaluation.metric_sets.base import (
    ROLES,
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
    Row,
    Texts,
    Values,
    row_of,
)
from unbounded.evaluation.metric_sets.membership import against_nan, bands_of
from unbounded.evaluation.score import Score, cross_entropy_of, nan_fact, score_of, wilson
from unbounded.tasks import LengthRange

_CORRECT, _LABEL, _NATS, _SYMBOLS, _NAN = range(5)


class Recognised(MetricSet):
    """Scores the label at the last step of each string.

    A range has `count` strings with the lengths that the task draws, or all strings of the task's
    data. The scores are shown for bands of `every` lengths.
    """

    no_stops: ClassVar[tuple[str, ...]] = ()
    fields = ("count", "lengths", "every", "memory")
    validates_on = "train"  # longer strings are only for the test
    columns: ClassVar[Mapping[str, int]] = {
        **{f"{role}_accuracy": 3 for role in ROLES},
        "test_nats": 3,
    }
    measures: ClassVar[Mapping[str, str]] = {"accuracy": "accuracy"}
    texts: ClassVar[Texts] = {
        "lengths": "{lengths}",
        "strings": "{count}",
        "accuracy": "{accuracy:.4f}",
        "95 % interval": "{accuracy_95[0]:.4f}-{accuracy_95[1]:.4f}",
        "in the language": lambda row: _share(row["positives_correct"], row["positives"]),
        "others": lambda row: _share(
            row["correct"] - row["positives_correct"], row["count"] - row["positives"]
        ),
        "nats": lambda row: f"{cross_entropy_of(row['nats']):.4f}",
    }
    texts_of_each: ClassVar[Texts] = {
        "lengths": "{lengths}",
        "strings": "{count}",
        "accuracy": "{accuracy:.4f}",
        "nats": texts["nats"],
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "accuracy": tuple(f"{role}_accuracy" for role in ROLES),
        "cross entropy": ("test_nats",),
    }
    shown = "accuracy"
    spread = ("test_accuracy", "test accuracy")
    selection_metric = selection_metric_heading = "validation nats"
    why = ": the cross entropy of labels on validation strings, as in the paper"
    success = "test accuracy 1.00"
    solved = "test accuracy 1.00 to two digits"
    curve = "accuracy"
    curve_title = "strings of length up to n in the band with a correct label"
    curve_shaded = True
    legend = """\
Accuracy is the share of strings with the correct label, on strings of the test split at the
training lengths, at the test lengths, and beyond. "test_nats" is their mean cross entropy, in nats
a string."""

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """See `MetricSet.assess`. A string is correct if its label is correct."""
        numbers = self._numbers(evaluator, evaluator.validation(lengths, start, count))
        return score_of(numbers[:, _CORRECT], numbers[:, _CORRECT], numbers[:, _NAN])

    def validate(self, evaluator: Evaluator) -> float:
        """See `MetricSet.validate`. The loss is only the cross entropy of the labels."""
        return float(self._numbers(evaluator, evaluator.validation())[:, _NATS].mean())

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        rows = []
        for row, lengths, count, _ in self.begun_rows(evaluator, evaluation_plan):
            there = evaluator.task.available(evaluation_plan.split, lengths)
            numbers = self._numbers(
                evaluator, evaluation_plan.examples(lengths, count=there or count)
            )
            bands = []
            for band in bands_of(lengths, evaluation_plan.every):
                own = numbers[_is_in(numbers[:, _SYMBOLS], band)]
                if len(own):
                    bands.append({"n": band.maximum, "lengths": str(band), **_of_strings(own)})
            rows.append({**row, **_of_strings(numbers), "per_n": bands})
        return rows

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        lengths = str(evaluator.validation_lengths)
        facts = _of_strings(self._numbers(evaluator, evaluator.validation()))
        return {"validation": {"lengths": lengths, **facts, "nats_per_token": facts["nats"]}}

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """The cross entropy of labels on validation strings."""
        return cross_entropy_of(report["validation"]["nats"])

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether the test accuracy is 1.00 to two digits."""
        tested = row_of(rows, "test")
        return None if tested is None else f"{tested['accuracy']:.2f}" == "1.00"

    def values(self, report: Mapping[str, Any]) -> Values:
        test = row_of(report["rows"], "test")
        nats = None if test is None else cross_entropy_of(test["nats"])
        return {**super().values(report), "test_nats": nats}

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """Define two columns."""
        return [
            '"in the language" and "others": the share of correct labels among strings of that kind'
        ]

    def _numbers(self, evaluator: Evaluator, examples: Examples) -> Tensor:
        """For each string: correctness, label, nats, symbols and NaN, float64 [B, 5]."""

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            rows = torch.arange(len(mask))
            last = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
            label = targets[rows, last] & 1
            finite = against_nan(logits.cpu()[..., :1], targets & 1)[rows, last, 0].double()
            signed = torch.where(label > 0, finite, -finite)
            # A string with the logit 0 counts as not in the language.
            correct = (finite > 0) == (label > 0)
            nats = torch.nn.functional.softplus(-signed)
            return torch.stack([correct.double(), label.double(), nats, last.double()], dim=1)

        numbers, nan = evaluator.numbers(examples.of(evaluator.task), look, 4)
        return torch.cat([numbers, nan.double().unsqueeze(1)], dim=1)


def _is_in(symbols: Tensor, band: LengthRange) -> Tensor:
    """Whether lengths are in a band. The empty string is in the band that begins at 1."""
    return (symbols.clamp(min=1) >= band.minimum) & (symbols.clamp(min=1) <= band.maximum)


def _of_strings(numbers: Tensor) -> dict[str, Any]:
    count, correct = len(numbers), int(numbers[:, _CORRECT].sum())
    return {
        "count": count,
        "correct": correct,
        "accuracy": correct / count,
        "accuracy_95": list(wilson(correct, count)),
        "positives": int(numbers[:, _LABEL].sum()),
        "positives_correct": int((numbers[:, _CORRECT] * numbers[:, _LABEL]).sum()),
        "exact_match": correct / count,
        "nats": float(numbers[:, _NATS].mean()),
        **nan_fact(int(numbers[:, _NAN].sum())),
    }


def _share(correct: int, count: int) -> str:
    return f"{correct / count:.4f}" if count else "–"
