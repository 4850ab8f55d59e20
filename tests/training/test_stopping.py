from __future__ import annotations

from typing import Any, NamedTuple

from unbounded.tasks import LengthRange
from unbounded.training import Hook, LoopState, WhenConverged, WhenSolved, WhenStalled

RANGE = LengthRange(4, 6)


class Fixed(NamedTuple):
    exact_match: float
    scored: int
    partial_accuracy: float = 0.5

    @property
    def count(self) -> int:
        return self.scored


class Assessor:
    """Returns prepared scores and records its calls."""

    def __init__(self, *answers: float) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []

    def __call__(self, lengths: LengthRange, start: int, count: int) -> Fixed:
        assert lengths == RANGE
        self.asked.append((start, count))
        return Fixed(self.answers.pop(0), count)


def check(rule: WhenSolved, state: LoopState, assess: Assessor) -> tuple[str | None, list[Any]]:
    lines: list[Any] = []
    return rule.after_batch(state, assess, lines.append), lines


def test_a_failed_check_of_a_few_sequences_skips_the_full_check() -> None:
    rule, state, assess = WhenSolved(RANGE, every=10, count=100), LoopState(batch=10), Assessor(0.9)
    reason, lines = check(rule, state, assess)
    assert reason is None
    assert assess.asked == [(0, 10)]
    assert state.drawn == 10
    assert lines[0]["count"] == 10


def test_two_flawless_checks_in_a_row_are_needed_each_on_fresh_sequences() -> None:
    rule, state = WhenSolved(RANGE, every=10, count=100), LoopState()
    assess = Assessor(1.0, 1.0, 1.0, 0.99, 1.0, 1.0, 1.0, 1.0)
    reasons = []
    for batch in (10, 20, 30, 40):
        state.batch = batch
        reasons.append(check(rule, state, assess)[0])
    assert reasons[:3] == [None, None, None]
    assert (
        reasons[3] == "solved: 100 validation sequences of length 4:6 all correct 2 times in a row"
    )
    full = [asked for asked in assess.asked if asked[1] == 100]
    assert full == [(0, 100), (100, 100), (200, 100), (300, 100)]


def test_a_share_of_correct_sequences_can_stop_training() -> None:
    rule, state = WhenSolved(RANGE, every=10, count=100, share=0.99), LoopState()
    assess = Assessor(1.0, 0.99, 1.0, 0.98, 0.9, 1.0, 0.99, 1.0, 1.0)
    reasons = []
    for batch in (10, 20, 30, 40, 50):
        state.batch = batch
        reasons.append(check(rule, state, assess)[0])
    assert reasons[:4] == [None] * 4
    assert reasons[4] == (
        "solved: 100 validation sequences of length 4:6, at least 0.99 of them correct, "
        "2 times in a row"
    )


def test_between_checks_nothing_is_drawn() -> None:
    rule, state, assess = WhenSolved(RANGE, every=10), LoopState(batch=11), Assessor()
    assert check(rule, state, assess) == (None, [])
    assert state.drawn == 0


def test_converged_counts_reports_in_a_row_and_uses_no_accuracy() -> None:
    rule, state, assess = WhenConverged(5, perplexity=1.01, reports=2), LoopState(), Assessor()
    reasons = []
    for batch, perplexity in ((5, 1.005), (7, 1.005), (10, 1.5), (15, 1.01), (20, 1.0)):
        state.batch, state.perplexity = batch, perplexity
        reasons.append(rule.after_batch(state, assess, print))
    assert reasons[:4] == [None] * 4
    assert reasons[4] == "converged: training perplexity at most 1.01 in 2 reports"
    assert assess.asked == []


def endings(rule: Hook, reports: list[tuple[int | None, float]]) -> list[str | None]:
    """A rule's reasons at each report of (stage, perplexity), five batches apart."""
    state, reasons = LoopState(), []
    for place, (stage, perplexity) in enumerate(reports, 1):
        state.batch, state.perplexity = 5 * place, perplexity
        state.stage = stage
        rule.on_report(state, 0.0)
        reasons.append(rule.after_batch(state, Assessor(), print))
    return reasons


def test_reports_of_short_strings_alone_do_not_converge() -> None:
    rule = WhenConverged(5, perplexity=1.01, reports=2)
    short, full = [(2, 1.0), (2, 1.0), (4, 1.0), (4, 1.0)], [(None, 1.005)] * 2
    (*before, last) = endings(rule, short + full)
    assert before == [None] * 5
    assert last is not None
    assert last.startswith("converged: training perplexity at most 1.01")


def test_reports_are_compared_within_a_stage_and_a_stage_can_stall() -> None:
    rule = WhenStalled(every=5, patience=10)
    # Longer strings are harder; that is not stalling.
    assert endings(rule, [(2, 1.1), (2, 1.0), (4, 1.6), (4, 1.5), (None, 2.0)]) == [None] * 5
    (*before, last) = endings(rule, [(2, 1.0), (4, 1.5), (4, 1.6), (4, 1.6)])
    assert before == [None] * 3
    assert last == (
        "stalled: training perplexity was not below the 1.5000 of batch 10 for 10 batches"
    )
