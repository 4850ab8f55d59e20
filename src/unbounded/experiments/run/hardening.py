"""The second half of a run: its model hardened, and freed of what it does not need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from unbounded.evaluation.comparison import (
    compare,
    comparison_rows,
    comparison_sets,
    is_exact,
    mean_share,
    worse_sets,
)
from unbounded.evaluation.removal import remove_unused
from unbounded.evaluation.scorings import Exam
from unbounded.experiments.run.build import make_place
from unbounded.experiments.run.phase import Surroundings, run_phase
from unbounded.experiments.run.plan import Plan
from unbounded.memories import SuperpositionMemory
from unbounded.models.decisions import certainties, least_decided
from unbounded.models.discrete import deciding_layers, discretized
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Batch, LengthRange
from unbounded.training.backup import Backup
from unbounded.training.hardening import Harden
from unbounded.training.optimizers import make_optimizer, make_schedule

#: Shares of the learning rate of training.
_RATE, _RATE_OF_STREAMS = 0.1, 0.2


def harden_model(
    planned: Plan, model: MemoryModel, folder: Path, around: Surroundings
) -> tuple[MemoryModel, dict[str, Any]]:
    """Fine-tune a trained model until its decisions are made, and take its discrete machine.

    The machine that is best on the validation split is kept, and stacks or lists in superposition
    that it does not need there are removed. Where no machine does as well as the model, the model
    itself is kept, as hard as it went. In the end the result is compared with the trained model, on
    1000 strings of each range, far beyond, and on shifted inputs (`comparison_sets`). Where it is
    worse anywhere by more than its interval, the trained model stays. What was trained at random
    sharpness is so still, lest it forgets. An interrupted hardening goes on where it was.

    Args:
        planned: of the run; its config's `rounding` says how.
        model: trained; its weights change.
        folder: for checkpoints and metrics of the hardening.
        around: with an accelerator of its own, that has nothing prepared.
    Returns:
        the machine, and what a report says of how it came about.
    Raises:
        ConfigError: the model has no memory that decides.
        StorageError: the disk refused.
        Interrupted: asked to stop; the hardening is saved.
    """
    rounding, training = planned.config.rounding, planned.config.training
    scoring, accelerator = planned.scoring, around.accelerator
    exam = planned.exam(model, make_place(accelerator, around.request))
    exam = replace(exam, validation_count=rounding.validation_count or exam.validation_count)
    batch = scoring.validation_batch(exam)
    # Short sequences too: a machine may be right on longer ones alone.
    ranges = (exam.train_lengths, exam.validation_lengths)
    exams = [replace(exam, validation_lengths=lengths) for lengths in dict.fromkeys(ranges)]
    far = far_exams(planned, exam)

    def doubt(machine: nn.Module, of: list[Exam]) -> float:
        return max(scoring.doubt(replace(each, model=machine)) for each in of)

    sets = comparison_sets(exam, ranges, far[0].validation_lengths if far else None)
    beyond = [each.validation_lengths for each in far]
    far_sets = [each for each in sets if each.exam.validation_lengths in beyond]
    near_sets = [each for each in sets if each not in far_sets]
    as_trained = Backup(model, [], "the trained weights")
    around.progress.say("hardening: scoring the trained model, with which it is compared")
    before = compare(scoring, model.eval(), sets)
    # Of a model that is right on nothing any machine is as good, and none is asked for.
    if not any(share.right for share in before.values()) and rounding.tolerance < 1:
        around.progress.say("not hardened: the trained model is right on no validation sequence")
        stopped = "the trained model is right on no validation sequence"
        return model, _facts(planned, model, batch, around, stopped=stopped)
    as_trained.keep()
    model.train()
    name = rounding.optimizer or training.optimizer
    share = _RATE if training.piece_steps is None else _RATE_OF_STREAMS
    optimizer = make_optimizer(
        list(model.parameters()),
        name=name,
        learning_rate=rounding.learning_rate or share * training.learning_rate,
        epsilon=training.epsilon if name == training.optimizer else None,
        options=training.optimizer_options if name == training.optimizer else None,
    )
    schedule = make_schedule(optimizer, name="constant", batches=rounding.batches)
    around.progress.say(
        "hardening: what decides is sharpened while the rest learns on; doubt is the share of "
        "validation that is wrong, and up to 0.001 for what is right but unsure"
    )
    trained = accelerator.prepare(model, optimizer, schedule)

    def confirm(machine: nn.Module) -> bool:
        for own in filter(None, (near_sets, far_sets)):  # strings far beyond training take longest
            after = compare(scoring, machine, own)
            if not is_exact(after, own) or worse_sets(own, before, after):
                return False
        return True

    rule = Harden(
        model,
        batch,
        lambda soft: doubt(soft, exams),
        validate_machine=lambda machine: doubt(machine, exams + far),
        confirm=confirm,
        every=rounding.every,
        factor=rounding.factor,
        decided=rounding.decided,
        settle=rounding.settle,
        enough=rounding.enough,
        patience=rounding.patience,
        tolerance=rounding.tolerance,
        cool=rounding.cool,
        cool_at=rounding.batches - rounding.every * rounding.cool,
        optimizer=trained[1],
        schedule=trained[2],
        device=accelerator.device,
    )
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
    why = str(state.finished).removeprefix("hardening: ")
    around.progress.say(f"hardened after batch {state.batch}: {why}")
    around.progress.say(
        f"the best discrete machine on the way has a doubt of {rule.least_doubt:.4f}"
    )
    # Where all is whole already, model and machine are one, however far they are right.
    is_whole = least_decided(model, batch, device=accelerator.device) >= rounding.decided
    decided, harm = rule.is_decided or is_whole, False
    machine, removed = discretized(model) if decided else model, []
    after = compare(scoring, machine.eval(), sets)
    worse = worse_sets(sets, before, after)
    # What was not asked for, a model neither hardened nor as trained, must be better in the mean.
    is_no_gain = not decided and (as_trained.is_kept() or mean_share(after) <= mean_share(before))
    if worse or is_no_gain:
        as_trained.restore()
        machine, decided, harm = model.eval(), False, True
        where = f"it is worse on {', '.join(worse)}" if worse else "it is no better"
        around.progress.say(f"the trained model stays: hardened, {where}")
    elif not decided:
        around.progress.say(
            "its decisions cannot all be made wholly: the discrete machine does worse on "
            "validation; the model is kept as hard as it went"
        )
    elif rounding.remove and isinstance(deciding_layers(model)[0].memory, SuperpositionMemory):

        def right(smaller: MemoryModel) -> float:
            around.request.check()
            own = [replace(each, model=smaller) for each in exams + far]
            return float(sum(scoring.assess(*_asked(each)).right for each in own))

        found = remove_unused(machine, right, most=rounding.most_removals)
        smaller = compare(scoring, found.model.eval(), sets)
        if not worse_sets(sets, after, smaller):
            machine, after, removed = found.model, smaller, list(found.removed)
        around.progress.say(f"removed {len(removed)} of {found.whole} stacks or lists")
    facts = _facts(
        planned,
        machine,
        batch,
        around,
        batches=state.batch,
        minutes=state.elapsed_s / 60,
        stopped=str(state.finished),
        sharpness=1.0 if harm else rule.sharpness,
        steps_back=rule.steps_back,
        decided=decided,
        harm=harm,
        removed=removed,
        worse=worse,
        comparison=comparison_rows(before, after),
    )
    return machine, facts


def _facts(
    planned: Plan,
    machine: MemoryModel,
    batch: Batch,
    around: Surroundings,
    *,
    stopped: str,
    batches: int = 0,
    minutes: float = 0.0,
    sharpness: float = 1.0,
    steps_back: float = 0,
    decided: bool = False,
    harm: bool = True,
    removed: Sequence[int] = (),
    worse: Sequence[str] = (),
    comparison: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What a report says of a hardening; by default, of one that was not begun."""
    least, device = planned.config.rounding.decided, around.accelerator.device
    sure = certainties(machine, batch, decided=least, device=device)
    return {
        "batches": batches,
        "minutes": minutes,
        "stopped": stopped,
        "sharpness": sharpness,
        "steps_back": steps_back,
        "decided": decided,
        "harm": harm,
        "worse": list(worse),
        "comparison": list(comparison),
        "decisions": {head: each._asdict() for head, each in sure.items()},
        "removed": list(removed),
        "parameters": sum(parameter.numel() for parameter in machine.parameters()),
    }


def _asked(exam: Exam) -> tuple[Exam, LengthRange, int, int]:
    return exam, exam.validation_lengths, 0, exam.validation_count


def far_exams(planned: Plan, exam: Exam) -> list[Exam]:
    """The exam of a discrete machine at a length far beyond that of training; none, or one."""
    times, longest = planned.config.rounding.far, exam.train_lengths.maximum
    if not times or not planned.task.has_lengths:
        return []
    count = max(1, exam.validation_count // 10)
    lengths = LengthRange(times * longest, times * longest)
    return [replace(exam, validation_lengths=lengths, validation_count=count)]
