"""Compare two versions of a model on the same validation strings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import nn

from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets.base import Evaluator, MetricSet
from unbounded.evaluation.score import wilson
from unbounded.tasks import LengthRange, Task

#: Least number of strings for each length range.
STRINGS = 1000
#: Number of strings in each set with shifted inputs.
FEW = 200


@dataclass(frozen=True)
class ComparisonSet:
    """Validation strings on which two models are compared.

    Fields:
        name: description of the strings.
        evaluator: its task, `validation_lengths` and `validation_count` define the strings.
        is_shifted: whether they differ from training strings in more than length.
    """

    name: str
    evaluator: Evaluator
    is_shifted: bool = False


class Share(NamedTuple):
    """How many strings of a set match exactly.

    Fields:
        correct: correct strings, 0..total.
        total: strings of the set, at least 1.
    """

    correct: int
    total: int

    @property
    def share(self) -> float:
        """The share of correct strings, in [0, 1]."""
        return self.correct / self.total


def comparison_sets(
    evaluator: Evaluator, ranges: Iterable[LengthRange], far: LengthRange | None = None
) -> list[ComparisonSet]:
    """The comparison sets for a model: each range, far longer strings, and shifted inputs.

    Shifted inputs are strings over two symbols and over one repeated symbol, if the task can
    restrict its symbols. Other shifted inputs are strings shorter than in training, and strings of
    the shortest length.

    Args:
        evaluator: task, seed, place and lengths of training.
        ranges: lengths of training and of validation.
        far: a length far beyond training; None for no such length.
    """
    spans = list(dict.fromkeys(ranges))
    count = max(STRINGS, evaluator.validation_count)
    sets = [_set(f"lengths {span}", evaluator, span, count) for span in spans]
    if far is not None:
        sets.append(_set(f"lengths {far}", evaluator, far, STRINGS))
    task, longest = evaluator.task, max(spans, key=lambda lengths: lengths.maximum)
    for symbols, name in ((2, "two symbols"), (1, "one symbol repeated")):
        few = task.over(symbols)
        if few is None:
            continue
        spanned = [longest, *([far] if far is not None and symbols > 1 else [])]
        evaluator_few = replace(evaluator, task=few)
        sets += [
            _set(f"{name}, lengths {span}", evaluator_few, span, FEW, True) for span in spanned
        ]
    shortest = shortest_length(task, evaluator.train_lengths.minimum)
    if shortest is not None:
        below = evaluator.train_lengths.minimum - 1
        if below > shortest:
            short = LengthRange(shortest, below)
            sets.append(_set(f"lengths {short}", evaluator, short, FEW, True))
        alone = LengthRange(shortest, shortest)
        sets.append(_set(f"lengths {alone}", evaluator, alone, FEW, True))
    return sets


def compare(
    metric_set: MetricSet, model: nn.Module, sets: Sequence[ComparisonSet]
) -> dict[str, Share]:
    """The number of correct strings of each set, by the set's name.

    Args:
        metric_set: the metric set of the sets' task.
        model: in evaluation mode.
        sets: from `comparison_sets`.
    """
    shares = {}
    for subset in sets:
        evaluator = replace(subset.evaluator, model=model)
        score = metric_set.assess(
            evaluator, evaluator.validation_lengths, 0, evaluator.validation_count
        )
        shares[subset.name] = Share(score.correct, score.count)
    return shares


def worse_sets(
    sets: Sequence[ComparisonSet], before: Mapping[str, Share], after: Mapping[str, Share]
) -> list[str]:
    """Names of the sets on which a model is significantly worse than before.

    On lengths of training and validation, and far longer lengths, a model is worse if the share
    before is above Wilson's 95 % interval of the share after. If all strings were correct before,
    one error is enough. On shifted inputs, a model is worse if the 95 % interval of the difference
    is above 0. With 200 strings, five errors are enough.
    """
    return [
        subset.name
        for subset in sets
        if (
            _difference_at_least(before[subset.name], after[subset.name]) > 0
            if subset.is_shifted
            else before[subset.name].share > wilson(*after[subset.name])[1]
        )
    ]


def _difference_at_least(before: Share, after: Share) -> float:
    """The lower end of the 95 % interval of the difference: share before minus share after.

    Source: Newcombe 1998, Interval estimation for the difference between independent proportions,
    method 10.
    """
    low, high = wilson(*before)[0], wilson(*after)[1]
    return before.share - after.share - math.hypot(before.share - low, high - after.share)


def mean_share(shares: Mapping[str, Share]) -> float:
    """The share of correct strings, averaged over the sets, in [0, 1]."""
    return sum(subset.share for subset in shares.values()) / len(shares)


def is_exact(shares: Mapping[str, Share], sets: Sequence[ComparisonSet]) -> bool:
    """Whether every string of every set without shifted inputs is correct."""
    return all(
        shares[subset.name].correct == shares[subset.name].total
        for subset in sets
        if not subset.is_shifted
    )


def comparison_rows(
    before: Mapping[str, Share], after: Mapping[str, Share]
) -> list[dict[str, Any]]:
    """The comparison as rows for a report, with one row for each set."""
    return [
        {"set": name, "count": count, "trained": correct, "hardened": after[name].correct}
        for name, (correct, count) in before.items()
    ]


def _set(
    name: str, evaluator: Evaluator, lengths: LengthRange, count: int, is_shifted: bool = False
) -> ComparisonSet:
    set_evaluator = replace(evaluator, validation_lengths=lengths, validation_count=count)
    return ComparisonSet(name, set_evaluator, is_shifted)


def shortest_length(task: Task, longest: int) -> int | None:
    """The shortest length that can be drawn, at most `longest`; None for a finite set of examples.

    Some tasks have only even source lengths, or only lengths of at least 2.
    """
    for length in range(1, longest + 1):
        lengths = LengthRange(length, length)
        try:
            if task.available("validation", lengths) is None:
                task.batch(0, "validation", 0, 1, lengths)
                return length
        except ConfigError:
            continue
    return None
