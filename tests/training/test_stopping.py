from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from unbounded.tasks import LengthRange
from unbounded.training import LoopState, WhenConverged, WhenSolved, never
from unbounded.training.stopping import StopRule, WhenStalled

RANGE = LengthRange(4, 6)


class Fixed(NamedTuple):
    coarse: float
    fine: float = 0.5


class Assessor:
    """Answers with prepared scores and remembers what it was asked."""

    def __init__(self, *answers: float) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []

    def __call__(self, lengths: LengthRange, start: int, count: int) -> Fixed:
        assert lengths == RANGE
        self.asked.append((start, count))
        return Fixed(self.answers.pop(0))


def look(rule: WhenSolved, state: LoopState, assess: Assessor) -> tuple[str | None, list[Any]]:
    lines: list[Any] = []
    return rule(state, assess, lines.append), lines


def test_a_first_look_at_a_few_saves_the_rest() -> None:
    rule, state, assess = WhenSolved(RANGE, every=10, count=100), LoopState(batch=10), Assessor(0.9)
    reason, lines = look(rule, state, assess)
    assert reason is None
    assert assess.asked == [(0, 10)]
    assert state.drawn == 10
    assert lines[0]["count"] == 10


def test_two_flawless_looks_in_a_row_are_needed_each_on_fresh_sequences() -> None:
    rule, state = WhenSolved(RANGE, every=10, count=100), LoopState()
    assess = Assessor(1.0, 1.0, 1.0, 0.99, 1.0, 1.0, 1.0, 1.0)
    reasons = []
    for batch in (10, 20, 30, 40):
        state.batch = batch
        reasons.append(look(rule, state, assess)[0])
    assert reasons[:3] == [None, None, None]
    assert reasons[3] == "solved: 100 validation sequences of length 4:6 all right 2 times in a row"
    full = [asked for asked in assess.asked if asked[1] == 100]
    assert full == [(0, 100), (100, 100), (200, 100), (300, 100)]


def test_between_looks_nothing_is_drawn() -> None:
    rule, state, assess = WhenSolved(RANGE, every=10), LoopState(batch=11), Assessor()
    assert look(rule, state, assess) == (None, [])
    assert state.drawn == 0


def test_converged_counts_reports_in_a_row_and_looks_at_no_accuracy() -> None:
    rule, state, assess = WhenConverged(every=5, bound=1.01, times=2), LoopState(), Assessor()
    reasons = []
    for batch, perplexity in ((5, 1.005), (7, 1.005), (10, 1.5), (15, 1.01), (20, 1.0)):
        state.batch, state.perplexity = batch, perplexity
        reasons.append(rule(state, assess, print))
    assert reasons[:4] == [None] * 4
    assert reasons[4] == "converged: training perplexity at most 1.01 in 2 reports"
    assert assess.asked == []


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        (WhenConverged(every=5, bound=1.01, times=2), "converged: training perplexity at most"),
        (WhenStalled(every=5, patience=10), "stalled: training perplexity was not below the 1.0"),
    ],
)
def test_reports_of_short_words_alone_end_no_run(rule: StopRule, want: str) -> None:
    state, reasons = LoopState(), []
    for batch in range(5, 45, 5):
        state.batch, state.all_lengths = batch, batch > 20
        state.perplexity = 1.005 if state.all_lengths else 1.0
        reasons.append(rule(state, Assessor(), print))
    first = next(place for place, reason in enumerate(reasons) if reason)
    assert first == (5 if isinstance(rule, WhenConverged) else 6)
    assert reasons[first].startswith(want)


def test_never() -> None:
    assert never(LoopState(batch=10**9), Assessor(), print) is None
