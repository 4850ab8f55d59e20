"""Answers: right to the end, share of symbols that are right, share before the first error.

"fine" is two things in the papers: the share of symbols that are right, wherever they stand (Yang),
and the share before the first error (Grefenstette et al.). Both stand here, each by its name.

Source: Yang 2016, arXiv:1602.08671; Yang & Rush 2017, arXiv:1611.02854.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from unbounded.evaluation.metrics import check_scored, sequence_scores
from unbounded.evaluation.score import Score, nan_fact, numbers_of, wilson
from unbounded.evaluation.scorings.base import (
    SURENESS,
    Exam,
    Row,
    Scoring,
    Sweep,
    Values,
    roles_of,
    row_of,
)
from unbounded.tasks import LengthRange
from unbounded.training.objective import OBJECTIVES

#: What of a row stands in a table, and what it is called.
MEASURES: Final = {
    "coarse": "accuracy_coarse",
    "fine": "accuracy_fine",
    "prefix": "accuracy_prefix",
}


def answer_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
    """Score each answer of a batch.

    Args:
        predicted, targets: tokens, int64 [B, T].
        mask: True at the answer's symbols, its end among them, bool [B, T], at least one a row.
    Returns:
        coarse, bool [B], whether every symbol is right; fine, float64 [B], the share of symbols
        that are right (Yang); prefix, float64 [B], the share before the first error (Grefenstette).
    Raises:
        ShapeError: the three shapes differ, or a row has no symbol.
    """
    length = check_scored(predicted, targets, mask)
    right = ((predicted == targets) & mask).sum(dim=1)
    coarse, prefix = sequence_scores(predicted, targets, mask)
    return coarse, right.double() / length, prefix


class Answers(Scoring):
    """Scores answers that nothing was fed back into; what is tested is a subclass's to say."""

    merit = merit_heading = "validation errors"
    why = ": the share of validation symbols that are wrong (plus a thousandth of its nats)"

    @abstractmethod
    def default_lengths(self, exam: Exam) -> Sequence[LengthRange]:
        """The ranges of a report where none are named."""

    @abstractmethod
    def rows_of(self, rows: Sequence[Row]) -> Mapping[str, Row | None]:
        """The rows by what their columns are called."""

    def assess(self, exam: Exam, lengths: LengthRange, start: int, count: int) -> Score:
        """See `Scoring.assess`; fine is the share of symbols that are right."""
        numbers = self._numbers(exam, "validation", exam.seed, lengths, start, count)
        coarse, fine, _, nan = numbers
        error = float(fine.std()) / math.sqrt(count) if count > 1 else 0.0
        return Score(count, int(coarse.sum()), float(fine.mean()), error, int(nan.sum()))

    def rows(self, exam: Exam, sweep: Sweep) -> list[dict[str, Any]]:
        """See `Scoring.rows`; "times" is a range's longest as a multiple of training's."""
        rows = []
        ranges = sweep.lengths or self.default_lengths(exam)
        roles = roles_of(exam, ranges)
        for lengths, _, _ in sweep.in_turn(ranges):
            numbers = self._numbers(exam, sweep.split, sweep.seed, lengths, 0, sweep.count)
            row = {
                "lengths": str(lengths),
                "role": roles[lengths],
                "times": lengths.maximum / exam.train_lengths.maximum,
            }
            rows.append({**row, **_numbers_of_answers(*numbers)})
        return rows

    def facts(self, exam: Exam, sweep: Sweep) -> dict[str, Any]:
        """See `Scoring.facts`."""
        lengths, count = exam.validation_lengths, exam.validation_count
        numbers = self._numbers(exam, "validation", exam.seed, lengths, 0, count)
        facts = {"lengths": str(lengths), **_numbers_of_answers(*numbers)}
        return {"validation": {**facts, "nats_per_token": self.validate(exam)}}

    def merit_of(self, report: Mapping[str, Any]) -> float | None:
        """Share of validation symbols that are wrong; of equal ones the surer is better."""
        facts = report["validation"]
        wrong = 1 - float(facts["accuracy_fine"])
        return wrong + SURENESS * min(float(facts["nats_per_token"]), 1.0)

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether all are right at the test range, to two digits."""
        tested = row_of(rows, "test")
        return None if tested is None else f"{tested['accuracy_coarse']:.2f}" == "1.00"

    def values(self, report: Mapping[str, Any]) -> Values:
        """See `Scoring.values`."""
        shown = self.rows_of(report["rows"])
        return {
            f"{measure}_{name}": None if row is None else float(row[field])
            for name, row in shown.items()
            for measure, field in MEASURES.items()
        }

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """See `Scoring.further`."""
        shown = list(self.rows_of(rows).values())
        return {
            row["lengths"]: tuple(float(row[field]) for field in MEASURES.values())
            for row in rows
            if row not in shown
        }

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """See `Scoring.lines`."""
        head = ("lengths", "of training", "sequences", "coarse", "95 % interval")
        return [
            (*head, "fine per symbol", "+-", "fine prefix"),
            *(
                (
                    row["lengths"],
                    f"{row['times']:g}x",
                    str(row["count"]),
                    f"{row['accuracy_coarse']:.3f}",
                    "{:.3f}-{:.3f}".format(*row["accuracy_coarse_95"]),
                    f"{row['accuracy_fine']:.3f}",
                    f"{row['accuracy_fine_error']:.3f}",
                    f"{row['accuracy_prefix']:.3f}",
                )
                for row in rows
            ),
        ]

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """What the two kinds of fine are."""
        return [
            "fine per symbol: share of symbols that are right (Yang); fine prefix: share before "
            "the first error (Grefenstette)"
        ]

    def _numbers(
        self, exam: Exam, split: str, seed: int, lengths: LengthRange, start: int, count: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Coarse, fine and prefix of each answer, float64 [B] each, and whether it has NaN."""
        predict = OBJECTIVES[exam.task.objective].predict

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            judged = answer_scores(predict(logits).cpu(), targets, mask)
            return torch.stack([each.double() for each in judged], dim=1)

        place = exam.place
        numbers, nan = numbers_of(
            exam.model,
            exam.task.batch(seed, split, start, count, lengths),
            look,
            len(MEASURES),
            device=place.device,
            share=place.share,
            total=place.total,
            check=place.check,
        )
        return numbers[:, 0] * ~nan, numbers[:, 1], numbers[:, 2], nan


