"""Stop rules: when a run is over before its budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Protocol

from unbounded.options import Count, Range, Share
from unbounded.tasks import LengthRange
from unbounded.training.state import LoopState

Record = Callable[[dict[str, Any]], None]
AboveOne = Annotated[float, Range(1, above=True)]

#: Prefix of the reason where a run is aborted early; such a run counts as failed.
FAILED = "failed early"


class Score(Protocol):
    """The result of an assessment; `unbounded.evaluation` computes it."""

    @property
    def count(self) -> int:
        """Number of scored sequences."""

    @property
    def right(self) -> int:
        """Number of sequences that match exactly."""

    @property
    def exact_match(self) -> float:
        """Share of sequences that match exactly."""

    @property
    def partial_accuracy(self) -> float:
        """Mean share of a target before the first error."""


class Assess(Protocol):
    """Scores the model on validation examples `start` to `start + count - 1`."""

    def __call__(self, lengths: LengthRange, start: int, count: int) -> Score:
        """Score `count` examples of that length range."""


class StopRule(Protocol):
    """Checks a run after each batch and returns why it is over, or None."""

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """The reason to stop, None to go on; may use validation examples."""


class WhenSolved:
    """Stop when `count` fresh validation sequences are correct, at `times` checks in a row.

    Each check first scores a few of them, which decides most cases cheaply.

    Args:
        lengths: range of the validation sequences.
        count: sequences a check.
        every: batches between checks.
        share: of the sequences of a check, and of the first few, that must be correct, in (0, 1].
        times: number of such checks in a row.
        few: sequences that are scored first.
    """

    def __init__(
        self,
        lengths: LengthRange,
        count: int = 1000,
        *,
        every: Count = 100,
        share: Share = 1.0,
        times: Count = 2,
        few: Count = 10,
    ) -> None:
        self._lengths = lengths
        self._every = every
        self._count = count
        self._share = share
        self._times = times
        self._few = min(few, count)

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Check the model when a check is due."""
        if state.batch % self._every:
            return None
        start, count = state.drawn, self._few
        score = assess(self._lengths, start, count)
        if score.exact_match >= self._share and count < self._count:
            count = self._count
            score = assess(self._lengths, start, count)
        state.drawn = start + count
        good = count == self._count and score.exact_match >= self._share
        state.solved_in_a_row = state.solved_in_a_row + 1 if good else 0
        record(
            {
                "kind": "validation",
                "batch": state.batch,
                "lengths": str(self._lengths),
                "count": score.count,  # a split may have fewer than requested
                "exact_match": score.exact_match,
                "partial_accuracy": score.partial_accuracy,
                "solved_in_a_row": state.solved_in_a_row,
            }
        )
        if state.solved_in_a_row < self._times:
            return None
        phrase = (
            " all right" if self._share == 1.0 else f", at least {self._share:g} of them right,"
        )
        return (
            f"solved: {score.count} validation sequences of length {self._lengths}{phrase} "
            f"{self._times} times in a row"
        )


class WhenConverged:
    """Stop when training perplexity has stayed at or below a bound for several reports.

    It uses no accuracy: the paper's protocol chooses by training perplexity only. Reports of a
    curriculum before its full range do not count: short lengths are easy.

    Args:
        report_every: batches between reports of training perplexity.
        perplexity: the greatest that counts, above 1.
        reports: number of such reports in a row.
    """

    def __init__(
        self, report_every: int, *, perplexity: AboveOne = 1.001, reports: Count = 3
    ) -> None:
        self._every = report_every
        self._bound = perplexity
        self._times = reports

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Count the reports at or below the bound."""
        if state.batch % self._every or state.perplexity is None or state.stage is not None:
            return None
        low = state.perplexity <= self._bound
        state.converged_in_a_row = state.converged_in_a_row + 1 if low else 0
        if state.converged_in_a_row < self._times:
            return None
        return f"converged: training perplexity at most {self._bound} in {self._times} reports"


class WhenStalled:
    """Stop when training perplexity has reached no new minimum for some batches.

    Where lengths grow, only reports of the same lengths are compared.

    Args:
        every: batches between reports of training perplexity.
        patience: batches without a better report.
    """

    def __init__(self, *, every: int, patience: int) -> None:
        self._every, self._patience = every, patience

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Compare the newest report with the best one."""
        if state.batch % self._every or state.perplexity is None:
            return None
        if state.best_perplexity is None or state.perplexity < state.best_perplexity:
            state.best_perplexity, state.best_batch = state.perplexity, state.batch
        if state.batch - state.best_batch < self._patience:
            return None
        return (
            f"stalled: training perplexity was not below the {state.best_perplexity:.4f} of batch "
            f"{state.best_batch} for {self._patience} batches"
        )


class EarlyAbort:
    """Stop when training perplexity is still high at some batch: an early failure is cheaper.

    Args:
        after: the batch at which perplexity is compared, once; a multiple of the batches between
            reports.
        perplexity: training perplexity above which the run has failed, on the lengths reached so
            far.
    """

    def __init__(self, *, after: Count, perplexity: AboveOne = 1.2) -> None:
        self._batch, self._bound = after, perplexity

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Compare the last report of training perplexity with the bound, once."""
        if state.batch != self._batch or state.perplexity is None:
            return None
        if state.perplexity <= self._bound:
            return None
        return (
            f"{FAILED}: training perplexity is {state.perplexity:.4f} after {self._batch} "
            f"batches, above {self._bound:g}; another seed may learn it"
        )


def never(state: LoopState, assess: Assess, record: Record) -> str | None:
    """Only the budget ends the run."""
    return None


def any_of(*rules: StopRule) -> StopRule:
    """Stop when one of the rules says so; all rules run, and the first reason counts."""

    def rule(state: LoopState, assess: Assess, record: Record) -> str | None:
        reasons = [each(state, assess, record) for each in rules]
        return next((reason for reason in reasons if reason is not None), None)

    return rule


def only_budget() -> StopRule:
    """Stop when the budget is used up, and not before."""
    return never


def no_early_abort() -> None:
    """A run is not aborted early."""


#: The rules of `--training.stop`.
STOPS: Final[dict[str, Callable[..., StopRule]]] = {
    "solved": WhenSolved,
    "converged": WhenConverged,
    "budget": only_budget,
}
#: The rules of `--training.early_abort`.
EARLY_ABORTS: Final[dict[str, Callable[..., StopRule | None]]] = {
    "none": no_early_abort,
    "perplexity": EarlyAbort,
}
