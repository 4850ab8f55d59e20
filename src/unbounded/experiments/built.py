"""A run that is built from its config: everything that can fail before a file is touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator

from unbounded.experiments.build import build_model, build_task
from unbounded.experiments.config import RunConfig
from unbounded.experiments.kinds import Kind, Model, kind_of
from unbounded.experiments.parts import json_config
from unbounded.experiments.room import check_room
from unbounded.tasks import LengthRange, Task
from unbounded.training.optimizers import make_optimizer, make_schedule


@dataclass(frozen=True)
class Built:
    """The parts of a run that are there before it begins.

    Fields:
        kind, task: what it learns, and how that is scored.
        model: bare, freshly initialised. model_config: what makes it again.
        prepared: model, optimizer and schedule as accelerate wraps them.
        train_lengths, validation_lengths: the ranges of training and of the stop rule.
    """

    kind: Kind[Any]
    task: Task
    model: Model
    model_config: dict[str, Any]
    prepared: tuple[Any, Any, Any]
    train_lengths: LengthRange
    validation_lengths: LengthRange


def build_run(config: RunConfig, accelerator: Accelerator) -> Built:
    """Build task, model, optimizer and schedule; also sets the threads of this process.

    Raises:
        ConfigError: the corpus of the task cannot be read, or the run surely does not fit into
            memory.
        MemoryError, RuntimeError: the model does not fit.
    """
    if config.machine.threads is not None:
        torch.set_num_threads(config.machine.threads)
    kind, task, training = kind_of(config.task), build_task(config), config.training
    check_room(config, task, accelerator.device, accelerator.num_processes)
    torch.manual_seed(config.seed)
    model = build_model(config, task)
    optimizer = make_optimizer(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        name=training.optimizer,
        learning_rate=training.learning_rate,
        epsilon=training.epsilon,
    )
    schedule = make_schedule(optimizer, name=training.schedule, batches=training.batches)
    prepared = accelerator.prepare(model, optimizer, schedule)
    return Built(
        kind=kind,
        task=task,
        model=accelerator.unwrap_model(prepared[0]),
        model_config=json_config(model),
        prepared=(prepared[0], prepared[1], prepared[2]),
        train_lengths=kind.train_lengths(config, task),
        validation_lengths=kind.validation_lengths(config, task),
    )
