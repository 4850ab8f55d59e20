"""Learning-rate schedules, which compute the factor on the learning rate at each batch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from unbounded.options import Count, Share

#: Maps the number of a batch to a factor in [0, 1].
Factor = Callable[[int], float]


class Cooldown:
    """The learning-rate factor at a batch: 1 before `begin`, then decaying linearly to 0.

    A rate that decays from the first batch on slows learning at its start. With a constant rate,
    the weights keep the noise of the last steps. Torch's schedule saves these fields in its state,
    and so in checkpoints.

    Args:
        batches: length of the decay.
    """

    def __init__(self, batches: int) -> None:
        self.batches = batches
        self.begin: int | None = None
        self.reason = ""

    def __call__(self, batch: int) -> float:
        """The factor at a batch, in [0, 1]. The first batch has number 0."""
        if self.begin is None or batch < self.begin:
            return 1.0
        return max(0.0, 1.0 - (batch - self.begin) / self.batches)

    def start(self, batch: int, reason: str) -> None:
        """Start the decay; `reason` is why training would have stopped."""
        self.begin, self.reason = batch, reason

    def over(self, batch: int) -> str | None:
        """The reason why training is over after `batch` batches, or None."""
        if self.begin is None or batch < self.begin + self.batches:
            return None
        return f"{self.reason}; the learning rate then fell to 0 over {self.batches} batches"


def constant(budget: int) -> Factor:
    """Keep the learning rate constant."""
    return lambda batch: 1.0


def linear(budget: int) -> Factor:
    """Let the learning rate decay linearly, to 0 at the end of the budget."""
    return lambda batch: max(0.0, 1.0 - batch / budget)


def cooldown(budget: int, *, batches: Count = 500) -> Factor:
    """Keep the learning rate constant until the run would stop, then let it decay linearly to 0.

    Args:
        budget: of the run, in batches.
        batches: length of the decay, at most half of the budget.
    """
    return Cooldown(cooldown_length(budget, batches))


def decay(budget: int, *, after: Count = 3000, every: Count = 20, factor: Share = 0.99) -> Factor:
    """Keep the learning rate constant at first, then multiply it by a factor repeatedly.

    Args:
        budget: of the run, in batches.
        after: batches before it decays.
        every: batches between two multiplications, of which the first is `every` after these.
        factor: in (0, 1].
    Source: the program of Yang & Rush 2017, with 0.99 every 20 batches after 3000 or 6000.
    """
    return lambda batch: factor ** max(0, (batch - after) // every)


def cooldown_length(budget: int, batches: int) -> int:
    """The length of a cooldown within a budget, which is at most half of the budget."""
    return min(batches, budget // 2)


def cooldown_of(schedule: torch.optim.lr_scheduler.LRScheduler) -> Cooldown | None:
    """The cooldown of a schedule, which accelerate may have wrapped; None without one."""
    bare = getattr(schedule, "scheduler", schedule)
    factors = getattr(bare, "lr_lambdas", ())
    return next((factor for factor in factors if isinstance(factor, Cooldown)), None)


def scale_rate(
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    factor: float,
) -> None:
    """Multiply the learning rate, now and for later batches."""
    for group in optimizer.param_groups:
        group["lr"] *= factor
    # A schedule multiplies its base rates by a factor at each batch. accelerate wraps it.
    schedule = getattr(schedule, "scheduler", schedule)
    schedule.base_lrs = [rate * factor for rate in schedule.base_lrs]
