"""Stop rules, which end a run before its budget is used up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Annotated, Any

from unbounded.options import Count, Range, Share
from unbounded.tasks import LengthRange
from unbounded.training.hook import Assess, Hook, Record
from unbounded.training.state import LoopState

AboveOne = Annotated[float, Range(1, above=True)]

#: Prefix of the reason if a run is aborted early. An aborted run counts as failed.
FAILED = "failed early"
#: Prefix of the reason if the task is solved.
SOLVED = "solved"


class WhenSolved(Hook):
    """Stop when new validation sequences are correct at each of `times` checks in a row.

    Each check first scores a few of these sequences, which is cheap and often sufficient.

    Args:
        lengths: range of the validation sequences.
        count: sequences a check.
        every: batches between checks.
        share: of the sequences of a check, and of the first few, that must be correct, in (0, 1].
        times: number of such checks in a row.
        few: sequences that are scored first.
    """

    saved = ("solved_in_a_row",)

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
        self.solved_in_a_row = 0

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Check the model if a check is due."""
        if state.batch % self._every:
            return None
        start, count = state.drawn, self._few
        score = assess(self._lengths, start, count)
        if score.exact_match >= self._share and count < self._count:
            count = self._count
            score = assess(self._lengths, start, count)
        state.drawn = start + count
        good = count == self._count and score.exact_match >= self._share
        self.solved_in_a_row = self.solved_in_a_row + 1 if good else 0
        record(
            {
                "kind": "validation",
                "batch": state.batch,
                "lengths": str(self._lengths),
                "count": score.count,  # a split may have fewer sequences than requested
                "exact_match": score.exact_match,
                "partial_accuracy": score.partial_accuracy,
                "solved_in_a_row": self.solved_in_a_row,
            }
        )
        if self.solved_in_a_row < self._times:
            return None
        phrase = (
            " all correct" if self._share == 1.0 else f", at least {self._share:g} of them correct,"
        )
        return (
            f"{SOLVED}: {score.count} validation sequences of length {self._lengths}{phrase} "
            f"{self._times} times in a row"
        )


class _OfOneStage(Hook, ABC):
    """A rule on training perplexity that compares only reports of the same lengths."""

    saved: tuple[str, ...] = ("stage",)

    def __init__(self) -> None:
        #: Longest length in the batches of the last report while later batches have longer ones,
        #: otherwise None.
        self.stage: int | None = None

    def on_report(self, state: LoopState, loss: float) -> dict[str, Any]:
        """Start again if the lengths differ from those in the last report."""
        if state.stage != self.stage:
            self.restart()
        self.stage = state.stage
        return {}

    @abstractmethod
    def restart(self) -> None:
        """Forget the reports so far."""


class WhenConverged(_OfOneStage):
    """Stop when training perplexity has stayed at or below a bound for several reports.

    This rule does not use accuracies, because the paper's protocol selects by training perplexity
    only. Reports before a curriculum reaches its full range do not count, because short lengths are
    easy.

    Args:
        report_every: batches between reports of training perplexity.
        perplexity: the greatest that counts, above 1.
        reports: number of such reports in a row.
    """

    saved = ("stage", "converged_in_a_row")

    def __init__(
        self, report_every: int, *, perplexity: AboveOne = 1.001, reports: Count = 3
    ) -> None:
        super().__init__()
        self._every = report_every
        self._bound = perplexity
        self._times = reports
        self.converged_in_a_row = 0

    def restart(self) -> None:
        """Count from 0."""
        self.converged_in_a_row = 0

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Count the reports at or below the bound."""
        if state.batch % self._every or state.perplexity is None or state.stage is not None:
            return None
        low = state.perplexity <= self._bound
        self.converged_in_a_row = self.converged_in_a_row + 1 if low else 0
        if self.converged_in_a_row < self._times:
            return None
        return f"converged: training perplexity at most {self._bound} in {self._times} reports"


class WhenStalled(_OfOneStage):
    """Stop if training perplexity has not reached a new minimum for some batches.

    If lengths grow, only reports with the same lengths are compared.

    Args:
        every: batches between reports of training perplexity.
        patience: batches without a better report.
    """

    saved = ("stage", "best_perplexity", "best_batch")

    def __init__(self, *, every: int, patience: int) -> None:
        super().__init__()
        self._every, self._patience = every, patience
        self.best_perplexity: float | None = None
        self.best_batch = 0

    def restart(self) -> None:
        """Forget the best report."""
        self.best_perplexity = None

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Compare the newest report with the best one."""
        if state.batch % self._every or state.perplexity is None:
            return None
        if self.best_perplexity is None or state.perplexity < self.best_perplexity:
            self.best_perplexity, self.best_batch = state.perplexity, state.batch
        if state.batch - self.best_batch < self._patience:
            return None
        return (
            f"stalled: training perplexity was not below the {self.best_perplexity:.4f} of batch "
            f"{self.best_batch} for {self._patience} batches"
        )


class EarlyAbort(Hook):
    """Stop if training perplexity is still high at some batch, because early failure is cheaper.

    Args:
        after: the batch at which perplexity is compared, once; a multiple of the batches between
            reports.
        perplexity: training perplexity above which the run has failed, on the lengths reached so
            far.
    """

    in_cooldown = True

    def __init__(self, *, after: Count, perplexity: AboveOne = 1.2) -> None:
        self._batch, self._bound = after, perplexity

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Compare the last report of training perplexity with the bound, once."""
        if state.batch != self._batch or state.perplexity is None:
            return None
        if state.perplexity <= self._bound:
            return None
        return (
            f"{FAILED}: training perplexity is {state.perplexity:.4f} after {self._batch} "
            f"batches, above {self._bound:g}; another seed may learn it"
        )


def only_budget() -> None:
    """Stop only when the budget is used up."""


def no_early_abort() -> None:
    """Never abort a run early."""
