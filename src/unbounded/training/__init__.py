"""Objective, loop, schedules, stop rules and checkpoints; receives a task and a model.

The loop and the checkpoints need accelerate and are imported from their own modules.
"""

from unbounded.training.curricula import Doubling, Growing, OneLength
from unbounded.training.hardening import Harden
from unbounded.training.objective import (
    OBJECTIVES,
    Objective,
    masked_binary_cross_entropy,
    masked_bit_cross_entropy,
    masked_cross_entropy,
    perplexity,
)
from unbounded.training.optimizers import OPTIMIZERS, make_optimizer
from unbounded.training.options import PhaseOptions
from unbounded.training.plateau import HalveOnPlateau
from unbounded.training.schedules import SCHEDULES, make_schedule
from unbounded.training.signals import Interrupted
from unbounded.training.state import LoopState
from unbounded.training.stopping import (
    EarlyAbort,
    StopRule,
    WhenConverged,
    WhenSolved,
    any_of,
    never,
)

__all__ = [
    "OBJECTIVES",
    "OPTIMIZERS",
    "SCHEDULES",
    "Doubling",
    "EarlyAbort",
    "Growing",
    "HalveOnPlateau",
    "Harden",
    "Interrupted",
    "LoopState",
    "Objective",
    "OneLength",
    "PhaseOptions",
    "StopRule",
    "WhenConverged",
    "WhenSolved",
    "any_of",
    "make_optimizer",
    "make_schedule",
    "masked_binary_cross_entropy",
    "masked_bit_cross_entropy",
    "masked_cross_entropy",
    "never",
    "perplexity",
]
