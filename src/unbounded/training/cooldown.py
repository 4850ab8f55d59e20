"""The cooldown schedule: a constant learning rate, then a linear decay to 0."""

from __future__ import annotations

import torch


class Cooldown:
    """The learning-rate factor at a batch: 1, and from `begin` on a linear decay to 0.

    A rate that decays from the first batch on slows learning before there is any. A constant rate
    leaves the weights with the noise of the last steps. Torch's schedule saves these fields in
    its state, and so in checkpoints.

    Args:
        batches: length of the decay.
    """

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.begin: int | None = None
        self.reason = ""

    def __call__(self, batch: int) -> float:
        """The factor at a batch, in [0, 1]; the first batch is 0."""
        if self.begin is None or batch < self.begin:
            return 1.0
        return max(0.0, 1.0 - (batch - self.begin) / self.batches)

    def start(self, batch: int, reason: str) -> None:
        """Start the decay; `reason` is why training would have stopped."""
        self.begin, self.reason = batch, reason

    def over(self, batch: int) -> str | None:
        """Why training is over after `batch` batches, or None."""
        if self.begin is None or batch < self.begin + self.batches:
            return None
        return f"{self.reason}; the learning rate then fell to 0 over {self.batches} batches"


def cooldown_length(batches: int, cooldown_batches: int) -> int:
    """The length of the cooldown in a budget of `batches`: half of the budget at most."""
    return min(cooldown_batches, batches // 2)


def cooldown_of(schedule: torch.optim.lr_scheduler.LRScheduler) -> Cooldown | None:
    """The cooldown of a schedule, which accelerate may have wrapped; None without one."""
    bare = getattr(schedule, "scheduler", schedule)
    factors = getattr(bare, "lr_lambdas", ())
    return next((factor for factor in factors if isinstance(factor, Cooldown)), None)
