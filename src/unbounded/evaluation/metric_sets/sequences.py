"""Exact match and prefix accuracy of targets at ranges of lengths.

Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from unbounded.evaluation.metric_sets.base import (
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
    Row,
    Texts,
    default_lengths,
    roles_of,
    row_of,
)
from unbounded.evaluation.metrics import sequence_scores
from unbounded.evaluation.score import Judge, Score, nan_fact, score
from unbounded.tasks import Batch, LengthRange


class Sequences(MetricSet):
    """Scores each sequence by comparing outputs with its target.

    Args:
        judge: scores each sequence of a batch.
        legend: the definition of its numbers; by default those of Grefenstette et al.
    """

    no_stops = ()
    columns: ClassVar[Mapping[str, int]] = {
        "train_exact_match": 2,
        "train_prefix_accuracy": 2,
        "test_exact_match": 2,
        "test_prefix_accuracy": 2,
    }
    measures: ClassVar[Mapping[str, str]] = {
        "exact_match": "exact_match",
        "prefix_accuracy": "prefix_accuracy",
    }
    roles = ("train", "test")
    texts: ClassVar[Texts] = {
        "lengths": "{lengths}",
        "sequences": "{count}",
        "exact match": "{exact_match:.3f}",
        "95 % interval": "{exact_match_95[0]:.3f}-{exact_match_95[1]:.3f}",
        "prefix accuracy": "{prefix_accuracy:.3f}",
        "+-": "{prefix_accuracy_error:.3f}",
    }
    fields = ("count", "lengths", "symbols", "multiples")
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "train": ("train_exact_match", "train_prefix_accuracy"),
        "test": ("test_exact_match", "test_prefix_accuracy"),
    }
    shown = "test"
    spread = ("test_exact_match", "test exact match")
    selection_metric = "training perplexity"
    selection_metric_heading = "train perplexity"
    why = ", as the paper chooses"
    success = "test exact match 1.00"
    solved = "test exact match 1.00 to two digits"
    baseline = (
        ' "1-layer LSTM then" is the baseline\'s median exact match at the test range '
        "after as many batches, on validation sequences."
    )
    legend = """\
Each cell is exact match / prefix accuracy: the share of sequences that are wholly correct, and the
mean share of a target before the first error (the paper's "coarse" and "fine"). Sequences are of
the test split, at the training range ("train") and the test range ("test")."""

    def __init__(self, judge: Judge = sequence_scores, legend: str = "") -> None:
        self._judge = judge
        if legend:
            self.legend = legend

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        return self._score(evaluator, evaluator.validation(lengths, start, count))

    def validation_batch(self, evaluator: Evaluator) -> Batch:
        return _at_most(evaluator, evaluator.validation()).of(evaluator.task)

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        """See `MetricSet.rows`.

        The default ranges are training, test, and one up to twice as long.
        """
        rows = []
        longest = evaluator.train_lengths.maximum
        multiples = [
            LengthRange(times * longest, times * longest) for times in evaluation_plan.multiples
        ]
        ranges = (*(evaluation_plan.lengths or default_lengths(evaluator)), *multiples)
        roles = roles_of(evaluator, ranges)
        count_of = partial(_count_of, evaluator, evaluation_plan)
        for lengths, count, _ in evaluation_plan.in_turn(ranges, count_of):
            scored = self._score(evaluator, evaluation_plan.examples(lengths, count=count))
            rows.append(row(lengths, scored, roles[lengths]))
        return rows

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """Training perplexity."""
        perplexity: float | None = report["perplexity_train"]
        return perplexity

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether exact match is 1.00 to two digits, as printed in the paper."""
        tested = row_of(rows, "test")
        return None if tested is None else f"{tested['exact_match']:.2f}" == "1.00"

    def _score(self, evaluator: Evaluator, examples: Examples) -> Score:
        place = evaluator.place
        return score(
            evaluator.model,
            evaluator.task,
            **vars(_at_most(evaluator, examples)),
            device=place.device,
            share=place.share,
            total=place.total,
            check=place.check,
            judge=self._judge,
        )


def row(lengths: LengthRange, scored: Score, role: str) -> dict[str, Any]:
    """One row of a report, with Wilson's 95 % interval and a standard error."""
    return {
        "lengths": str(lengths),
        "role": role,
        "count": scored.count,
        "correct": scored.correct,
        "exact_match": scored.exact_match,
        "exact_match_95": list(scored.interval(0.95)),
        "prefix_accuracy": scored.partial_accuracy,
        **nan_fact(scored.nan),
        "prefix_accuracy_error": scored.partial_error,
    }


def _count_of(evaluator: Evaluator, evaluation_plan: EvaluationPlan, lengths: LengthRange) -> int:
    count = evaluation_plan.count_of(lengths)
    return _at_most(evaluator, evaluation_plan.examples(lengths, count=count)).count


def _at_most(evaluator: Evaluator, examples: Examples) -> Examples:
    """At most as many as there are, because repeated examples add nothing."""
    available: int | None = evaluator.task.available(examples.split, examples.lengths)
    return replace(examples, count=min(examples.count, available or examples.count))
