"""The second half of a run: its model rounded, and freed of what it does not need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from unbounded.evaluation.removal import remove_unused
from unbounded.experiments.run.build import make_place
from unbounded.experiments.run.phase import Surroundings, run_phase
from unbounded.experiments.run.plan import Plan
from unbounded.models.discrete import discretized
from unbounded.models.memory_model import MemoryModel
from unbounded.training.optimizers import make_optimizer, make_schedule
from unbounded.training.rounding import RoundActions


def round_model(
    planned: Plan, model: MemoryModel, folder: Path, around: Surroundings
) -> tuple[MemoryModel, dict[str, Any]]:
    """Fine-tune a trained model until its actions are decided, and take its discrete machine.

    The machine that is best on the validation split is kept, and stacks that it does not need
    there are removed. An interrupted rounding goes on where it was.

    Args:
        planned: of the run; its config's `rounding` says how.
        model: trained; its weights change.
        folder: for checkpoints and metrics of the rounding.
        around: with an accelerator of its own, that has nothing prepared.
    Returns:
        the machine, and what a report says of how it came about.
    Raises:
        ConfigError: the model has no superposition memory.
        StorageError: the disk refused.
        Interrupted: asked to stop; the rounding is saved.
    """
    rounding, training = planned.config.rounding, planned.config.training
    scoring, accelerator = planned.scoring, around.accelerator
    place = make_place(accelerator, around.request)
    exam = planned.exam(model, place)
    rule = RoundActions(
        model,
        scoring.validation_batch(exam),
        lambda machine: scoring.doubt(replace(exam, model=machine)),
        every=rounding.every,
        factor=rounding.factor,
        decided=rounding.decided,
        device=accelerator.device,
    )
    name = rounding.optimizer or training.optimizer
    optimizer = make_optimizer(
        list(model.parameters()),
        name=name,
        learning_rate=rounding.learning_rate or training.learning_rate,
        epsilon=training.epsilon if name == training.optimizer else None,
        options=training.optimizer_options if name == training.optimizer else None,
    )
    schedule = make_schedule(optimizer, name="constant", batches=rounding.batches)
    trained = accelerator.prepare(model, optimizer, schedule)
    state = run_phase(
        folder,
        f"{folder.parent.name}/{folder.name}",
        planned.task,
        (trained[0], trained[1], trained[2]),
        replace(
            planned.phase_options(),
            lengths=planned.train_lengths,
            batches=rounding.batches,
            symbols=None,
            minutes=None,
            report_every=rounding.every,
            accuracy_every=0,
            checkpoint_every=rounding.every,
            update="piece",
        ),
        scoring,
        exam,
        rule,
        around,
        extras={"rounding": rule},
    )
    rule.restore()
    around.progress.say(f"rounded after batch {state.batch}: {state.finished}")
    machine, removed = discretized(model), []
    if rounding.remove:

        def right(smaller: MemoryModel) -> float:
            around.request.check()
            smaller_exam = replace(exam, model=smaller)
            count = exam.validation_count
            return float(scoring.assess(smaller_exam, exam.validation_lengths, 0, count).right)

        found = remove_unused(machine, right, most=rounding.most_removals)
        machine, removed = found.model, list(found.removed)
        around.progress.say(f"removed {len(removed)} of {found.whole} stacks or lists")
    facts = {
        "batches": state.batch,
        "minutes": state.elapsed_s / 60,
        "stopped": state.finished,
        "sharpness": rule.sharpness,
        "removed": removed,
        "parameters": sum(parameter.numel() for parameter in machine.parameters()),
    }
    return machine, facts
