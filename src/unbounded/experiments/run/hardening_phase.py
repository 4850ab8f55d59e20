"""The second phase of a run: harden the model and remove unused stacks or lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from unbounded.errors import NonFiniteError
from unbounded.evaluation.comparison import (
    compare,
    comparison_rows,
    comparison_sets,
    is_exact,
    mean_share,
    shortest_length,
    worse_sets,
)
from unbounded.evaluation.metric_sets import Evaluator
from unbounded.evaluation.removal import remove_unused
from unbounded.experiments.run.build import make_place
from unbounded.experiments.run.evaluate import with_test_memory
from unbounded.experiments.run.phase import Surroundings, noise_hook, run_phase
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.memories import SuperpositionMemory
from unbounded.models.discrete import deciding_layers, discretized, gate_biases
from unbounded.models.gates import certainties, least_saturated
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Batch, LengthRange
from unbounded.training import Harden, Hook
from unbounded.training.backup import Backup
from unbounded.training.hooks.curricula import ShorterToo
from unbounded.training.hooks.logit_noise import LogitNoise
from unbounded.training.optimizers import make_optimizer, make_schedule

#: Default learning rates, as fractions of the learning rate of training.
_RATE, _RATE_OF_STREAMS = 0.1, 0.2


def harden_model(
    planned: Plan, model: MemoryModel, folder: Path, around: Surroundings
) -> tuple[MemoryModel, dict[str, Any]]:
    """Fine-tune a trained model until its gates are saturated, and return its hardened model.

    The hardened model with the best validation error is kept. Superposition stacks and lists that
    the validation sequences do not need are removed from it. If every hardened model has a higher
    error than the soft model, the soft model is kept with its last inverse temperature. The result
    is then compared with the trained model on 1000 strings of each range, on far longer strings,
    and on shifted inputs (`comparison_sets`). If the result is worse on any set by more than the
    confidence interval, the trained model is kept. The temperature noise of training continues
    during hardening, so that the model keeps its robustness. An interrupted hardening resumes.

    Args:
        planned: the run; its config's `hardening` has the options.
        model: the trained model; its weights change.
        folder: folder for checkpoints and metrics of the hardening.
        around: progress, stop request and a fresh accelerator, with nothing prepared.
    Returns:
        The resulting model, and the report's entries on the hardening.
        The trained model itself if its loss or gradient becomes NaN or infinite.
    Raises:
        ConfigError: the model has no memory with gates.
        StorageError: a file cannot be written.
        Interrupted: a signal stopped the hardening, which is saved.
    """
    hardening, training = planned.hardening(), planned.config.training
    metric_set, accelerator = planned.metric_set, around.accelerator
    place = make_place(accelerator, around.request)
    evaluator = with_test_memory(planned.evaluator(model, place), planned.config)
    evaluator = replace(
        evaluator, validation_count=hardening.validation_count or evaluator.validation_count
    )
    batch = metric_set.validation_batch(evaluator)
    # Validate short sequences too, because a hardened model may be correct only on longer ones.
    ranges = (evaluator.train_lengths, evaluator.validation_lengths)
    shorter = kept_lengths(planned, evaluator)
    asked = [*ranges, *([] if shorter is None else [shorter])]
    evaluators = [
        replace(evaluator, validation_lengths=lengths) for lengths in dict.fromkeys(asked)
    ]
    far = far_evaluators(planned, evaluator)

    def validation_error(hardened: nn.Module, of: list[Evaluator]) -> float:
        return max(metric_set.validation_error(replace(one, model=hardened)) for one in of)

    sets = comparison_sets(evaluator, ranges, far[0].validation_lengths if far else None)
    beyond = [one.validation_lengths for one in far]
    far_sets = [one for one in sets if one.evaluator.validation_lengths in beyond]
    near_sets = [one for one in sets if one not in far_sets]
    as_trained = Backup(model)
    around.progress.say("hardening: scoring the trained model, for the comparison")
    before = compare(metric_set, model.eval(), sets)
    # If the trained model is never correct, every hardened model is as good, so stop here. A few
    # correct strings of one symbol do not make a task solved.
    unshifted = [before[one.name] for one in sets if not one.is_shifted]
    if not any(share.correct for share in unshifted) and hardening.tolerance < 1:
        around.progress.say("not hardened: the trained model is correct on no validation sequence")
        stopped = "the trained model is correct on no validation sequence"
        return model, _facts(planned, model, batch, around, stopped=stopped)
    as_trained.keep()
    model.train()
    own = dict(training.optimizer)
    if hardening.optimizer not in (None, own["name"]):
        own = {"name": hardening.optimizer}
    name = own.pop("name")
    share = _RATE if training.chunk_steps is None else _RATE_OF_STREAMS
    optimizer = make_optimizer(
        list(model.parameters()),
        name=name,
        learning_rate=hardening.learning_rate or share * training.learning_rate,
        options=own,
    )
    schedule = make_schedule(optimizer, hardening.batches, name="constant")
    around.progress.say(
        "hardening: the gates' inverse temperature grows while the rest trains on; the validation "
        "error is the share of incorrect outputs, plus up to 0.001 for uncertain correct ones"
    )
    trained = accelerator.prepare(model, optimizer, schedule)

    def recheck(hardened: nn.Module) -> float:
        error = 0.0
        for own in filter(None, (near_sets, far_sets)):  # far longer strings take the most time
            after = compare(metric_set, hardened, own)
            error += 1 - mean_share(after)
            if not is_exact(after, own) or worse_sets(own, before, after):
                return error + (own is near_sets)  # rank errors at near lengths as worse
        return 0.0

    rule = Harden(
        model,
        batch,
        lambda soft: validation_error(soft, evaluators),
        validate_hardened=lambda hardened: validation_error(hardened, evaluators + far),
        recheck=recheck,
        every=hardening.every,
        factor=hardening.factor,
        saturated=hardening.saturated,
        settle=hardening.settle,
        enough=hardening.enough,
        patience=hardening.patience,
        tolerance=hardening.tolerance,
        cool=hardening.cool,
        cool_at=hardening.batches - hardening.every * hardening.cool,
        optimizer=trained[1],
        schedule=trained[2],
        device=accelerator.device,
    )
    hooks: dict[str, Hook] = {"hardening": rule}
    if (noise := noise_hook(planned, model)) is not None:
        hooks["temperature_noise"] = noise
    if hardening.logit_noise and not gate_biases(model):
        around.progress.say("no noise on the logits: the heads of this memory have no biases")
    elif hardening.logit_noise:
        hooks["logit_noise"] = LogitNoise(
            model,
            planned.config.seed,
            most=hardening.logit_noise,
            inverse_temperature=rule.inverse_temperature_now,
        )
    options = replace(
        planned.phase_options(),
        lengths=hardening_lengths(planned, shorter),
        batches=hardening.batches,
        symbols=None,
        minutes=None,
        report_every=hardening.every,
        checkpoint_every=hardening.every,
        update="chunk",
    )
    run = f"{folder.parent.name}/{folder.name}"
    try:
        state = run_phase(
            planned, RunFolder(folder), run, trained, options, evaluator, hooks, around
        )
    except NonFiniteError as error:
        as_trained.restore()
        around.progress.say(f"the trained model stays: {error}")
        facts = _facts(
            planned, model.eval(), batch, around, batches=error.batch or 0, stopped=str(error)
        )
        return model, facts
    why = str(state.finished).removeprefix("hardening: ")
    around.progress.say(f"hardened after batch {state.batch}: {why}")
    around.progress.say(
        "the best hardened model so far has a validation error of "
        f"{rule.least_validation_error:.4f}"
    )
    # If all gates are saturated, the model equals its hardened model.
    is_whole = least_saturated(model, batch, device=accelerator.device) >= hardening.saturated
    saturated, harm = rule.is_saturated or is_whole, False
    hardened, removed = discretized(model) if saturated else model, []
    after = compare(metric_set, hardened.eval(), sets)
    worse = worse_sets(sets, before, after)
    # A model that is neither hardened nor the trained one is kept only if it is better on average.
    is_no_gain = not saturated and (as_trained.is_kept() or mean_share(after) <= mean_share(before))
    is_no_gain |= mean_share(after) == 0
    if worse or is_no_gain:
        as_trained.restore()
        hardened, saturated, harm = model.eval(), False, True
        where = f"it is worse on {', '.join(worse)}" if worse else "it is no better"
        around.progress.say(f"the trained model stays: hardened, {where}")
    elif not saturated:
        around.progress.say(
            "not all gates can be saturated: the hardened model does worse on validation; the "
            "model is kept at its last inverse temperature"
        )
    elif hardening.remove and isinstance(deciding_layers(model)[0].memory, SuperpositionMemory):

        def correct(smaller: MemoryModel) -> float:
            around.request.check()
            own = [replace(one, model=smaller) for one in evaluators + far]
            return float(sum(metric_set.assess(*_asked(one)).correct for one in own))

        removal = remove_unused(hardened, correct, most=hardening.most_removals)
        smaller = compare(metric_set, removal.model.eval(), sets)
        if not worse_sets(sets, after, smaller):
            hardened, after, removed = removal.model, smaller, list(removal.removed)
        around.progress.say(f"removed {len(removed)} of {removal.whole} stacks or lists")
    facts = _facts(
        planned,
        hardened,
        batch,
        around,
        batches=state.batch,
        minutes=state.elapsed_s / 60,
        stopped=str(state.finished),
        inverse_temperature=1.0 if harm else rule.inverse_temperature,
        steps_back=rule.steps_back,
        saturated=saturated,
        harm=harm,
        removed=removed,
        worse=worse,
        comparison=comparison_rows(before, after),
    )
    return hardened, facts


def _facts(
    planned: Plan,
    hardened: MemoryModel,
    batch: Batch,
    around: Surroundings,
    *,
    stopped: str,
    batches: int = 0,
    minutes: float = 0.0,
    inverse_temperature: float = 1.0,
    steps_back: float = 0,
    saturated: bool = False,
    harm: bool = True,
    removed: Sequence[int] = (),
    worse: Sequence[str] = (),
    comparison: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The report's entries on a hardening. The defaults describe a hardening that did not start."""
    least, device = planned.hardening().saturated, around.accelerator.device
    sure = certainties(hardened, batch, saturated=least, device=device)
    return {
        "batches": batches,
        "minutes": minutes,
        "stopped": stopped,
        "inverse_temperature": inverse_temperature,
        "steps_back": steps_back,
        "saturated": saturated,
        "harm": harm,
        "worse": list(worse),
        "comparison": list(comparison),
        "gates": {head: gates._asdict() for head, gates in sure.items()},
        "removed": list(removed),
        "parameters": sum(parameter.numel() for parameter in hardened.parameters()),
    }


