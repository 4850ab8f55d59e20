"""Training of a model on a task: objective, trainer, hooks and checkpoints.

The trainer and the checkpoints need accelerate, so import them from their own modules.
"""

from unbounded.signals import Interrupted
from unbounded.training.hook import Hook
from unbounded.training.hooks import SCHEDULES
from unbounded.training.hooks.accuracy import Accuracy
from unbounded.training.hooks.curricula import Doubling, Growing, OneLength
from unbounded.training.hooks.hardening import Harden
from unbounded.training.hooks.plateau import HalveOnPlateau
from unbounded.training.hooks.stopping import EarlyAbort, WhenConverged, WhenSolved, WhenStalled
from unbounded.training.objective import (
    OBJECTIVES,
    Objective,
    masked_binary_cross_entropy,
    masked_bit_cross_entropy,
    masked_cross_entropy,
    perplexity,
)
from unbounded.training.optimizers import OPTIMIZERS, make_optimizer, make_schedule
from unbounded.training.options import PhaseOptions
from unbounded.training.state import LoopState

__all__ = [
    "OBJECTIVES",
    "OPTIMIZERS",
    "SCHEDULES",
    "Accuracy",
    "Doubling",
    "EarlyAbort",
    "Growing",
    "HalveOnPlateau",
    "Harden",
    "Hook",
    "Interrupted",
    "LoopState",
    "Objective",
    "OneLength",
    "PhaseOptions",
    "WhenConverged",
    "WhenSolved",
    "WhenStalled",
    "make_optimizer",
    "make_schedule",
    "masked_binary_cross_entropy",
    "masked_bit_cross_entropy",
    "masked_cross_entropy",
    "perplexity",
]
