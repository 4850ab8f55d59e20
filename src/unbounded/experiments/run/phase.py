"""Run a training phase in its folder, with its hooks. Training and hardening are such phases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from accelerate import Accelerator
from torch import nn

from unbounded.evaluation.metric_sets import Evaluator
from unbounded.experiments.config.check_training import has_gates
from unbounded.experiments.config.components import build
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.files import make_folder
from unbounded.models.memory_model import MemoryModel
from unbounded.signals import StopRequest
from unbounded.training import Accuracy, WhenStalled
from unbounded.training.carried_state import CarriedState
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.hook import Hook
from unbounded.training.metrics_log import Listener, MetricsLog
from unbounded.training.options import PhaseOptions
from unbounded.training.progress import Progress
from unbounded.training.state import LoopState
from unbounded.training.trainer import Trainer
from unbounded.training.update import Trained


@dataclass(frozen=True)
class Surroundings:
    """The accelerator and observers of a phase.

    Fields:
        accelerator: device, precision and processes; it has prepared the model.
        progress: displays messages.
        request: requests an early stop.
        listener: receives each metrics record; None for none.
    """

    accelerator: Accelerator
    progress: Progress
    request: StopRequest
    listener: Listener | None = None


def run_phase(
    planned: Plan,
    folder: RunFolder,
    run: str,
    trained: Trained,
    options: PhaseOptions,
    evaluator: Evaluator,
    hooks: Mapping[str, Hook],
    around: Surroundings,
    *,
    saved: Callable[[], None] | None = None,
    used: Mapping[str, Any] | None = None,
) -> LoopState:
    """Train from the newest checkpoint in the folder, or from scratch, to the end.

    Args:
        planned: the run.
        folder: for checkpoints and metrics; created if missing. The hardening of a run has its own,
            inside the run's.
        run: the run's identifier; checkpoints of other runs are rejected.
        trained, options, hooks: as for `Trainer`; a curriculum with a state is added.
        evaluator: scores the model on fresh validation examples.
        around: accelerator and observers.
        saved: called after each checkpoint.
        used: threads and kernels of this process, recorded in the state; None records none.
    Returns:
        The last state, with the reason for the stop.
    Raises:
        CheckpointError: no checkpoint in the folder can be used.
        Interrupted, NonFiniteError, StorageError: as for `Trainer.run`.
    """
    make_folder(folder.path)
    carried = CarriedState()
    hooks = dict(hooks)
    curriculum: object = options.lengths
    if isinstance(curriculum, Hook):
        hooks["curriculum"] = curriculum
    if options.chunk_steps is not None:
        hooks["carried"] = carried
    model: MemoryModel = around.accelerator.unwrap_model(trained[0])
    checkpoints = Checkpoints(
        folder.checkpoints,
        around.accelerator,
        config=model.config,
        run=run,
        keep=options.keep_checkpoints,
        saved=saved,
        hooks=hooks,
    )
    log, progress = MetricsLog(folder.metrics_file, around.listener), around.progress
    is_main = around.accelerator.is_main_process
    warn = progress.warn if is_main else progress.say
    state = checkpoints.load_newest(warn)
    if state is None:
        if is_main and log.path.exists() and log.path.stat().st_size:
            warn(
                f"warning: {checkpoints.folder} has no checkpoint, although this run had "
                "started: it starts again from batch 0"
            )
        state = LoopState()
    if is_main:
        state.metrics_lines = log.cut(state.metrics_lines, warn)
    if state.batch:
        progress.say(f"continuing after batch {state.batch}")
    trainer = Trainer(
        planned.task,
        trained,
        around.accelerator,
        options,
        log=log,
        checkpoints=checkpoints,
        assess=partial(planned.metric_set.assess, evaluator),
        hooks=hooks,
        progress=progress,
        request=around.request,
        carried=carried,
        used=used,
    )
    return trainer.run(state)


def training_hooks(
    planned: Plan, model: nn.Module, trained: Trained, validate: Callable[[], float]
) -> dict[str, Hook]:
    """The hooks of a run's training, in their order.

    Args:
        planned: the run.
        model: its model, not wrapped.
        trained: model, optimizer and schedule as wrapped by accelerate.
        validate: the measure of the plateau rule.
    """
    training = planned.config.training
    every = training.report_every
    hooks: dict[str, Hook | None] = {"temperature_noise": noise_hook(planned, model)}
    if training.accuracy_every:
        for lengths in dict.fromkeys((planned.train_lengths, planned.validation_lengths)):
            hooks[f"accuracy {lengths}"] = Accuracy(
                lengths, count=training.accuracy_count, every=training.accuracy_every
            )
    _, optimizer, schedule = trained
    hooks["plateau"] = build(
        "training.plateau",
        training.plateau,
        model=model,
        optimizer=optimizer,
        schedule=schedule,
        validate=validate,
    )
    hooks["early_abort"] = build("training.early_abort", training.early_abort)
    hooks["stop"] = build(
        "training.stop",
        training.stop,
        lengths=planned.validation_lengths,
        count=training.validation_count,
        report_every=every,
    )
    if training.patience:
        hooks["patience"] = WhenStalled(every=every, patience=training.patience)
    return {name: hook for name, hook in hooks.items() if hook is not None}


def noise_hook(planned: Plan, model: nn.Module) -> Hook | None:
    """The temperature noise of a run; None without noise or without memory gates."""
    config = planned.config
    if not has_gates(config):
        return None
    noise: Hook | None = build(
        "training.temperature_noise",
        config.training.temperature_noise,
        model=model,
        seed=config.seed,
    )
    return noise