class Sizes(Answers):
    """Answers at the lengths of training and at twice, four and eight times these."""

    columns: ClassVar[Mapping[str, int]] = {
        f"{measure}_{times}x": 2 for times in (1, 2, 4, 8) for measure in MEASURES
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        f"{times}x": tuple(f"{measure}_{times}x" for measure in MEASURES) for times in (1, 2, 4, 8)
    }
    shown = "2x"
    spread = ("coarse_2x", "2x coarse")
    success = "2x coarse 1.00"
    solved = "2x coarse 1.00 to two digits"
    legend = """\
Accuracies are coarse / fine per symbol / fine prefix: answers that are right to the end, the mean
share of symbols of an answer that are right (Yang 2016), and the mean share before the first error
(Grefenstette et al. 2015), each on sequences of the test split, at the lengths of training (1x) and
at those up to twice, four and eight times the longest of training."""

    def default_lengths(self, exam: Exam) -> Sequence[LengthRange]:
        """Training, test, and what is up to four and eight times the longest of training."""
        train, test = exam.train_lengths, exam.task.test_lengths
        longest = max(train.maximum, test.maximum)
        further = [LengthRange(k * longest + 1, 2 * k * longest) for k in (1, 2)]
        possible = [each for each in further if not exam.task.range_faults(each)]
        return tuple(dict.fromkeys((train, test, *possible)))

    def rows_of(self, rows: Sequence[Row]) -> Mapping[str, Row | None]:
        """See `Answers.rows_of`."""
        longer = {
            f"{times}x": next(
                (row for row in rows if row["role"] == "longer" and row["times"] == times), None
            )
            for times in (4, 8)
        }
        return {"1x": row_of(rows, "train"), "2x": row_of(rows, "test"), **longer}


class Programs(Answers):
    """Answers to programs: numbers of as many digits as in training, programs never seen."""

    columns: ClassVar[Mapping[str, int]] = {f"{measure}_test": 2 for measure in MEASURES}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "test": tuple(f"{measure}_test" for measure in MEASURES)
    }
    shown = "test"
    spread = ("fine_test", "test fine per symbol")
    legend = """\
Accuracies are coarse / fine per symbol / fine prefix: answers that are right to the end, the mean
share of characters of an answer that are right (Yang 2016), and the mean share before the first
error (Grefenstette et al. 2015), on programs of the test split."""

    def default_lengths(self, exam: Exam) -> Sequence[LengthRange]:
        """Training, and test."""
        return tuple(dict.fromkeys((exam.train_lengths, exam.task.test_lengths)))

    def rows_of(self, rows: Sequence[Row]) -> Mapping[str, Row | None]:
        """See `Answers.rows_of`."""
        return {"test": row_of(rows, "test")}

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """None: no number of right programs is called a success."""
        return None


def _numbers_of_answers(
    coarse: Tensor, fine: Tensor, prefix: Tensor, nan: Tensor
) -> dict[str, Any]:
    count, right = len(coarse), int(coarse.sum())

    def error(shares: Tensor) -> float:
        return float(shares.std()) / math.sqrt(count) if count > 1 else 0.0

    return {
        "count": count,
        "right": right,
        "accuracy_coarse": right / count,
        "accuracy_coarse_95": list(wilson(right, count)),
        "accuracy_fine": float(fine.mean()),
        "accuracy_fine_error": error(fine),
        "accuracy_prefix": float(prefix.mean()),
        "accuracy_prefix_error": error(prefix),
        **nan_fact(int(nan.sum())),
    }
