"""The hooks of training, by option. A new hook is a file in this folder and a line below.

A hook's signature is the schema of its options. Parameters that the run provides, such as `model`
or `seed`, are not options (`unbounded.experiments.config.components`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from unbounded.tasks import LengthRange
from unbounded.training.hook import Hook
from unbounded.training.hooks.curricula import (
    Curriculum,
    Doubling,
    Growing,
    OneLength,
    whole_range,
)
from unbounded.training.hooks.plateau import HalveOnPlateau, no_plateau
from unbounded.training.hooks.schedules import Factor, constant, cooldown, decay, linear
from unbounded.training.hooks.stopping import (
    EarlyAbort,
    WhenConverged,
    WhenSolved,
    no_early_abort,
    only_budget,
)
from unbounded.training.hooks.temperature_noise import TemperatureNoise, no_noise

#: The rules of `--training.stop`.
STOPS: Final[dict[str, Callable[..., Hook | None]]] = {
    "solved": WhenSolved,
    "converged": WhenConverged,
    "budget": only_budget,
}
#: The rules of `--training.early_abort`.
EARLY_ABORTS: Final[dict[str, Callable[..., Hook | None]]] = {
    "none": no_early_abort,
    "perplexity": EarlyAbort,
}
#: The rules of `--training.plateau`.
PLATEAUS: Final[dict[str, Callable[..., Hook | None]]] = {
    "none": no_plateau,
    "halve": HalveOnPlateau,
}
#: The noise of `--training.temperature_noise`.
TEMPERATURE_NOISES: Final[dict[str, Callable[..., Hook | None]]] = {
    "none": no_noise,
    "doubling": TemperatureNoise,
}
#: The curricula of `--training.curriculum`, which set the range of lengths of each batch.
CURRICULA: Final[dict[str, Callable[..., LengthRange | Curriculum]]] = {
    "none": whole_range,
    "growing": Growing,
    "doubling": Doubling,
    "one_length": OneLength,
}
#: The schedules of `--training.schedule`, which set the factor on the learning rate at each batch.
SCHEDULES: Final[dict[str, Callable[..., Factor]]] = {
    "constant": constant,
    "linear": linear,
    "cooldown": cooldown,
    "decay": decay,
}
