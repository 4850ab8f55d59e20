"""Recognition of complete strings: the share of correct labels, over all strings and by length.

Source: Butoi et al. 2025, arXiv:2411.07107, section 5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from unbounded.evaluation.metric_sets.base import (
    EvaluationPlan,
    Evaluator,
    MetricSet,
    Row,
    Values,
    roles_of,
    row_of,
)
from unbounded.evaluation.metric_sets.membership import against_nan, bands_of
from unbounded.evaluation.score import Score, cross_entropy_of, nan_fact, wilson
from unbounded.tasks import LengthRange

_ROLES: Final = ("train", "test", "longer")
_RIGHT, _LABEL, _NATS, _SYMBOLS, _NAN = range(5)


class Recognised(MetricSet):
    """Scores the label at the last step of each string.

    A range has `count` strings with the lengths that the task draws, or all strings of the task's
    data. The scores are shown for bands of `every` lengths.
    """

    no_stops: ClassVar[tuple[str, ...]] = ()
    fields = ("count", "lengths", "every")
    validates_on = "train"  # longer strings are only for the test
    columns: ClassVar[Mapping[str, int]] = {
        **{f"{role}_accuracy": 3 for role in _ROLES},
        "test_nats": 3,
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "accuracy": tuple(f"{role}_accuracy" for role in _ROLES),
        "cross entropy": ("test_nats",),
    }
    shown = "accuracy"
    spread = ("test_accuracy", "test accuracy")
    selection_metric = selection_metric_heading = "validation nats"
    why = ": the cross entropy of labels on validation strings, as in the paper"
    success = "test accuracy 1.00"
    solved = "test accuracy 1.00 to two digits"
    curve = "accuracy"
    curve_title = "strings of length up to n in the band whose label is right"
    curve_shaded = True
    legend = """\
