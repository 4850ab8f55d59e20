"""Sequences right to the end: coarse and fine accuracy of targets at ranges of lengths.

Source: Grefenstette et al. 2015, arXiv:1506.02516, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from unbounded.evaluation.metrics import sequence_scores
from unbounded.evaluation.score import Judge, Score, nan_fact, score
from unbounded.evaluation.scorings.base import (
    Exam,
    Row,
    Scoring,
    Sweep,
    Values,
    default_lengths,
    roles_of,
    row_of,
)
from unbounded.tasks import Batch, LengthRange


class Sequences(Scoring):
    """Scores each sequence by its target.

    Args:
        judge: scores each sequence of a batch.
        legend: what its numbers are; by default those of Grefenstette et al.
    """

    stops = ("solved", "converged", "budget")
    columns: ClassVar[Mapping[str, int]] = {
        "train_coarse": 2,
        "train_fine": 2,
        "test_coarse": 2,
        "test_fine": 2,
    }
    fields = ("count", "lengths", "symbols", "multiples")
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "train": ("train_coarse", "train_fine"),
        "test": ("test_coarse", "test_fine"),
    }
    shown = "test"
    spread = ("test_coarse", "test coarse")
    merit = "training perplexity"
    merit_heading = "train perplexity"
    why = ", as the paper chooses"
    success = "test coarse 1.00"
    solved = "test coarse 1.00 to two digits"
    baseline = (
        ' "1-layer LSTM then" is the baseline\'s median coarse accuracy at the test range '
        "after as many batches, on validation sequences."
    )
    legend = """\
Accuracies are coarse / fine: sequences right to the end, and the mean share of a target that is
right before the first error, each on sequences of the test split, at the training range ("train")
and at the test range ("test")."""

    def __init__(self, judge: Judge = sequence_scores, legend: str = "") -> None:
        self._judge = judge
        if legend:
            self.legend = legend

    def assess(self, exam: Exam, lengths: LengthRange, start: int, count: int) -> Score:
        """See `Scoring.assess`."""
        return self._score(exam, "validation", exam.seed, lengths, start, count)

    def validation_batch(self, exam: Exam) -> Batch:
        """See `Scoring.validation_batch`."""
        lengths = exam.validation_lengths
        count = _at_most(exam, "validation", lengths, exam.validation_count)
        batch: Batch = exam.task.batch(exam.seed, "validation", 0, count, lengths)
        return batch

    def rows(self, exam: Exam, sweep: Sweep) -> list[dict[str, Any]]:
        """See `Scoring.rows`; by default the training range, the test range, one as long again."""
        rows = []
        longest = exam.train_lengths.maximum
        far = [LengthRange(times * longest, times * longest) for times in sweep.multiples]
        ranges = (*(sweep.lengths or default_lengths(exam)), *far)
        roles = roles_of(exam, ranges)
        count_of = partial(_count_of, exam, sweep)
        for lengths, count, _ in sweep.in_turn(ranges, count_of):
            scored = self._score(exam, sweep.split, sweep.seed, lengths, 0, count)
            rows.append(row(lengths, scored, roles[lengths]))
        return rows

    def merit_of(self, report: Mapping[str, Any]) -> float | None:
        """Training perplexity."""
        perplexity: float | None = report["perplexity_train"]
        return perplexity

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """As the paper prints it, to two digits."""
        tested = row_of(rows, "test")
        return None if tested is None else f"{tested['accuracy_coarse']:.2f}" == "1.00"

    def values(self, report: Mapping[str, Any]) -> Values:
        """See `Scoring.values`."""
        values: Values = {}
        for role in ("train", "test"):
            found = row_of(report["rows"], role)
            for measure in ("coarse", "fine"):
                number = None if found is None else float(found[f"accuracy_{measure}"])
                values[f"{role}_{measure}"] = number
        return values

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """See `Scoring.further`."""
        shown = [row_of(rows, "train"), row_of(rows, "test")]
        return {
            each["lengths"]: (float(each["accuracy_coarse"]), float(each["accuracy_fine"]))
            for each in rows
            if each not in shown
        }

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """See `Scoring.lines`."""
        head = ("lengths", "sequences", "coarse", "95 % interval", "fine", "+-")
        return [
            head,
            *(
                (
                    each["lengths"],
                    str(each["count"]),
                    f"{each['accuracy_coarse']:.3f}",
                    "{:.3f}-{:.3f}".format(*each["accuracy_coarse_95"]),
                    f"{each['accuracy_fine']:.3f}",
                    f"{each['accuracy_fine_error']:.3f}",
                )
                for each in rows
            ),
        ]

    def _score(
        self, exam: Exam, split: str, seed: int, lengths: LengthRange, start: int, count: int
    ) -> Score:
        place = exam.place
        return score(
            exam.model,
            exam.task,
            seed=seed,
            split=split,
            lengths=lengths,
            start=start,
            count=_at_most(exam, split, lengths, count),
            device=place.device,
            share=place.share,
            total=place.total,
            check=place.check,
            judge=self._judge,
        )


def row(lengths: LengthRange, scored: Score, role: str) -> dict[str, Any]:
    """One row of a report, with Wilson's interval of 95 % and the standard error of fine."""
    return {
        "lengths": str(lengths),
        "role": role,
        "count": scored.count,
        "right": scored.right,
        "accuracy_coarse": scored.coarse,
        "accuracy_coarse_95": list(scored.interval(0.95)),
        "accuracy_fine": scored.fine,
        **nan_fact(scored.nan),
        "accuracy_fine_error": scored.fine_error,
    }


def _count_of(exam: Exam, sweep: Sweep, lengths: LengthRange) -> int:
    return _at_most(exam, sweep.split, lengths, sweep.count_of(lengths))


def _at_most(exam: Exam, split: str, lengths: LengthRange, count: int) -> int:
    """No more examples than there are: one that is scored twice says nothing new."""
    available: int | None = exam.task.available(split, lengths)
    return count if not available else min(count, available)
