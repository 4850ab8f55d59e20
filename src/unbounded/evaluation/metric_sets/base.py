"""The interface of a metric set: scores of a model on a task, as numbers, rows, columns and text.

A metric set does not depend on a task's rule or on a model's parts. Each metric set is one file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Final, Protocol

import torch
from torch import Tensor, nn

from unbounded.evaluation.score import Look, Place, mean_nats, numbers_of
from unbounded.models.memory_room import kept_capacity
from unbounded.tasks import Batch, LengthRange
from unbounded.training.hook import Score

#: Weight of a nat of loss relative to the share of incorrect sequences.
SURENESS = 1e-3
#: Training sequences of the greatest length that are drawn to find the most steps.
_SOME: Final = 64
#: The roles of rows that tables show.
ROLES: Final = ("train", "test", "longer")
#: A row of a report.
Row = Mapping[str, Any]
#: Maps a column of a table to its value; None if the report has no value.
Values = dict[str, float | None]
#: Columns on the screen: maps a heading to a format string for a row, or to a function of the row.
Texts = Mapping[str, str | Callable[[Row], str]]


def with_loss(error: float, nats: float) -> float:
    """The error, and a loss in nats that breaks ties, for at most SURENESS."""
    return error + SURENESS * min(nats, 1.0)


@dataclass(frozen=True)
class Examples:
    """The examples with some indices: the arguments of `Task.batch`."""

    seed: int
    split: str
    start: int
    count: int
    lengths: LengthRange

    def of(self, task: Any) -> Batch:
        """The batch of a task."""
        batch: Batch = task.batch(self.seed, self.split, self.start, self.count, self.lengths)
        return batch


@dataclass(frozen=True)
class Evaluator:
    """A model with everything that its metric set needs.

    Fields:
        model: called as model(inputs, state), returns logits [B, T, V] and the state; in any mode.
        task: yields the examples; a metric set may use what only its tasks have.
        seed: of the validation examples.
        place: device and processes.
        train_lengths, validation_lengths: ranges of training and of the stop rule.
        validation_count: number of validation sequences.
        strips: parallel streams of a text in validation.
        for_longer: returns a model with another memory, for sequences with more steps than the
            longest of training. None: they are scored with the same memory.
        longer_options: the memory options of `for_longer`. A capacity in them is kept.
    """

    model: nn.Module
    task: Any
    seed: int
    place: Place
    train_lengths: LengthRange
    validation_lengths: LengthRange
    validation_count: int
    strips: int
    for_longer: Callable[[nn.Module], nn.Module] | None = None
    longer_options: Mapping[str, Any] = field(default_factory=dict)

    def validation(
        self, lengths: LengthRange | None = None, start: int = 0, count: int | None = None
    ) -> Examples:
        """The examples of the stop rule, or other validation examples."""
        return Examples(
            self.seed,
            "validation",
            start,
            self.validation_count if count is None else count,
            self.validation_lengths if lengths is None else lengths,
        )

    def numbers(self, batch: Batch, look: Look, width: int) -> tuple[Tensor, Tensor]:
        """Compute numbers of each sequence in a batch, in the evaluator's place (`numbers_of`)."""
        if self.for_longer is None:
            return numbers_of(self.model, batch, look, width, self.place)
        numbers = torch.zeros(len(batch.lengths), width, dtype=torch.float64)
        nan = torch.zeros(len(batch.lengths), dtype=torch.bool)
        is_longer = batch.lengths > self._steps_of_training
        for other, options, rows in (
            (None, {}, ~is_longer),
            (self.for_longer, self.longer_options, is_longer),
        ):
            if rows.any():
                model = self.model if other is None else other(self.model)
                part = Batch(*(tensor[rows] for tensor in batch))
                with kept_capacity(options):
                    numbers[rows], nan[rows] = numbers_of(model, part, look, width, self.place)
        return numbers, nan

    @cached_property
    def _steps_of_training(self) -> int:
        """The number of steps of the longest training sequences.

        The longest strings outside a language may be longer than its own longest string.
        """
        task, lengths = self.task, self.train_lengths
        there = (n for n in reversed([*lengths]) if not task.range_errors(LengthRange(n, n)))
        longest = next(there, lengths.maximum)
        batch = task.batch(self.seed, "train", 0, _SOME, LengthRange(longest, longest))
        return int(batch.lengths.max()) + lengths.maximum - longest


