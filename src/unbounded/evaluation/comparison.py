"""Two versions of one model on the same validation strings: is the second worse anywhere?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import nn

from unbounded.errors import ConfigError
from unbounded.evaluation.score import wilson
from unbounded.evaluation.scorings.base import Exam, Scoring
from unbounded.tasks import LengthRange, Task

#: Strings of each range of lengths, at least.
STRINGS = 1000
#: Strings of a shifted input.
FEW = 200


@dataclass(frozen=True)
class ComparisonSet:
    """Validation strings on which two models are compared.

    Fields:
        name: what the strings are.
        exam: its task, `validation_lengths` and `validation_count` say which they are.
        is_shifted: whether they differ from the strings of training in more than their length.
    """

    name: str
    exam: Exam
    is_shifted: bool = False


class Share(NamedTuple):
    """How many strings of a set a model gets wholly correct.

    Fields:
        right: correct strings, 0..total.
        total: strings of the set, at least 1.
    """

    right: int
    total: int

    @property
    def share(self) -> float:
        """The share that is correct, in [0, 1]."""
        return self.right / self.total


def comparison_sets(
    exam: Exam, ranges: Iterable[LengthRange], far: LengthRange | None = None
) -> list[ComparisonSet]:
    """The sets for a model: each range, lengths far beyond, and shifted inputs.

    Shifted inputs are strings of two symbols and of one repeated symbol, where the task can draw
    from fewer symbols, lengths shorter than those of training, and the shortest length alone.

    Args:
        exam: task, seed, place and lengths of training.
        ranges: lengths of training and of validation.
        far: a length far beyond training; None for none.
    """
    spans = list(dict.fromkeys(ranges))
    count = max(STRINGS, exam.validation_count)
    sets = [_set(f"lengths {each}", exam, each, count) for each in spans]
    if far is not None:
        sets.append(_set(f"lengths {far}", exam, far, STRINGS))
    task, longest = exam.task, max(spans, key=lambda lengths: lengths.maximum)
    for symbols, name in ((2, "two symbols"), (1, "one symbol repeated")):
        few = task.over(symbols)
        if few is None:
            continue
        spanned = [longest, *([far] if far is not None and symbols > 1 else [])]
        own = replace(exam, task=few)
        sets += [_set(f"{name}, lengths {each}", own, each, FEW, True) for each in spanned]
    shortest = _shortest(task, exam.train_lengths.minimum)
    if shortest is not None:
        below = exam.train_lengths.minimum - 1
        if below > shortest:
            short = LengthRange(shortest, below)
            sets.append(_set(f"lengths {short}", exam, short, FEW, True))
        alone = LengthRange(shortest, shortest)
        sets.append(_set(f"lengths {alone}", exam, alone, FEW, True))
    return sets


def compare(scoring: Scoring, model: nn.Module, sets: Sequence[ComparisonSet]) -> dict[str, Share]:
    """How many strings of each set a model gets correct, by the set's name.

    Args:
        scoring: of the sets' task.
        model: in evaluation mode.
        sets: see `comparison_sets`.
    """
    shares = {}
    for each in sets:
        exam = replace(each.exam, model=model)
        score = scoring.assess(exam, exam.validation_lengths, 0, exam.validation_count)
        shares[each.name] = Share(score.right, score.count)
    return shares


def worse_sets(
    sets: Sequence[ComparisonSet], before: Mapping[str, Share], after: Mapping[str, Share]
) -> list[str]:
    """Names of the sets on which a model is worse than before by more than its interval.

    At the lengths of training and validation and far beyond, the share before lies above Wilson's
    95 % interval of the share after: where all was correct before, one error is enough. On shifted
    inputs the 95 % interval of the difference lies above 0: of 200 strings, five errors are enough.
    """
    return [
        each.name
        for each in sets
        if (
            _difference_at_least(before[each.name], after[each.name]) > 0
            if each.is_shifted
            else before[each.name].share > wilson(*after[each.name])[1]
        )
    ]


def _difference_at_least(before: Share, after: Share) -> float:
    """The lower end of the 95 % interval of the share before less the share after.

    Source: Newcombe 1998, Interval estimation for the difference between independent proportions,
    method 10.
    """
    low, high = wilson(*before)[0], wilson(*after)[1]
    return before.share - after.share - math.hypot(before.share - low, high - after.share)


def mean_share(shares: Mapping[str, Share]) -> float:
    """The mean over the sets of the share that is correct, in [0, 1]."""
    return sum(each.share for each in shares.values()) / len(shares)


def is_exact(shares: Mapping[str, Share], sets: Sequence[ComparisonSet]) -> bool:
    """Whether every string is correct of the sets that are not shifted."""
    return all(
        shares[each.name].right == shares[each.name].total for each in sets if not each.is_shifted
    )


def comparison_rows(
    before: Mapping[str, Share], after: Mapping[str, Share]
) -> list[dict[str, Any]]:
    """The comparison for a report, a row a set."""
    return [
        {"set": name, "count": count, "trained": right, "hardened": after[name].right}
        for name, (right, count) in before.items()
    ]


def _set(
    name: str, exam: Exam, lengths: LengthRange, count: int, is_shifted: bool = False
) -> ComparisonSet:
    own = replace(exam, validation_lengths=lengths, validation_count=count)
    return ComparisonSet(name, own, is_shifted)


def _shortest(task: Task, longest: int) -> int | None:
    """The shortest length that can be drawn, at most `longest`; None for a finite set of examples.

    Source lengths of some tasks are even, and some begin at 2.
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
