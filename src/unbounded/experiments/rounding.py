"""The second half of a run: its model rounded, freed of what it does not need, and scored again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from unbounded.evaluation.removal import remove_unused
from unbounded.experiments.config import RunConfig
from unbounded.experiments.kinds import Judge, Model, kind_of
from unbounded.experiments.kinds.streams import VALIDATION_STREAMS, shared
from unbounded.experiments.parts import json_config
from unbounded.models.discrete import discretized
from unbounded.models.stream import StreamModel
from unbounded.tasks import LengthRange, StreamTask
from unbounded.training.carry import Carry
from unbounded.training.checkpoint import Checkpoints, Together
from unbounded.training.files import storage_faults
from unbounded.training.loop import TrainingLoop
from unbounded.training.metrics_log import Listener, MetricsLog
from unbounded.training.optimizers import make_optimizer, make_schedule
from unbounded.training.progress import Progress
from unbounded.training.rounding import RoundActions
from unbounded.training.signals import StopRequest
from unbounded.training.state import LoopState

#: Makes the judge of a model of the run.
MakeJudge = Callable[[Model], Judge]

# Where two machines get as many sequences wrong, the surer one is better.
_SURENESS = 1e-3


def round_model(
    config: RunConfig,
    task: StreamTask,
    model: StreamModel,
    folder: Path,
    accelerator: Accelerator,
    make_judge: MakeJudge,
    *,
    progress: Progress,
    request: StopRequest,
    listener: Listener | None = None,
) -> tuple[StreamModel, dict[str, Any]]:
    """Fine-tune a trained model until its actions are decided, and take its discrete machine.

    The machine that is best on the validation split is kept, and stacks that it does not need
    there are removed. An interrupted rounding goes on where it was.

    Args:
        config: of the run; its `rounding` says how.
        task: what it was trained on.
        model: trained; its weights change.
        folder: for checkpoints and metrics of the rounding.
        accelerator: of its own, with nothing prepared.
        make_judge: scores models on the validation split.
        progress, request: as for `TrainingLoop`.
        listener: given each record of the metrics too.
    Returns:
        the machine, and what a report says of how it came about.
    Raises:
        ConfigError: the model has no superposition memory.
        StorageError: the disk refused.
        Interrupted: asked to stop; the rounding is saved.
    """
    rounding, training = config.rounding, config.training
    kind = kind_of(config.task)
    lengths: LengthRange = kind.validation_lengths(config, task)
    count = training.validation_count
    streams, sequences = shared(count, VALIDATION_STREAMS)
    batch = task.with_sequences(sequences).batch(config.seed, "validation", 0, streams, lengths)

    def validate(machine: Any) -> float:
        score: Any = make_judge(machine).assess(lengths, 0, count)
        return 1 - float(score.coarse) + _SURENESS * min(float(score.nats), 1.0)

    rule = RoundActions(
        model,
        batch,
        validate,
        every=rounding.every,
        factor=rounding.factor,
        decided=rounding.decided,
        device=accelerator.device,
    )
    rate = rounding.learning_rate or training.learning_rate
    name = rounding.optimizer or training.optimizer
    epsilon = training.epsilon if name == training.optimizer else None
    optimizer = make_optimizer(
        list(model.parameters()), name=name, learning_rate=rate, epsilon=epsilon
    )
    schedule = make_schedule(optimizer, name="constant", batches=rounding.batches)
    ready = accelerator.prepare(model, optimizer, schedule)
    carry = Carry()
    with storage_faults(folder, "making folder"):
        folder.mkdir(parents=True, exist_ok=True)
    checkpoints = Checkpoints(
        folder / "checkpoints",
        accelerator,
        config=json_config(model),
        run=f"{folder.parent.name}/{folder.name}",
        extra=Together({"carry": carry, "rounding": rule}),
    )
    log = MetricsLog(folder / "metrics.jsonl", listener)
    state = checkpoints.load_newest(progress.say) or LoopState()
    state.metrics_lines = log.cut(state.metrics_lines, progress.say)
    state = TrainingLoop(
        task,
        ready[0],
        ready[1],
        ready[2],
        accelerator,
        log=log,
        checkpoints=checkpoints,
        assess=make_judge(model).assess,
        stop_rule=rule,
        progress=progress,
        request=request,
        seed=config.seed,
        batch_size=training.batch_size,
        batches=rounding.batches,
        minutes=None,
        clip=training.clip,
        clip_by=training.clip_by,
        piece_steps=training.piece_steps,
        average=training.average,
        carry=carry,
        lengths=kind.train_lengths(config, task),
        report_every=rounding.every,
        accuracy_every=0,
        accuracy_lengths=(),
        accuracy_count=1,
        checkpoint_every=rounding.every,
    ).run(state)
    rule.restore()
    progress.say(f"rounded after batch {state.batch}: {state.finished}")
    machine, removed = discretized(model), []
    if rounding.remove:

        def right(smaller: StreamModel) -> float:
            request.check()
            score: Any = make_judge(smaller).assess(lengths, 0, count)
            return float(score.right)

        found = remove_unused(machine, right, most=rounding.most_removals)
        machine, removed = found.model, list(found.removed)
        progress.say(f"removed {len(removed)} of {config.model.count} stacks or lists")
    facts = {
        "batches": state.batch,
        "minutes": state.elapsed_s / 60,
        "stopped": state.finished,
        "sharpness": rule.sharpness,
        "removed": removed,
        "parameters": sum(each.numel() for each in machine.parameters()),
    }
    return machine, facts
