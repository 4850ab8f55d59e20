"""What a scoring is: how well a model does a task, as numbers, rows, columns and words.

A scoring knows metrics; it knows no task's rule and no model's parts. One file a scoring.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from unbounded.evaluation.score import mean_nats
from unbounded.tasks import Batch, LengthRange
from unbounded.training.stopping import Score

#: Weight of a nat against the share of sequences that are wrong.
SURENESS = 1e-3
#: A row of a report.
Row = Mapping[str, Any]
#: Column of a table -> its number; None where the report has none.
Values = dict[str, float | None]


@dataclass(frozen=True)
class Place:
    """Where a model is scored.

    Fields:
        device: of the model.
        share: this process's rank and how many share the work.
        total: sums a tensor over all processes; needed with several.
        check: called now and then; may raise to give up.
    """

    device: torch.device
    share: tuple[int, int] = (0, 1)
    total: Callable[[Tensor], Tensor] | None = None
    check: Callable[[], None] | None = None


@dataclass(frozen=True)
class Exam:
    """A model before its examiner.

    Fields:
        model: called as model(inputs, state), gives logits [B, T, V] and the state; in any mode.
        task: yields the examples. A scoring asks it for what its own tasks have.
        seed: of the validation examples.
        place: where it is scored.
        train_lengths, validation_lengths: ranges of training and of the stop rule.
        validation_count: sequences of the validation split that are looked at.
        strips: parallel streams that validation of a text is cut into.
    """

    model: nn.Module
    task: Any
    seed: int
    place: Place
    train_lengths: LengthRange
    validation_lengths: LengthRange
    validation_count: int
    strips: int


@dataclass(frozen=True)
class Sweep:
    """What the rows of a report are made of.

    Fields:
        split: "train", "validation" or "test".
        seed: of the sequences.
        lengths: ranges; None for those of the scoring.
        count: sequences a range, or of each n where each n has its score.
        every, streams, carry, symbols, multiples: as in `EvaluationConfig`.
        looking: told what is about to be scored, nothing at the end, and the share of the rows that
            is done, in [0, 1].
    """

    split: str
    seed: int
    lengths: Sequence[LengthRange] | None
    count: int
    every: int = 1
    streams: int = 1
    carry: bool = False
    looking: Callable[[str, float], None] = lambda what, share: None
    symbols: int | None = None
    multiples: Sequence[int] = ()

    def count_of(self, lengths: LengthRange) -> int:
        """Sequences of a range, at least 1: `count`, or as few as `symbols` allows."""
        if self.symbols is None:
            return self.count
        return max(1, min(self.count, self.symbols // max(1, lengths.maximum)))

    def in_turn(
        self, ranges: Iterable[LengthRange], count_of: Callable[[LengthRange], int] | None = None
    ) -> Iterator[tuple[LengthRange, int, Callable[[float], None]]]:
        """The ranges in turn, each shown before it is scored.

        Args:
            ranges: the rows of a report.
            count_of: sequences of a range; None for `count`.
        Yields:
            the range, its count, and a function that takes the share of it that is scored.
        """
        counted = [(each, self.count if count_of is None else count_of(each)) for each in ranges]
        # Longer sequences take longer.
        steps = [count * max(1, lengths.maximum) for lengths, count in counted]
        for place, (lengths, count) in enumerate(counted):
            look = partial(
                self._look,
                f"{count} sequences of length {lengths}",
                sum(steps[:place]) / sum(steps),
                steps[place] / sum(steps),
            )
            look(0.0)
            yield lengths, count, look
        self.looking("", 1.0)

    def _look(self, what: str, before: float, own: float, share: float) -> None:
        self.looking(what, before + share * own)


class Scoring(ABC):
    """How a task's models are scored, and what a table makes of it.

    Attributes:
        stops: the stop rules that mean something.
        fields: the fields of `EvaluationConfig` that mean something.
        validates_on: the range of the stop rule where none is named: "train" or "test".
        columns: the columns of a table, with the digits they are shown to.
        groups: title -> the columns that stand in it, separated by strokes.
        shown: the group whose median is shown.
        spread: the column whose spread is shown, and its title.
        merit: what chooses among runs, the less the better; never a number of the test split.
        merit_heading: the same as the heading of a column.
        why: why that chooses, behind its name.
        success: what counts as success; empty where nothing is counted.
        solved: the same in a sentence on how many seeds have it.
        longer: whether there are rows beyond the columns.
        rounds: whether a rounding can be judged by it: sequences are right or wrong.
        curve, curve_title: of each n of a row, the number that is drawn against n, and what it is.
        curve_shaded: whether the lengths of training are shaded there, and a run has that figure.
        baseline: what "1-layer LSTM then" is, where a table shows that; else empty.
        legend: what the numbers are.
    """

    stops: ClassVar[tuple[str, ...]] = ("solved", "budget")
    fields: ClassVar[tuple[str, ...]] = ("count", "lengths")
    validates_on: ClassVar[str] = "test"
    columns: ClassVar[Mapping[str, int]]
    groups: ClassVar[Mapping[str, tuple[str, ...]]]
    shown: ClassVar[str]
    spread: ClassVar[tuple[str, str]]
    merit: ClassVar[str]
    merit_heading: ClassVar[str]
    why: ClassVar[str] = ""
    success: ClassVar[str] = ""
    solved: ClassVar[str] = ""
    longer: ClassVar[bool] = True
    rounds: ClassVar[bool] = True
    curve: ClassVar[str] = "accuracy"
    curve_title: ClassVar[str] = "sequences that are right"
    curve_shaded: ClassVar[bool] = False
    baseline: ClassVar[str] = ""
    legend: str

    @abstractmethod
    def assess(self, exam: Exam, lengths: LengthRange, start: int, count: int) -> Score:
        """Score validation examples, for the accuracies and the stop rule."""

    def validation_batch(self, exam: Exam) -> Batch:
        """The fixed set of validation examples."""
        lengths, count = exam.validation_lengths, exam.validation_count
        batch: Batch = exam.task.batch(exam.seed, "validation", 0, count, lengths)
        return batch

    def validate(self, exam: Exam) -> float:
        """The loss on the fixed set of validation examples, in nats per token."""
        batch, place = self.validation_batch(exam), exam.place
        return mean_nats(
            exam.model, batch, exam.task.objective, device=place.device, check=place.check
        )

    def doubt(self, exam: Exam) -> float:
        """How little can be trusted in a model on validation examples; lower is better.

        The share of sequences that are wrong; where two models get as many wrong, the surer one is
        better.
        """
        score = self.assess(exam, exam.validation_lengths, 0, exam.validation_count)
        return 1 - float(score.coarse) + SURENESS * min(self.validate(exam), 1.0)

    @abstractmethod
    def rows(self, exam: Exam, sweep: Sweep) -> list[dict[str, Any]]:
        """The rows of a report, each with its role: "train", "test" or "longer"."""

    def facts(self, exam: Exam, sweep: Sweep) -> dict[str, Any]:
        """What a run's own report says of the validation split; it may choose among runs."""
        return {}

    @abstractmethod
    def merit_of(self, report: Mapping[str, Any]) -> float | None:
        """What chooses among runs, from a report."""

    @abstractmethod
    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether a run does what a table counts; None where nothing is, or its range is no row."""

    @abstractmethod
    def values(self, report: Mapping[str, Any]) -> Values:
        """The columns of a table, from a report."""

    @abstractmethod
    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """Lengths -> numbers, for every row beyond the columns."""

    @abstractmethod
    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """The rows as text, headings first, for the screen."""

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """What must be said below them."""
        return []

    def details(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """More than `lines`, headings first, for `evaluate`; empty where there is no more."""
        return []

    def label(self, rows: Sequence[Row]) -> str:
        """A name for a file of these rows: their lengths and counts."""
        lengths = "_".join(row["lengths"] for row in rows).replace(":", "-")
        return f"{lengths}-n{rows[0]['count']}"


def row_of(rows: Sequence[Row], role: str) -> Row | None:
    """The first row of that role; None where there is none."""
    return next((row for row in rows if row["role"] == role), None)


def default_lengths(exam: Exam) -> tuple[LengthRange, ...]:
    """The training range, the test range, and one as long again: 8:64, 65:128, 129:256."""
    train, test = exam.train_lengths, exam.task.test_lengths
    beyond = LengthRange(test.maximum + 1, 2 * test.maximum)
    is_drawn = exam.task.available("test", test) is None and not exam.task.range_faults(beyond)
    return tuple(dict.fromkeys((train, test, *([beyond] if is_drawn else []))))


def roles_of(exam: Exam, ranges: Iterable[LengthRange]) -> dict[LengthRange, str]:
    """What each range is to a run: "train" and "test" are its own, all else "longer" or "other".

    "test" is the task's test range. Where that is not among `ranges` it is the range of the stop
    rule, unless that is training's: what was trained on tests nothing.
    """
    among, train = list(ranges), exam.train_lengths
    test = exam.task.test_lengths
    if test not in among and exam.validation_lengths != train:
        test = exam.validation_lengths

    def role(lengths: LengthRange) -> str:
        if lengths in (train, test):
            return "test" if lengths == test else "train"
        return "longer" if lengths.maximum > train.maximum else "other"

    return {lengths: role(lengths) for lengths in among}
