"""A run built from its config in one act: everything that can fail before a file is touched."""

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
from unbounded.evaluation.scorings import Place
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.device import is_on_cpu
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.ram_check import check_ram
from unbounded.models.memory_model import MemoryModel
from unbounded.training.online import Trained
from unbounded.training.optimizers import make_optimizer, make_schedule
from unbounded.training.signals import StopRequest


@dataclass(frozen=True)
class Built:
    """The parts of a run that are there before it begins.

    Fields:
        plan: what it learns, and how that is scored.
        model: bare, freshly initialised.
        trained: model, optimizer and schedule as accelerate wraps them.
    """

    plan: Plan
    model: MemoryModel
    trained: Trained


def build_run(planned: Plan, accelerator: Accelerator) -> Built:
    """Build model, optimizer and schedule; also sets the threads of this process.

    Raises:
        ConfigError: the run surely does not fit into memory.
        MemoryError, RuntimeError: the model does not fit.
    """
    config, training = planned.config, planned.config.training
    if config.machine.threads is not None:
        torch.set_num_threads(config.machine.threads)
    check_ram(planned, accelerator.device, accelerator.num_processes)
    torch.manual_seed(config.seed)
    model = planned.model()
    if accelerator.process_index:
        # The same weights everywhere, but no other process's dropout.
        torch.manual_seed(config.seed + accelerator.process_index)
    optimizer = make_optimizer(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        name=training.optimizer,
        learning_rate=training.learning_rate,
        epsilon=training.epsilon,
        options=training.optimizer_options,
    )
    schedule = make_schedule(
        optimizer,
        name=training.schedule,
        batches=training.batches,
        tail_batches=training.tail_batches,
    )
    trained = accelerator.prepare(model, optimizer, schedule)
    bare: MemoryModel = accelerator.unwrap_model(trained[0])
    return Built(planned, bare, (trained[0], trained[1], trained[2]))


def make_accelerator(
    config: RunConfig, log_with: Sequence[str] = (), logging_dir: Path | None = None
) -> Accelerator:
    """Device, precision and processes.

    Args:
        log_with: trackers by accelerate's names; `logging_dir`: where those that write files do so.

    Raises:
        ConfigError: CUDA was asked for and is not there; or the environment says what accelerate
            cannot do, or what would change the training unseen.
    """
    device = config.machine.device
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(["machine.device: cuda was asked for and torch finds no CUDA device"])
    _check_environment()
    # In a later piece of a stream a learned first state is not used, and in one of a single step
    # not the heads: several processes would wait for their gradients.
    in_pieces = config.training.piece_steps is not None
    handler = DistributedDataParallelKwargs(find_unused_parameters=True) if in_pieces else None
    # accelerate keeps the first run's choice of device and precision for the whole process.
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
    except Exception as error:  # whatever its reading of the environment comes to
        named = ", ".join(f"{name}={os.environ[name]}" for name in _of_accelerate())
        if not named:
            raise
        reason = str(error).split("\n", 1)[0]
        text = f"environment: accelerate cannot begin with {named} ({reason}); unset it"
        raise ConfigError([text]) from error


#: What would train otherwise than the config says, without a word in name or report.
_CHANGES = ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS",)
_OF_LAUNCHERS = ("LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def _of_accelerate() -> list[str]:
    """The environment variables that accelerate reads and that are set."""
    names = (name for name in os.environ if name.startswith("ACCELERATE_"))
    return sorted([*names, *(name for name in _OF_LAUNCHERS if name in os.environ)])


def _check_environment() -> None:
    found = [
        f"environment: {name}={os.environ[name]} would change the training and no report would say "
        "so; unset it"
        for name in _CHANGES
        if os.environ.get(name, "1") != "1"
    ]
    if found:
        raise ConfigError(found)


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
