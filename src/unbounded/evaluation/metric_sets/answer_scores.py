"""Scores of answers: exact match, symbol accuracy, and prefix accuracy (before the first error).

"fine" has two meanings in the papers: symbol accuracy (Yang) and prefix accuracy (Grefenstette et
al.). Reports contain both, under these names.

Source: Yang 2016, arXiv:1602.08671; Yang & Rush 2017, arXiv:1611.02854.
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
    Examples,
    MetricSet,
    Row,
    Texts,
    row_of,
    table_of,
    with_loss,
)
from unbounded.evaluation.metrics import check_scored, sequence_scores
from unbounded.evaluation.score import Score, nan_fact, score_of, wilson
from unbounded.tasks import LengthRange
from unbounded.training.objective import OBJECTIVES

#: Keys of a row -> names in a table.
MEASURES: Final = {
    "exact_match": "exact_match",
    "symbol_accuracy": "symbol_accuracy",
    "prefix_accuracy": "prefix_accuracy",
}


def answer_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """Score each answer of a batch.

    Args:
        predicted, targets: tokens, int64 [B, T].
        mask: True at the answer's symbols, its end among them, bool [B, T], at least one a row.
    Returns:
        exact match, bool [B]; symbol accuracy, float64 [B], the share of correct symbols (Yang);
        prefix accuracy, float64 [B], the share before the first error (Grefenstette et al.).
    Raises:
        ShapeError: the three shapes differ, or a row has no symbol.
    """
    length = check_scored(predicted, targets, mask)
    correct = ((predicted == targets) & mask).sum(dim=1)
    exact_match, prefix = sequence_scores(predicted, targets, mask)
    return exact_match, correct.double() / length, prefix


class Answers(MetricSet):
    """Scores answers that are not fed back. A subclass defines the ranges of the test."""

    measures: ClassVar[Mapping[str, str]] = MEASURES
    column = "{measure}_{row}"
    texts: ClassVar[Texts] = {
        "lengths": "{lengths}",
        "of training": "{times:g}x",
        "sequences": "{count}",
        "exact_match": "{exact_match:.3f}",
        "95 % interval": "{exact_match_95[0]:.3f}-{exact_match_95[1]:.3f}",
        "symbol accuracy": "{symbol_accuracy:.3f}",
        "+-": "{symbol_accuracy_error:.3f}",
        "prefix accuracy": "{prefix_accuracy:.3f}",
    }
    selection_metric = selection_metric_heading = "validation errors"
    why = ": the share of validation symbols that are wrong (plus a thousandth of its nats)"

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """See `MetricSet.assess`. The partial accuracy is the symbol accuracy."""
        numbers = self._numbers(evaluator, evaluator.validation(lengths, start, count))
        exact_match, partial_accuracy, _, nan = numbers
        return score_of(exact_match, partial_accuracy, nan)

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        """See `MetricSet.rows`.

        "times" is a range's longest length divided by the longest in training.
        """
        rows = []
        for row, lengths, _, _ in self.begun_rows(evaluator, evaluation_plan):
            examples = evaluation_plan.examples(lengths)
            numbers = self._numbers(evaluator, examples)
            times = lengths.maximum / evaluator.train_lengths.maximum
            parts = self._parts(evaluator, examples, numbers)
            rows.append({**row, "times": times, **_numbers_of_answers(*numbers), **parts})
        return rows

    def _parts(
        self, evaluator: Evaluator, examples: Examples, numbers: Sequence[Tensor]
    ) -> dict[str, Any]:
        """Further entries of a row; `numbers` are those of `_numbers`, float64 [B] each."""
        return {}

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        numbers = self._numbers(evaluator, evaluator.validation())
        return self.validation_facts(evaluator, _numbers_of_answers(*numbers))

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """Share of incorrect validation symbols; the loss breaks ties."""
        facts = report["validation"]
        wrong = 1 - float(facts["symbol_accuracy"])
        return with_loss(wrong, float(facts["nats_per_token"]))

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether exact match on the test range is 1.00 to two digits."""
        tested = row_of(rows, "test")
        return None if tested is None else f"{tested['exact_match']:.2f}" == "1.00"

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """Define the two accuracies."""
        return [
            'symbol accuracy: share of correct symbols ("fine" of Yang); prefix accuracy: share '
            'before the first error ("fine" of Grefenstette)'
        ]

    def _numbers(
        self, evaluator: Evaluator, examples: Examples
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Exact match, symbol and prefix accuracy of each answer, float64 [B], and NaN."""
        predict = OBJECTIVES[evaluator.task.objective].predict

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            scores = answer_scores(predict(logits).cpu(), targets, mask)
            return torch.stack([score.double() for score in scores], dim=1)

        numbers, nan = evaluator.numbers(examples.of(evaluator.task), look, len(MEASURES))
        exact_match, symbols, prefix = (numbers * ~nan.unsqueeze(1)).unbind(dim=1)
        return exact_match, symbols, prefix, nan


class Sizes(Answers):
    """Scores answers at the training lengths and at two, four and eight times these lengths."""

    columns: ClassVar[Mapping[str, int]] = {
        f"{measure}_{times}x": 2 for times in (1, 2, 4, 8) for measure in MEASURES
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        f"{times}x": tuple(f"{measure}_{times}x" for measure in MEASURES) for times in (1, 2, 4, 8)
    }
    shown = "2x"
    spread = ("exact_match_2x", "2x exact match")
    success = "2x exact match 1.00"
    solved = "2x exact match 1.00 to two digits"
    legend = """\
Each cell is exact match / symbol accuracy / prefix accuracy: the share of answers that are wholly
correct, the mean share of correct symbols of an answer ("fine" of Yang 2016), and the mean share
before the first error ("fine" of Grefenstette et al. 2015). Sequences are of the test split, at the
lengths of training (1x) and at those up to twice, four and eight times the longest of training."""

    def ranges(self, evaluator: Evaluator) -> Sequence[LengthRange]:
        """Training, test, and ranges up to four and eight times the longest training length."""
        train, test = evaluator.train_lengths, evaluator.task.test_lengths
        longest = max(train.maximum, test.maximum)
        further = [LengthRange(k * longest + 1, 2 * k * longest) for k in (1, 2)]
        possible = [each for each in further if not evaluator.task.range_errors(each)]
        return tuple(dict.fromkeys((train, test, *possible)))

    def rows_shown(self, rows: Sequence[Row]) -> Mapping[str, Row | None]:
        longer = {
            f"{times}x": next(
                (row for row in rows if row["role"] == "longer" and row["times"] == times), None
            )
            for times in (4, 8)
        }
        return {"1x": row_of(rows, "train"), "2x": row_of(rows, "test"), **longer}


class Programs(Answers):
    """Scores answers to new programs, whose numbers have as many digits as in training.

    Rows also contain the scores of the programs with each kind of operator. With a nesting above 1
    a program may count for several of them.
    """

    columns: ClassVar[Mapping[str, int]] = {f"{measure}_test": 2 for measure in MEASURES}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "test": tuple(f"{measure}_test" for measure in MEASURES)
    }
    roles = ("test",)
    shown = "test"
    spread = ("symbol_accuracy_test", "test symbol accuracy")
    legend = """\
Each cell is exact match / symbol accuracy / prefix accuracy: the share of answers that are wholly
correct, the mean share of correct characters of an answer ("fine" of Yang 2016), and the mean share
before the first error ("fine" of Grefenstette et al. 2015), on programs of the test split."""

    texts_of_each: ClassVar[Texts] = {
        "operator": "{operator}",
        "programs": "{count}",
        **{
            heading: text
            for heading, text in Answers.texts.items()
            if heading not in ("of training", "sequences")
        },
    }

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Return None, because no success is defined for programs."""
        return None

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """Also the numbers by operator, of the row that the columns show."""
        tested = row_of(rows, "test") or {}
        by_operator = {
            operator: tuple(float(numbers[measure]) for measure in MEASURES)
            for operator, numbers in tested.get("per_operator", {}).items()
        }
        return {**super().further(rows), **by_operator}

    def details(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """See `MetricSet.details`. A line for each length range and operator."""
        each = [
            {"lengths": row["lengths"], "operator": operator, **numbers}
            for row in rows
            for operator, numbers in row.get("per_operator", {}).items()
        ]
        return table_of(self.texts_of_each, each) if each else []

    def _parts(
        self, evaluator: Evaluator, examples: Examples, numbers: Sequence[Tensor]
    ) -> dict[str, Any]:
        if len(evaluator.task.operators) < 2:
            return {}
        drawn = evaluator.task.programs(
            examples.seed, examples.split, examples.start, examples.count, examples.lengths
        )
        per_operator = {}
        for operator in evaluator.task.operators:
            chosen = torch.tensor([operator in program.operators for program in drawn])
            if chosen.any():
                own = [number[chosen] for number in numbers]
                per_operator[operator] = _numbers_of_answers(*own)
        return {"per_operator": per_operator}


def _numbers_of_answers(
    exact_match: Tensor, partial_accuracy: Tensor, prefix: Tensor, nan: Tensor
) -> dict[str, Any]:
    count, correct = len(exact_match), int(exact_match.sum())

    def error(shares: Tensor) -> float:
        return float(shares.std()) / math.sqrt(count) if count > 1 else 0.0

    return {
        "count": count,
        "correct": correct,
        "exact_match": correct / count,
        "exact_match_95": list(wilson(correct, count)),
        "symbol_accuracy": float(partial_accuracy.mean()),
        "symbol_accuracy_error": error(partial_accuracy),
        "prefix_accuracy": float(prefix.mean()),
        "prefix_accuracy_error": error(prefix),
        **nan_fact(int(nan.sum())),
    }
