"""The findings at one length, and functions that assess a batch and merge findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from unbounded.evaluation.score import wilson
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch
from unbounded.verification.margins import ReadVectorRange, margins_of
from unbounded.verification.network import Network

#: Greatest number of padded tokens in a batch.
CHUNK_TOKENS: Final = 65536
#: Greatest number of symbols of a sequence that are shown.
_SHOWN: Final = 40
#: Greatest number of places at which values over the steps are shown.
_PLACES = 50


@dataclass(frozen=True)
class Finding:
    """The findings at one length.

    Fields:
        length: in the task's unit.
        every: whether these are all sequences of this length over `alphabet`; otherwise they were
            drawn from all symbols. count, correct: the number of sequences, and of those with every
            judged symbol correct.
        margin: the least margin of an answer.
        certainty: of the least saturated gate; None without gates.
        displaced: the largest share by which a read vector is displaced, in some of the sequences
            where they are many; None if it was not measured.
        wrong: the first incorrect sequence, in symbols; None without one.
        course: least margins over the steps; see `course_of`.
    """

    length: int
    every: bool
    count: int
    correct: int
    margin: float
    certainty: float | None
    displaced: float | None
    wrong: str | None
    course: list[dict[str, Any]] | None = None

    def as_row(self) -> dict[str, Any]:
        """Build a row of the report. Rows of drawn sequences have Wilson's 95 % interval."""
        row: dict[str, Any] = {
            "length": self.length,
            "how": "every" if self.every else "drawn",
            "count": self.count,
            "correct": self.correct,
            "least_margin": self.margin,
            "least_certainty": self.certainty,
            "most_displaced": self.displaced,
            "first_wrong": self.wrong,
        }
        if not self.every:
            row["correct_share_95"] = list(wilson(self.correct, self.count))
        if self.course is not None:
            row["course"] = self.course
        return row


@dataclass(frozen=True)
class Assessment:
    """The margins of a batch, which are the least over the steps of each sequence.

    Fields:
        margin, certainty: [B]; certainty is None without gates.
        displaced: over all sequences; None if it was not measured.
        margin_steps, certainty_steps, displaced_steps: over all sequences at each step, [T].
    """

    margin: Tensor
    certainty: Tensor | None
    displaced: float | None
    margin_steps: Tensor
    certainty_steps: Tensor | None
    displaced_steps: Tensor | None


def finding_of(
    length: int,
    every: bool,
    margin: Tensor,
    certainty: Tensor | None,
    displaced: float | None,
    text: Callable[[int], str],
    course: list[dict[str, Any]] | None = None,
) -> Finding:
    """The finding on sequences [B]; `text` maps a row to its sequence in symbols."""
    correct = margin > 0  # each target must be the likeliest, without a tie
    return Finding(
        length,
        every,
        len(correct),
        int(correct.sum()),
        float(margin.min()),
        None if certainty is None else float(certainty.min()),
        displaced,
        None if bool(correct.all()) else text(int(correct.int().argmin())),
        course,
    )


def assess(
    model: nn.Module,
    batch: Batch,
    objective: str,
    *,
    read_vector: ReadVectorRange | None = None,
    check: Callable[[], None] = lambda: None,
    longest: int | None = None,
) -> Assessment:
    """Run a model over sequences, each with a new memory.

    Args:
        model: its memory gets room for the longest sequence.
        batch: [B, T].
        objective: the task's objective.
        read_vector: as for `margins_of`.
        check: called between chunks; may raise to interrupt.
        longest: symbols that the memory must have room for; None for T.
    """
    roomy, _ = with_room(model, batch.inputs.shape[1] if longest is None else longest)
    parts = []
    for part in margins_of(Network(roomy), batch, objective, read_vector=read_vector):
        check()
        parts.append(part)
    answers = torch.cat([part.answers for part in parts], dim=1)
    certainty = _joined([part.certainty for part in parts], 1)
    displaced = _joined([part.displaced for part in parts], 0)
    return Assessment(
        answers.amin(dim=1),
        None if certainty is None else certainty.amin(dim=1),
        None if displaced is None else float(displaced.max()),
        answers.amin(dim=0),
        None if certainty is None else certainty.amin(dim=0),
        displaced,
    )


def course_of(assessment: Assessment) -> list[dict[str, Any]]:
    """Margins over the steps, reduced to the least margin in each of at most 50 intervals."""
    steps = len(assessment.margin_steps)
    width = -(-steps // _PLACES)
    rows = []
    for start in range(0, steps, width):
        stretch = slice(start, start + width)
        row: dict[str, Any] = {"steps": [start, min(start + width, steps) - 1]}
        row["least_margin"] = _number(assessment.margin_steps[stretch].amin())
        if assessment.certainty_steps is not None:
            row["least_certainty"] = _number(assessment.certainty_steps[stretch].amin())
        if assessment.displaced_steps is not None:
            row["most_displaced"] = _number(assessment.displaced_steps[stretch].amax())
        rows.append(row)
    return rows


def joined(parts: list[Finding]) -> Finding:
    """Merge the findings of one kind at one length."""

    def all_of(name: str) -> list[float]:
        return [value for part in parts if (value := getattr(part, name)) is not None]

    return replace(
        parts[0],
        count=sum(part.count for part in parts),
        correct=sum(part.correct for part in parts),
        margin=min(part.margin for part in parts),
        certainty=min(all_of("certainty"), default=None),
        displaced=max(all_of("displaced"), default=None),
        wrong=next((part.wrong for part in parts if part.wrong is not None), None),
    )


def shortened(symbols: list[str]) -> str:
    """Format symbols as a text, without the middle if there are many symbols."""
    if len(symbols) <= _SHOWN:
        return " ".join(symbols)
    half = _SHOWN // 2
    left, right = " ".join(symbols[:half]), " ".join(symbols[-half:])
    return f"{left} ... {right} ({len(symbols)} symbols)"


def _joined(parts: list[Tensor | None], axis: int) -> Tensor | None:
    present = [part for part in parts if part is not None]
    return torch.cat(present, dim=axis) if present else None


def _number(value: Tensor) -> float | None:
    return float(value) if bool(value.isfinite()) else None