Accuracy is the share of strings with the right label, on strings of the test split at the training
lengths, at the test lengths, and beyond. "test_nats" is their mean cross entropy, in nats a
string."""

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """See `MetricSet.assess`. A string is correct if its label is correct."""
        numbers = self._numbers(evaluator, "validation", evaluator.seed, lengths, start, count)
        right, share = int(numbers[:, _RIGHT].sum()), numbers[:, _RIGHT]
        error = float(share.std()) / math.sqrt(count) if count > 1 else 0.0
        return Score(count, right, right / count, error, int(numbers[:, _NAN].sum()))

    def validate(self, evaluator: Evaluator) -> float:
        """See `MetricSet.validate`. The loss is only the cross entropy of the labels."""
        numbers = self._numbers(
            evaluator,
            "validation",
            evaluator.seed,
            evaluator.validation_lengths,
            0,
            evaluator.validation_count,
        )
        return float(numbers[:, _NATS].mean())

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        """See `MetricSet.rows`. The default ranges are the training and the test range."""
        ranges = evaluation_plan.lengths or tuple(
            dict.fromkeys((evaluator.train_lengths, evaluator.task.test_lengths))
        )
        roles = roles_of(evaluator, ranges)
        rows = []
        for lengths, count, _ in evaluation_plan.in_turn(ranges):
            split = evaluation_plan.split
            there = evaluator.task.available(split, lengths)
            numbers = self._numbers(
                evaluator, split, evaluation_plan.seed, lengths, 0, there or count
            )
            row = {"lengths": str(lengths), "role": roles[lengths], "every": evaluation_plan.every}
            bands = []
            for band in bands_of(lengths, evaluation_plan.every):
                own = numbers[_is_in(numbers[:, _SYMBOLS], band)]
                if len(own):
                    bands.append({"n": band.maximum, "lengths": str(band), **_of_strings(own)})
            rows.append({**row, **_of_strings(numbers), "per_n": bands})
        return rows

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        """See `MetricSet.facts`."""
        lengths, count = evaluator.validation_lengths, evaluator.validation_count
        numbers = self._numbers(evaluator, "validation", evaluator.seed, lengths, 0, count)
        facts = _of_strings(numbers)
        return {"validation": {"lengths": str(lengths), **facts, "nats_per_token": facts["nats"]}}

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """The cross entropy of labels on validation strings."""
        return cross_entropy_of(report["validation"]["nats"])

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether the test accuracy is 1.00 to two digits."""
        tested = row_of(rows, "test")
        return None if tested is None else f"{tested['accuracy']:.2f}" == "1.00"

    def values(self, report: Mapping[str, Any]) -> Values:
        """See `MetricSet.values`."""
        rows = {role: row_of(report["rows"], role) for role in _ROLES}
        values: Values = {
            f"{role}_accuracy": None if row is None else float(row["accuracy"])
            for role, row in rows.items()
        }
        test = rows["test"]
        return {**values, "test_nats": None if test is None else cross_entropy_of(test["nats"])}

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """See `MetricSet.further`."""
        shown = [row_of(rows, role) for role in _ROLES]
        return {row["lengths"]: (float(row["accuracy"]),) for row in rows if row not in shown}

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """See `MetricSet.lines`."""
        head = ("lengths", "strings", "accuracy", "95 % interval", "in the language", "others")
        return [
            (*head, "nats"),
            *(
                (
                    row["lengths"],
                    str(row["count"]),
                    f"{row['accuracy']:.4f}",
                    "{:.4f}-{:.4f}".format(*row["accuracy_95"]),
                    _share(row["positives_right"], row["positives"]),
                    _share(row["right"] - row["positives_right"], row["count"] - row["positives"]),
                    f"{cross_entropy_of(row['nats']):.4f}",
                )
                for row in rows
            ),
        ]

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """Define two columns."""
        return [
            '"in the language" and "others": the share of right labels among strings of that kind'
        ]

    def details(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """The score of each band."""
        lines: list[tuple[str, ...]] = [("lengths", "strings", "accuracy", "nats")]
        for row in rows:
            for at in row["per_n"]:
                nats = f"{cross_entropy_of(at['nats']):.4f}"
                lines.append((at["lengths"], str(at["count"]), f"{at['accuracy']:.4f}", nats))
        return lines

    def label(self, rows: Sequence[Row]) -> str:
        """See `MetricSet.label`."""
        lengths = "_".join(row["lengths"] for row in rows).replace(":", "-")
        return f"{lengths}-by{rows[0]['every']}-n{rows[0]['count']}"

    def _numbers(
        self,
        evaluator: Evaluator,
        split: str,
        seed: int,
        lengths: LengthRange,
        start: int,
        count: int,
    ) -> Tensor:
        """For each string: correctness, label, nats, symbols and NaN, float64 [B, 5]."""

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            rows = torch.arange(len(mask))
            last = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
            label = targets[rows, last] & 1
            finite = against_nan(logits.cpu()[..., :1], targets & 1)[rows, last, 0].double()
            signed = torch.where(label > 0, finite, -finite)
            # A string with the logit 0 counts as not in the language.
            right = (finite > 0) == (label > 0)
            nats = torch.nn.functional.softplus(-signed)
            return torch.stack([right.double(), label.double(), nats, last.double()], dim=1)

        batch = evaluator.task.batch(seed, split, start, count, lengths)
        numbers, nan = evaluator.numbers(batch, look, 4)
        return torch.cat([numbers, nan.double().unsqueeze(1)], dim=1)


def _is_in(symbols: Tensor, band: LengthRange) -> Tensor:
    """Whether lengths are in a band. The empty string is in the band that begins at 1."""
    return (symbols.clamp(min=1) >= band.minimum) & (symbols.clamp(min=1) <= band.maximum)


def _of_strings(numbers: Tensor) -> dict[str, Any]:
    count, right = len(numbers), int(numbers[:, _RIGHT].sum())
    return {
        "count": count,
        "right": right,
        "accuracy": right / count,
        "accuracy_95": list(wilson(right, count)),
        "positives": int(numbers[:, _LABEL].sum()),
        "positives_right": int((numbers[:, _RIGHT] * numbers[:, _LABEL]).sum()),
        "exact_match": right / count,
        "nats": float(numbers[:, _NATS].mean()),
        **nan_fact(int(numbers[:, _NAN].sum())),
    }


def _share(right: int, count: int) -> str:
    return f"{right / count:.4f}" if count else "–"
