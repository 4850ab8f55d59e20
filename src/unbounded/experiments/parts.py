"""The parts of a run that its config describes, beside the model and the task."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config import RunConfig, TrainingConfig
from unbounded.experiments.kinds import Judge, Model, Place
from unbounded.tasks import LengthRange
from unbounded.training.carry import Carry
from unbounded.training.checkpoint import Extra, Together
from unbounded.training.plateau import HalveOnPlateau
from unbounded.training.signals import StopRequest
from unbounded.training.stopping import StopRule, WhenConverged, WhenSolved, any_of, never


def make_accelerator(config: RunConfig) -> Accelerator:
    """Device, precision and processes.

    Raises:
        ConfigError: CUDA was asked for and is not there.
    """
    device = config.machine.device
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(["machine.device: cuda was asked for and torch finds no CUDA device"])
    # accelerate keeps the first run's choice of device and precision for the whole process.
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(
        cpu=device == "cpu",
        mixed_precision=config.training.precision,
        step_scheduler_with_optimizer=False,
    )


def make_place(accelerator: Accelerator, request: StopRequest) -> Place:
    """Where the scoring is done: the device, and this process's share of it."""
    alone = accelerator.num_processes == 1
    return Place(
        accelerator.device,
        (accelerator.process_index, accelerator.num_processes),
        lambda part: accelerator.reduce(part, reduction="sum"),
        # One of several processes giving up would leave the others waiting.
        request.check if alone else None,
    )


def make_plateau(
    training: TrainingConfig, model: Model, optimizer: Any, schedule: Any, judge: Judge
) -> HalveOnPlateau | None:
    """What lowers the learning rate on a plateau of validation; None where nothing does."""
    if not training.plateau_every:
        return None
    return HalveOnPlateau(
        model,
        optimizer,
        schedule,
        judge.validate,
        every=training.plateau_every,
        hold=training.plateau_hold,
        factor=training.plateau_factor,
        smallest=training.plateau_least,
    )


def make_stop_rule(
    training: TrainingConfig, lengths: LengthRange, plateau: HalveOnPlateau | None
) -> StopRule:
    """What ends the run before its budget does; `lengths` are those of validation."""
    rules: dict[str, StopRule] = {
        "solved": WhenSolved(
            lengths, every=training.validate_every, count=training.validation_count
        ),
        "converged": WhenConverged(
            every=training.report_every,
            bound=training.converged_perplexity,
            times=training.converged_reports,
        ),
    }
    rule = rules.get(training.stop, never)
    return rule if plateau is None else any_of(plateau, rule)


def make_extra(
    training: TrainingConfig, plateau: HalveOnPlateau | None, carry: Carry
) -> Extra | None:
    """What a checkpoint must hold beside model and optimizer; None where that is all."""
    parts: dict[str, Extra] = {}
    if training.piece_steps is not None:
        parts["carry"] = carry
    if plateau is not None:
        parts["plateau"] = plateau
    return Together(parts) if parts else None


def json_config(model: Model) -> dict[str, Any]:
    """The keywords that build a model of the same kind.

    Raises:
        CheckpointError: the model has none.
    """
    config = model._hub_mixin_config
    if not isinstance(config, dict):
        raise CheckpointError("the model has no config of plain values to save")
    return config
