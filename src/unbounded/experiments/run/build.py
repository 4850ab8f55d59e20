"""Build a run's parts from its config, before any file is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedDataParallelKwargs, ProjectConfiguration

from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets import Place
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.numerics import is_on_cpu
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.ram_check import check_ram
from unbounded.models.memory_model import MemoryModel
from unbounded.signals import StopRequest
from unbounded.training.optimizers import make_optimizer, make_schedule
from unbounded.training.update import Trained


@dataclass(frozen=True)
class Built:
    """The parts of a run before it starts.

    Fields:
        plan: the config with its task and metric set.
        model: the unwrapped model, freshly initialised.
        trained: model, optimizer and schedule as wrapped by accelerate.
    """

    plan: Plan
    model: MemoryModel
    trained: Trained


def build_run(planned: Plan, accelerator: Accelerator) -> Built:
    """Build model, optimizer and schedule, and set the number of threads of this process.

    Raises:
        ConfigError: the run certainly does not fit into memory.
        MemoryError, RuntimeError: the model does not fit.
    """
    config, training = planned.config, planned.config.training
    if config.hardware.threads is not None:
        torch.set_num_threads(config.hardware.threads)
    check_ram(planned, accelerator.device, accelerator.num_processes)
    torch.manual_seed(config.seed)
    model = planned.model()
    if accelerator.process_index:
        # All processes have the same weights, but each draws its own dropout.
        torch.manual_seed(config.seed + accelerator.process_index)
    optimizer = make_optimizer(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        name=training.optimizer["name"],
        learning_rate=training.learning_rate,
        options={name: value for name, value in training.optimizer.items() if name != "name"},
    )
    schedule = make_schedule(optimizer, training.batches, **training.schedule)
    trained = accelerator.prepare(model, optimizer, schedule)
    bare: MemoryModel = accelerator.unwrap_model(trained[0])
    return Built(planned, bare, (trained[0], trained[1], trained[2]))


def make_accelerator(
    config: RunConfig, log_with: Sequence[str] = (), logging_dir: Path | None = None
) -> Accelerator:
    """Make the accelerator, which sets device, precision and processes.

    Args:
        log_with: accelerate's names of trackers.
        logging_dir: folder for trackers that write files.

    Raises:
        ConfigError: CUDA was requested and is missing; or an environment variable is invalid for
            accelerate or would change the training silently.
    """
    device = config.hardware.device
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("hardware.device: cuda was asked for and torch finds no CUDA device")
    _check_environment()
    # Later chunks of a stream do not use the learned initial state, and chunks of one step do not
    # use the heads. Without this option, several processes would wait for the missing gradients.
    in_chunks = config.training.chunk_steps is not None
    handler = DistributedDataParallelKwargs(find_unused_parameters=True) if in_chunks else None
    # accelerate otherwise keeps the first run's device and precision for the whole process.
    AcceleratorState._reset_state(reset_partial_state=True)
    try:
        return Accelerator(
            cpu=is_on_cpu(config),
            mixed_precision=config.training.precision,
            step_scheduler_with_optimizer=False,
            kwargs_handlers=None if handler is None else [handler],
            log_with=list(log_with) or None,
            project_config=ProjectConfiguration(
                logging_dir=None if logging_dir is None else str(logging_dir)
            ),
        )
    except Exception as error:  # accelerate raises various errors for invalid variables
        named = ", ".join(f"{name}={os.environ[name]}" for name in _of_accelerate())
        if not named:
            raise
        reason = str(error).split("\n", 1)[0]
        text = f"environment: accelerate cannot start with {named} ({reason}); unset it"
        raise ConfigError(text) from error


#: Environment variables that change the training but leave no trace in the run's name or report.
_CHANGES = ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS",)
_OF_LAUNCHERS = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _of_accelerate() -> list[str]:
    """The names of the set environment variables that accelerate reads."""
    names = (name for name in os.environ if name.startswith("ACCELERATE_"))
    return sorted([*names, *(name for name in _OF_LAUNCHERS if name in os.environ)])


def _check_environment() -> None:
    errors = [
        f"environment: {name}={os.environ[name]} would change the training, and the report would "
        "not show it; unset it"
        for name in _CHANGES
        if os.environ.get(name, "1") != "1"
    ]
    if errors:
        raise ConfigError(errors)


def make_place(accelerator: Accelerator, request: StopRequest) -> Place:
    """Where scoring runs: the device, and this process's share of the examples."""
    alone = accelerator.num_processes == 1
    return Place(
        accelerator.device,
        (accelerator.process_index, accelerator.num_processes),
        lambda part: accelerator.reduce(part, reduction="sum"),
        # If only one of several processes stopped, the others would wait for it forever.
        request.check if alone else None,
    )
