"""When a run is over: one rule a name, and the budget beside each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from unbounded.tasks import LengthRange
from unbounded.training.state import LoopState

Record = Callable[[dict[str, Any]], None]


#: What the reason begins with where a run is given up, and nothing is to be made of it.
FAILED = "failed early"


class Score(Protocol):
    """What an assessment says; `unbounded.evaluation` makes these."""

    @property
    def count(self) -> int:
        """Sequences that were scored."""

    @property
    def right(self) -> int:
        """Sequences that are right to the end."""

    @property
    def coarse(self) -> float:
        """Share of sequences that are right to the end."""

    @property
    def fine(self) -> float:
        """Mean share of a target that is right before the first error."""


class Assess(Protocol):
    """Scores the model on validation examples `start` to `start + count - 1`."""

    def __call__(self, lengths: LengthRange, start: int, count: int) -> Score:
        """Score `count` examples of that length range."""


class StopRule(Protocol):
    """Looks at a run after each batch and says why it is over, or None."""

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """The reason to stop, None to go on; may use up validation examples."""


class WhenSolved:
    """Stop when `count` fresh validation sequences are right, `times` looks in a row.

    A first look at a few of them comes before the rest and decides most cases cheaply.

    Args:
        lengths: range of the validation sequences.
        every: batches between looks.
        count: sequences a look.
        share: of the sequences of a look, and of the first few, that must be right, in (0, 1].
        times: looks in a row at which it must be so.
        few: sequences of the first look.
    """

    def __init__(
        self,
        lengths: LengthRange,
        *,
        every: int,
        count: int = 1000,
        share: float = 1.0,
        times: int = 2,
        few: int = 10,
    ) -> None:
        self._lengths = lengths
        self._every = every
        self._count = count
        self._share = share
        self._times = times
        self._few = min(few, count)

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Look, when a look is due."""
        if state.batch % self._every:
            return None
        start, count = state.drawn, self._few
        score = assess(self._lengths, start, count)
        if score.coarse >= self._share and count < self._count:
            count = self._count
            score = assess(self._lengths, start, count)
        state.drawn = start + count
        good = count == self._count and score.coarse >= self._share
        state.solved_in_a_row = state.solved_in_a_row + 1 if good else 0
        record(
            {
                "kind": "validation",
                "batch": state.batch,
                "lengths": str(self._lengths),
                "count": score.count,  # a split may have fewer than were asked for
                "accuracy_coarse": score.coarse,
                "accuracy_fine": score.fine,
                "solved_in_a_row": state.solved_in_a_row,
            }
        )
        if state.solved_in_a_row < self._times:
            return None
        right = " all right" if self._share == 1.0 else f", at least {self._share:g} of them right,"
        return (
            f"solved: {score.count} validation sequences of length {self._lengths}{right} "
            f"{self._times} times in a row"
        )


class WhenConverged:
    """Stop when training perplexity has stayed at or below a bound for several reports.

    It never looks at an accuracy, as the paper's protocol chooses by training perplexity only.
    Reports of a curriculum that has not come to all lengths count for nothing: short ones are easy.

    Args:
        every: batches between reports of training perplexity.
        bound: perplexity, above 1.
        times: reports in a row.
    """

    def __init__(self, *, every: int, bound: float = 1.001, times: int = 3) -> None:
        self._every = every
        self._bound = bound
        self._times = times

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
    """Stop when training perplexity has not been lower than ever for some batches.

    Where lengths grow, reports are compared with those of the same lengths alone.

    Args:
        every: batches between reports of training perplexity.
        patience: batches without a better report.
    """

    def __init__(self, *, every: int, patience: int) -> None:
        self._every, self._patience = every, patience

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Compare the report that came now with the best one."""
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


class WhenHopeless:
    """Stop when training has got nowhere by some batch: a failure found early is cheaper.

    Args:
        batch: after which it is looked; not earlier, not again.
        bound: training perplexity above which the run has failed.
    """

    def __init__(self, batch: int, bound: float) -> None:
        self._batch, self._bound = batch, bound

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Look at the last report of training perplexity, once."""
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
    """Stop when one of the rules says so; all of them look, and the first reason counts."""

    def rule(state: LoopState, assess: Assess, record: Record) -> str | None:
        reasons = [each(state, assess, record) for each in rules]
        return next((reason for reason in reasons if reason is not None), None)

    return rule
