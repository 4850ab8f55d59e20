"""A learning rate that stays until a run is over, and then falls to 0 over a short tail."""

from __future__ import annotations

import torch


class Tail:
    """The factor of the learning rate at a batch: 1, and from `begin` on a line down to 0.

    A rate that falls from the first batch on takes learning away before there is any; one that
    never falls leaves a run in weights that its last steps have shaken. A schedule of torch keeps
    these fields in its state, so that a checkpoint has them.

    Args:
        batches: how long it takes.
    """

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.begin: int | None = None
        self.reason = ""

    def __call__(self, batch: int) -> float:
        """The factor at that batch, in [0, 1]; the first batch is 0."""
        if self.begin is None or batch < self.begin:
            return 1.0
        return max(0.0, 1.0 - (batch - self.begin) / self.batches)

    def start(self, batch: int, reason: str) -> None:
        """Begin to fall: `reason` is why the run would have been over."""
        self.begin, self.reason = batch, reason

    def over(self, batch: int) -> str | None:
        """Why the run is over after so many batches, or None."""
        if self.begin is None or batch < self.begin + self.batches:
            return None
        return f"{self.reason}; the learning rate then fell to 0 over {self.batches} batches"


def tail_length(batches: int, tail_batches: int) -> int:
    """How many of a budget of `batches` a tail of `tail_batches` takes: half of it at most."""
    return min(tail_batches, batches // 2)


def tail_of(schedule: torch.optim.lr_scheduler.LRScheduler) -> Tail | None:
    """The tail of a schedule, which accelerate may have wrapped; None where it has none."""
    bare = getattr(schedule, "scheduler", schedule)
    factors = getattr(bare, "lr_lambdas", ())
    return next((factor for factor in factors if isinstance(factor, Tail)), None)