def shorter_lengths(planned: Plan) -> LengthRange | None:
    """The lengths below the training lengths; None if there are none."""
    lengths = planned.train_lengths
    if not planned.task.has_lengths:
        return None
    shortest = shortest_length(planned.task, lengths.minimum)
    if shortest is None or shortest == lengths.minimum:
        return None
    return LengthRange(shortest, lengths.minimum - 1)


def kept_lengths(planned: Plan, evaluator: Evaluator) -> LengthRange | None:
    """The lengths below the training lengths on which hardening must keep the model correct.

    None if there are no such lengths, or if the trained model is wrong on all validation strings of
    these lengths. For example, a^n b^2n is trained with n of at least 2. The trained model is wrong
    at n = 1, and learning n = 1 would make the other lengths worse.
    """
    shorter = shorter_lengths(planned)
    if shorter is None:
        return None
    evaluator.model.eval()
    score = planned.metric_set.assess(*_asked(replace(evaluator, validation_lengths=shorter)))
    return shorter if score.correct else None


def hardening_lengths(planned: Plan, shorter: LengthRange | None) -> LengthRange | ShorterToo:
    """The lengths that hardening trains on: training lengths, and shorter lengths to keep correct.

    If hardening trained on 8 to 64 symbols only, the hardened model was often wrong on strings of
    one symbol, on which the trained model had been correct. A stream mixes all lengths.
    """
    lengths = planned.train_lengths
    if shorter is None:
        return lengths
    if planned.config.training.chunk_steps is not None:
        return LengthRange(shorter.minimum, lengths.maximum)
    return ShorterToo(lengths, shorter.minimum, planned.config.training.length_bucketing)


def _asked(evaluator: Evaluator) -> tuple[Evaluator, LengthRange, int, int]:
    return evaluator, evaluator.validation_lengths, 0, evaluator.validation_count


def far_evaluators(planned: Plan, evaluator: Evaluator) -> list[Evaluator]:
    """The evaluators of a hardened model at a far longer length; the list has at most one."""
    times, longest = planned.hardening().far, evaluator.train_lengths.maximum
    if not times or not planned.task.has_lengths:
        return []
    count = max(1, evaluator.validation_count // 10)
    lengths = LengthRange(times * longest, times * longest)
    return [replace(evaluator, validation_lengths=lengths, validation_count=count)]
