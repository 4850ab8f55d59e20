"""A phase of training in its folder: used for training, and once more for rounding."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from unbounded.evaluation.scorings import Exam, Scoring
from unbounded.experiments.run.beginning import Beginning
from unbounded.experiments.run.kept_config import began_with
from unbounded.files import storage_faults
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Task
from unbounded.training.carry import Carry
from unbounded.training.checkpoint import Checkpoints, Extra, Together
from unbounded.training.loop import Phase
from unbounded.training.metrics_log import Listener, MetricsLog
from unbounded.training.online import Trained
from unbounded.training.options import PhaseOptions
from unbounded.training.progress import Progress
from unbounded.training.signals import StopRequest
from unbounded.training.state import LoopState
from unbounded.training.stopping import StopRule


@dataclass(frozen=True)
class Surroundings:
    """What a phase is watched by.

    Fields:
        accelerator: device, precision and processes; prepared what is trained.
        progress: shown what happens.
        request: asks for an early end.
        listener: given each record of the metrics too; None for nobody.
    """

    accelerator: Accelerator
    progress: Progress
    request: StopRequest
    listener: Listener | None = None


def run_phase(
    folder: Path,
    run: str,
    task: Task,
    trained: Trained,
    options: PhaseOptions,
    scoring: Scoring,
    exam: Exam,
    stop_rule: StopRule,
    around: Surroundings,
    *,
    extras: Mapping[str, Extra],
    saved: Callable[[], None] | None = None,
    keep_at: Collection[int] = (),
    beginning: Beginning | None = None,
    used: Mapping[str, Any] | None = None,
) -> LoopState:
    """Train from the newest checkpoint in the folder, or from the beginning, to the end.

    Args:
        folder: of its checkpoints and metrics; made when it is not there. With `used` that of a
            run, whose config.yaml says with what it began.
        run: what identifies the run; a checkpoint of another one is foreign.
        task, trained, options, stop_rule: as for `Phase`.
        scoring, exam: score the model on fresh validation examples.
        around: what it is watched by.
        extras: what a checkpoint must hold beside model and optimizer, by name.
        saved: called after each checkpoint.
        keep_at: batches whose checkpoint stays, beside the newest ones.
        beginning: another run that this one may begin as, where it has no checkpoint of its own.
        used: the threads and kernels of this process, which the state is to note; None notes none.
    Returns:
        The last state, with the reason why it is over.
    Raises:
        CheckpointError: no checkpoint in the folder can be used.
        Interrupted, NonFiniteError, StorageError: as for `Phase.run`.
    """
    with storage_faults(folder, "making folder"):
        folder.mkdir(parents=True, exist_ok=True)
    carry = Carry()
    kept: dict[str, Extra] = {} if options.piece_steps is None else {"carry": carry}
    kept |= extras
    model: MemoryModel = around.accelerator.unwrap_model(trained[0])
    checkpoints = Checkpoints(
        folder / "checkpoints",
        around.accelerator,
        config=model.config,
        run=run,
        keep=options.keep_checkpoints,
        keep_at=keep_at,
        saved=saved,
        extra=Together(kept) if kept else None,
    )
    log, progress = MetricsLog(folder / "metrics.jsonl", around.listener), around.progress
    is_main = around.accelerator.is_main_process
    warn = progress.warn if is_main else progress.say
    state = checkpoints.load_newest(warn)
    if state is None and beginning is not None:
        state = beginning.take(checkpoints, log, trained[2], used, warn)
    if state is None:
        if is_main and log.path.exists() and log.path.stat().st_size:
            warn(
                f"warning: {checkpoints.folder} holds no checkpoint, and this run had "
                "begun: it begins again after batch 0"
            )
        state = LoopState()
    if used is not None:
        state.note_beginning(began_with(folder))
    if is_main:
        state.metrics_lines = log.cut(state.metrics_lines, warn)
    if state.batch:
        progress.say(f"going on after batch {state.batch}")
    phase = Phase(
        task,
        trained,
        around.accelerator,
        options,
        log=log,
        checkpoints=checkpoints,
        assess=lambda lengths, start, count: scoring.assess(exam, lengths, start, count),
        stop_rule=stop_rule,
        progress=progress,
        request=around.request,
        carry=carry,
        used=used,
    )
    return phase.run(state)
