"""Bits wrong per sequence: answers that are bit vectors, at ranges of lengths.

Source: Graves et al. 2014, arXiv:1410.5401, section 4; what counts as learned, Collier & Beel 2018,
arXiv:1807.08518.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from unbounded.evaluation.metrics import check_scored
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

#: Learned is what gets fewer bits of a sequence wrong, of the lengths of training.
FEW = 0.1


class Bits(Scoring):
    """Scores each sequence by the bits of its answer that are wrong."""

    validates_on = "train"  # longer sequences are for the test alone
    columns: ClassVar[Mapping[str, int]] = {"train": 2, "test": 2}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {"bits wrong": ("train", "test")}
    shown = "bits wrong"
    spread = ("test", "test bits wrong")
    merit = merit_heading = "validation bits wrong"
    why = " (plus a thousandth of its nats per step)"
    success = f"fewer than {FEW} bits wrong per sequence"
    solved = f"fewer than {FEW} bits wrong per sequence of the training lengths"
    legend = """\
Bits wrong are those of a sequence's answer, as the mean over sequences of the test split, at the
training range / at the test range."""

    def assess(self, exam: Exam, lengths: LengthRange, start: int, count: int) -> Score:
        """See `Scoring.assess`; fine is the share of bits that are right."""
        wrong, bits, nan = self._numbers(exam, "validation", exam.seed, lengths, start, count)
        fine = 1 - wrong / bits
        error = float(fine.std()) / math.sqrt(count) if count > 1 else 0.0
        right = int(((wrong == 0) & ~nan).sum())
        return Score(count, right, float(fine.mean()), error, int(nan.sum()))

    def rows(self, exam: Exam, sweep: Sweep) -> list[dict[str, Any]]:
        """See `Scoring.rows`; by default the training range and the test range."""
        train, test = exam.train_lengths, exam.task.test_lengths
        rows = []
        ranges = tuple(sweep.lengths or dict.fromkeys((train, test)))
        roles = {**roles_of(exam, ranges), train: "train"}  # which counts, and may be both
        for lengths, _, _ in sweep.in_turn(ranges):
            wrong, bits, nan = self._numbers(exam, sweep.split, sweep.seed, lengths, 0, sweep.count)
            row = {"lengths": str(lengths), "role": roles[lengths]}
            rows.append({**row, **_numbers_of_sequences(wrong, bits, nan)})
        return rows

    def facts(self, exam: Exam, sweep: Sweep) -> dict[str, Any]:
        """See `Scoring.facts`."""
        lengths, count = exam.validation_lengths, exam.validation_count
        wrong, bits, nan = self._numbers(exam, "validation", exam.seed, lengths, 0, count)
        numbers = {"lengths": str(lengths), **_numbers_of_sequences(wrong, bits, nan)}
        return {"validation": {**numbers, "nats_per_token": self.validate(exam)}}

    def merit_of(self, report: Mapping[str, Any]) -> float | None:
        """Bits wrong per validation sequence; of equal ones the surer is better."""
        facts = report["validation"]
        wrong, nats = facts["bits_wrong_per_sequence"], facts["nats_per_token"]
        return float(wrong) + SURENESS * min(float(nats), 1.0)

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether few bits are wrong at the lengths of training."""
        trained = row_of(rows, "train")
        return None if trained is None else bool(trained["bits_wrong_per_sequence"] < FEW)

    def values(self, report: Mapping[str, Any]) -> Values:
        """See `Scoring.values`."""
        rows = {role: row_of(report["rows"], role) for role in self.columns}
        return {
            role: None if row is None else float(row["bits_wrong_per_sequence"])
            for role, row in rows.items()
        }

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """See `Scoring.further`."""
        shown = [row_of(rows, role) for role in self.columns]
        return {
            row["lengths"]: (float(row["bits_wrong_per_sequence"]),)
            for row in rows
            if row not in shown
        }

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """See `Scoring.lines`."""
        head = ("lengths", "sequences", "bits wrong", "+-", "of bits", "flawless", "95 % interval")
        return [
            head,
            *(
                (
                    row["lengths"],
                    str(row["count"]),
                    f"{row['bits_wrong_per_sequence']:.3f}",
                    f"{row['bits_wrong_error']:.3f}",
                    f"{row['bits_per_sequence']:.1f}",
                    f"{row['accuracy_coarse']:.3f}",
                    "{:.3f}-{:.3f}".format(*row["accuracy_coarse_95"]),
                )
                for row in rows
            ),
        ]

    def _numbers(
        self, exam: Exam, split: str, seed: int, lengths: LengthRange, start: int, count: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Bits wrong and bits in all of each sequence, float64 [B], and whether it has NaN."""
        predict = OBJECTIVES[exam.task.objective].predict

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            wrong = bits_wrong(predict(logits).cpu(), targets, mask)
            bits = mask.sum(dim=1) * logits.shape[-1]
            return torch.stack([wrong.double(), bits.double()], dim=1)

        place = exam.place
        numbers, nan = numbers_of(
            exam.model,
            exam.task.batch(seed, split, start, count, lengths),
            look,
            2,
            device=place.device,
            share=place.share,
            total=place.total,
            check=place.check,
        )
        return numbers[:, 0], numbers[:, 1], nan


def bits_wrong(predicted: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """How many bits of each sequence differ, int64 [B].

    Args:
        predicted, targets: numbers whose bits count, int64 [B, T].
        mask: True at the steps that count, bool [B, T], at least one a row.
    Raises:
        ShapeError: the three shapes differ, or a row has no step that counts.
    """
    check_scored(predicted, targets, mask)
    different = (predicted ^ targets).masked_fill(~mask, 0)
    wrong = torch.zeros(len(mask), dtype=torch.int64)
    while bool(different.any()):
        wrong += (different & 1).sum(dim=1)
        different = different >> 1
    return wrong


def _numbers_of_sequences(wrong: Tensor, bits: Tensor, nan: Tensor) -> dict[str, Any]:
    count, right = len(wrong), int(((wrong == 0) & ~nan).sum())
    return {
        "count": count,
        "right": right,
        "accuracy_coarse": right / count,
        "accuracy_coarse_95": list(wilson(right, count)),
        "accuracy_fine": float((1 - wrong / bits).mean()),
        "bits_wrong_per_sequence": float(wrong.mean()),
        "bits_wrong_error": float(wrong.std()) / math.sqrt(count) if count > 1 else 0.0,
        "bits_per_sequence": float(bits.mean()),
        **nan_fact(int(nan.sum())),
    }