@dataclass(frozen=True)
class EvaluationPlan:
    """The options of a report's rows.

    Fields:
        split: "train", "validation" or "test".
        seed: of the sequences.
        lengths: ranges; None for the metric set's own.
        count: sequences a range, or for each n where each n has a score.
        every, streams, carry_state, symbols, multiples: as in `EvaluationConfig`.
        looking: called with a description of the next sequences ("" at the end) and the share of
            the rows that is done, in [0, 1].
    """

    split: str
    seed: int
    lengths: Sequence[LengthRange] | None
    count: int
    every: int = 1
    streams: int = 1
    carry_state: bool = False
    looking: Callable[[str, float], None] = lambda what, share: None
    symbols: int | None = None
    multiples: Sequence[int] = ()

    def examples(self, lengths: LengthRange, start: int = 0, count: int | None = None) -> Examples:
        """The examples of a range."""
        return Examples(self.seed, self.split, start, count or self.count, lengths)

    def count_of(self, lengths: LengthRange) -> int:
        """Number of sequences in a range.

        The number is `count`, or fewer because of `symbols`, but at least 1.
        """
        if self.symbols is None:
            return self.count
        return max(1, min(self.count, self.symbols // max(1, lengths.maximum)))

    def step_through(self, count: int) -> int:
        """The step through `count` lengths of a range: `every`, or 1 if there are not more.

        A step that is as long as a range would score its first length alone.
        """
        return self.every if count > self.every else 1

    def in_turn(
        self, ranges: Iterable[LengthRange], count_of: Callable[[LengthRange], int] | None = None
    ) -> Iterator[tuple[LengthRange, int, Callable[[float], None]]]:
        """Yield the ranges in turn. Each range is announced before it is scored.

        Args:
            ranges: the rows of a report.
            count_of: sequences of a range; None for `count`.
        Yields:
            the range, its count, and a function that takes its share that is scored.
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

    def _look(self, what: str, done: float, weight: float, share: float) -> None:
        self.looking(what, done + share * weight)


class MetricSet(ABC):
    """Defines how a task's models are scored, and the columns of their tables.

    Attributes:
        no_stops: stop rules without a meaning; all others may be chosen.
        fields: fields of `EvaluationConfig` that are meaningful.
        needs: methods that a task must have in addition to `Task`.
        validates_on: default range of the stop rule: "train" or "test".
        columns: columns of a table, with their numbers of digits.
        measures: the measures of a cell, with the field of a row that has each.
        column: the name of a column, from a row's name and a measure.
        roles: the roles of the rows that the columns show.
        texts: the columns on the screen.
        texts_of_each: the columns of the longer table, with a line for each part of a row.
        groups: maps a title to the names of its columns, separated by slashes.
        shown: the group whose median is shown.
        spread: the column whose spread is shown, and its title.
        selection_metric: the criterion for choosing among runs, lower is better; never of the test
            split.
        selection_metric_heading: the same as a column heading.
        why: the reason for that criterion, follows its name.
        success: the definition of success; empty if success is not counted.
        solved: the same, in a sentence on the number of seeds.
        longer: whether there are rows beyond the columns.
        judges_hardening: whether hardening can use this metric set: each sequence is correct or
            not.
        curve, curve_title: the number of each n of a row that a figure shows, and its description.
        curve_is_share: whether that number is a share in 0..1.
        curve_shaded: whether the figure shades the training lengths, and a run has that figure.
        baseline: the definition of "1-layer LSTM then" where a table shows it; else empty.
        legend: the definition of the numbers.
    """

    no_stops: ClassVar[tuple[str, ...]] = ("converged",)
    fields: ClassVar[tuple[str, ...]] = ("count", "lengths")
    needs: ClassVar[tuple[str, ...]] = ()
    validates_on: ClassVar[str] = "test"
    columns: ClassVar[Mapping[str, int]]
    measures: ClassVar[Mapping[str, str]] = {}
    column: ClassVar[str] = "{row}_{measure}"
    roles: ClassVar[Sequence[str]] = ROLES
    texts: ClassVar[Texts] = {}
    texts_of_each: ClassVar[Texts] = {}
    groups: ClassVar[Mapping[str, tuple[str, ...]]]
    shown: ClassVar[str]
    spread: ClassVar[tuple[str, str]]
    selection_metric: ClassVar[str]
    selection_metric_heading: ClassVar[str]
    why: ClassVar[str] = ""
    success: ClassVar[str] = ""
    solved: ClassVar[str] = ""
    longer: ClassVar[bool] = True
    judges_hardening: ClassVar[bool] = True
    curve: ClassVar[str] = "accuracy"
    curve_title: ClassVar[str] = "correct sequences"
    curve_is_share: ClassVar[bool] = True
    curve_shaded: ClassVar[bool] = False
    baseline: ClassVar[str] = ""
    legend: str

    @abstractmethod
    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """Score validation examples, for the accuracies and the stop rule."""

    def validation_batch(self, evaluator: Evaluator) -> Batch:
        """The fixed set of validation examples."""
        return evaluator.validation().of(evaluator.task)

    def validate(self, evaluator: Evaluator) -> float:
        """The loss on the fixed set of validation examples, in nats per token."""
        batch = self.validation_batch(evaluator)
        return mean_nats(evaluator.model, batch, evaluator.task.objective, evaluator.place)

    def validation_error(self, evaluator: Evaluator) -> float:
        """The validation error for hardening, which is better if lower.

        The error is the share of incorrect sequences, and the loss breaks ties.
        """
        score = self.assess(evaluator, evaluator.validation_lengths, 0, evaluator.validation_count)
        return with_loss(1 - float(score.exact_match), self.validate(evaluator))

    @abstractmethod
    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        """The rows of a report, each with its role: "train", "test" or "longer"."""

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        """The report's entries on the validation split, which may be used to choose among runs."""
        return {}

    @abstractmethod
    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """The selection metric of a run, from its report."""

    @abstractmethod
    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether a run succeeds. None if success is not defined, or if no row shows it."""

    def ranges(self, evaluator: Evaluator) -> Sequence[LengthRange]:
        """The ranges of a report for which none are given: of training and of the test."""
        return tuple(dict.fromkeys((evaluator.train_lengths, evaluator.task.test_lengths)))

    def begun_rows(
        self, evaluator: Evaluator, evaluation_plan: EvaluationPlan
    ) -> Iterator[tuple[dict[str, Any], LengthRange, int, Callable[[float], None]]]:
        """Yield the first entries of each row of a report, and its range as `in_turn` does."""
        ranges = evaluation_plan.lengths or self.ranges(evaluator)
        roles = roles_of(evaluator, ranges)
        for lengths, count, look in evaluation_plan.in_turn(ranges):
            row: dict[str, Any] = {"lengths": str(lengths), "role": roles[lengths]}
            if "every" in self.fields:
                row["every"] = evaluation_plan.every
            yield row, lengths, count, look

    def validation_facts(self, evaluator: Evaluator, numbers: Row) -> dict[str, Any]:
        """The entry of `facts` with numbers of the validation examples, and their loss."""
        facts = {"lengths": str(evaluator.validation_lengths), **numbers}
        return {"validation": {**facts, "nats_per_token": self.validate(evaluator)}}

    def rows_shown(self, rows: Sequence[Row]) -> Mapping[str, Row | None]:
        """The rows that the columns show, by their names."""
        return {role: row_of(rows, role) for role in self.roles}

    def number(self, value: Any) -> float | None:
        """A number of a cell, from the field of a row."""
        return float(value)

    def values(self, report: Mapping[str, Any]) -> Values:
        """The columns of a table, from a report.

        If training and test have the same lengths, both columns show the test row.
        """
        shown = dict(self.rows_shown(report["rows"]))
        tested = shown.get("test")
        if "train" in shown and tested and tested["lengths"] == report.get("train_lengths"):
            shown["train"] = tested
        return {
            self.column.format(row=name, measure=measure): (
                None if row is None else self.number(row[field])
            )
            for name, row in shown.items()
            for measure, field in self.measures.items()
        }

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """Further numbers by lengths, for every row that the columns do not show."""
        shown = list(self.rows_shown(rows).values())
        further = {
            row["lengths"]: tuple(self.number(row[field]) for field in self.measures.values())
            for row in rows
            if row not in shown
        }
        return {
            lengths: tuple(number for number in numbers if number is not None)
            for lengths, numbers in further.items()
            if None not in numbers
        }

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """The headings and rows as text, for the screen."""
        return table_of(self.texts, rows)

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """Notes below the rows."""
        return []

    def details(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """A longer table than `lines`, with headings, for `evaluate`; empty if not defined."""
        if not self.texts_of_each:
            return []
        return table_of(self.texts_of_each, [each for row in rows for each in row["per_n"]])

    def label(self, rows: Sequence[Row]) -> str:
        """A name for a file with given rows, which contains their lengths and counts."""
        return label_of(rows, rows[0]["count"])


def table_of(texts: Texts, rows: Iterable[Row]) -> list[tuple[str, ...]]:
    """The headings, then the texts of each row."""
    lines = [
        tuple(t.format_map(row) if isinstance(t, str) else t(row) for t in texts.values())
        for row in rows
    ]
    return [tuple(texts), *lines]


def optional(number: float | None) -> str:
    """A number to four digits, or a dash for none."""
    return "–" if number is None else f"{number:.4f}"


def label_of(rows: Sequence[Row], count: int) -> str:
    """A name with the lengths of rows, the longest step through one, if any, and a count."""
    lengths = "_".join(row["lengths"] for row in rows).replace(":", "-")
    by = f"-by{max(row['every'] for row in rows)}" if "every" in rows[0] else ""
    return f"{lengths}{by}-n{count}"


def row_of(rows: Sequence[Row], role: str) -> Row | None:
    """The first row with a given role; None if there is no such row."""
    return next((row for row in rows if row["role"] == role), None)


def default_lengths(evaluator: Evaluator) -> tuple[LengthRange, ...]:
    """The training range, the test range, and a range up to twice as long.

    An example is 8:64, 65:128, 129:256.
    """
    train, test = evaluator.train_lengths, evaluator.task.test_lengths
    beyond = LengthRange(test.maximum + 1, 2 * test.maximum)
    has_beyond = evaluator.task.available("test", test) is None and not evaluator.task.range_errors(
        beyond
    )
    return tuple(dict.fromkeys((train, test, *([beyond] if has_beyond else []))))


class RunRanges(Protocol):
    """The ranges of a run, of which an evaluator and a plan have the same."""

    @property
    def task(self) -> Any:
        """The task."""

    @property
    def train_lengths(self) -> LengthRange:
        """The training range."""

    @property
    def validation_lengths(self) -> LengthRange:
        """The range of the stop rule."""


def roles_of(evaluator: RunRanges, ranges: Iterable[LengthRange]) -> dict[LengthRange, str]:
    """The role of each range in a run: "train", "test", "longer" or "other".

    "test" is the task's test range. If `ranges` lacks that range, "test" is the range of the stop
    rule, provided that it differs from the training range.
    """
    range_list, train = list(ranges), evaluator.train_lengths
    test = evaluator.task.test_lengths
    if test not in range_list and evaluator.validation_lengths != train:
        test = evaluator.validation_lengths

    def role(lengths: LengthRange) -> str:
        if lengths in (train, test):
            return "test" if lengths == test else "train"
        return "longer" if lengths.maximum > train.maximum else "other"

    return {lengths: role(lengths) for lengths in range_list}
