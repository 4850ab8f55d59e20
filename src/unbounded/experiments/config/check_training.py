"""Check the training and hardening sections of a config."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any

from unbounded.custom_components import NO_MEMORY
from unbounded.evaluation.metric_sets import MetricSet
from unbounded.experiments.config.checking import (
    check_builds,
    check_choice,
    check_idle,
    check_number,
)
from unbounded.experiments.config.compose import preset_of
from unbounded.experiments.config.schema import RunConfig, TrainingConfig
from unbounded.memories import Memory, SuperpositionMemory
from unbounded.models.model_parts import make_memory
from unbounded.tasks import LengthRange
from unbounded.training.optimizers import (
    CLIPS,
    OPTIMIZERS,
    REDUCTIONS,
    SCHEDULES,
    UPDATES,
    has_epsilon,
    optimizer_errors,
)
from unbounded.training.plateau import MEASURES
from unbounded.training.temperature_noise import MOST as MOST_INVERSE_TEMPERATURE
from unbounded.training.temperature_noise import is_factor

STOPS = ("solved", "converged", "budget")
PRECISIONS = ("no", "bf16", "fp16")
CURRICULA = ("none", "growing", "doubling", "one_length")
_WHOLE = (
    "batches",
    "validate_every",
    "validation_count",
    "report_every",
    "accuracy_count",
    "checkpoint_every",
    "keep_checkpoints",
    "converged_reports",
    "curriculum_every",
    "cooldown_batches",
)


def training_errors(training: TrainingConfig, device: str = "cpu") -> list[str]:
    """Errors of the training section that do not depend on the task.

    Args:
        device: the optimizer's device, "cpu" or "cuda".
    """
    found: list[str] = []
    check_choice(found, "training.optimizer", "optimizer", training.optimizer, OPTIMIZERS)
    check_choice(found, "training.schedule", "schedule", training.schedule, SCHEDULES)
    check_choice(found, "training.stop", "stop rule", training.stop, STOPS)
    check_choice(found, "training.precision", "precision", training.precision, PRECISIONS)
    check_choice(found, "training.clip_by", "clip_by", training.clip_by, CLIPS)
    check_choice(found, "training.curriculum", "curriculum", training.curriculum, CURRICULA)
    check_choice(found, "training.reduction", "reduction", training.reduction, REDUCTIONS)
    check_choice(found, "training.update", "update", training.update, UPDATES)
    for name in _WHOLE:
        check_number(found, f"training.{name}", getattr(training, name), 1, 1_000_000_000)
    check_number(found, "training.batch_size", training.batch_size, 1, 1_000_000)
    check_number(found, "training.length_bucketing", training.length_bucketing, 1, 10_000)
    if training.length_bucketing != 1 and training.chunk_steps is not None:
        found.append("training.length_bucketing: streams in chunks cannot be bucketed; give 1")
    for name in ("accuracy_every", "plateau_every", "plateau_hold"):
        check_number(found, f"training.{name}", getattr(training, name), 0)
    factor = training.plateau_factor
    check_number(found, "training.plateau_factor", factor, 0, 1, above=True)
    check_number(found, "training.plateau_least", training.plateau_least, 0)
    check_number(found, "training.plateau_threshold", training.plateau_threshold, 0, 0.5)
    for name in ("chunk_steps", "symbols"):
        if getattr(training, name) is not None:
            check_number(found, f"training.{name}", getattr(training, name), 1)
    check_number(found, "training.learning_rate", training.learning_rate, 0, 1e3, above=True)
    if training.epsilon is not None:
        check_number(found, "training.epsilon", training.epsilon, 0, 1e3, above=True)
        if training.optimizer in OPTIMIZERS and not has_epsilon(training.optimizer):
            found.append(f"training.epsilon: {training.optimizer} has none; leave it at null")
    if training.optimizer in OPTIMIZERS and training.optimizer_options:
        lines = optimizer_errors(training.optimizer, training.optimizer_options, device)
        found += [f"training.optimizer_options: {line}" for line in lines]
    if training.update == "per_symbol" and training.optimizer_options:
        found.append("training.optimizer_options: a per-symbol update has none; leave them out")
    check_number(found, "training.clip", training.clip, 0, above=True)
    share = training.validation_share
    check_number(found, "training.validation_share", share, 0, 1, above=True)
    if training.stop != "solved":
        check_idle(found, "training", training, ("validation_share",), "without stop solved")
    perplexity = training.converged_perplexity
    if training.stop == "converged":
        check_number(found, "training.converged_perplexity", perplexity, 1, above=True)
    else:
        names = ("converged_perplexity", "converged_reports")
        check_idle(found, "training", training, names, "without stop converged")
    check_number(found, "training.early_abort_after", training.early_abort_after, 0)
    check_number(
        found, "training.early_abort_perplexity", training.early_abort_perplexity, 1, above=True
    )
    check_number(found, "training.prediction_clip", training.prediction_clip, 0, 0.1)
    check_number(found, "training.label_smoothing", training.label_smoothing, 0, 0.5)
    for name in ("temperature_noise", "temperature_noise_units"):
        if not is_factor(getattr(training, name)):
            found.append(
                f"training.{name}: expected 1, for none, or a power of two up to "
                f"{MOST_INVERSE_TEMPERATURE}, got {getattr(training, name)!r}"
            )
    below = training.temperature_noise_below
    check_number(found, "training.temperature_noise_below", below, 0, above=True)
    if training.temperature_noise == 1:
        others = ("temperature_noise_units", "temperature_noise_below")
        check_idle(found, "training", training, others, "without temperature_noise")
    if not training.early_abort_after:
        check_idle(
            found, "training", training, ("early_abort_perplexity",), "without early_abort_after"
        )
    check_number(found, "training.patience", training.patience, 0)
    for name in ("early_abort_after", "patience"):
        value, every = getattr(training, name), training.report_every
        if every > 0 and value % every:
            found.append(
                f"training.{name}: expected a multiple of training.report_every ({every}), got "
                f"{value}"
            )
    if training.schedule != "cooldown":
        check_idle(found, "training", training, ("cooldown_batches",), "without schedule cooldown")
    elif training.plateau_every:
        found.append(
            "training.plateau_every: with schedule cooldown two rules would lower the rate; "
            "leave one out"
        )
    if training.minutes is not None:
        check_number(found, "training.minutes", training.minutes, 0, above=True)
    for name in ("lengths", "validation_lengths"):
        text = getattr(training, name)
        if text is not None:
            check_builds(found, f"training.{name}", partial(LengthRange.parse, text))
    of = {
        "curriculum_every": ("growing",),
        "curriculum_below": ("doubling",),
        "curriculum_first": ("growing", "doubling"),
    }
    idle = tuple(name for name, curricula in of.items() if training.curriculum not in curricula)
    check_idle(found, "training", training, idle, f"with curriculum {training.curriculum}")
    if training.curriculum_first is not None:
        check_number(found, "training.curriculum_first", training.curriculum_first, 1)
    check_number(found, "training.curriculum_below", training.curriculum_below, 0, above=True)
    if training.curriculum == "doubling" and training.length_bucketing != 1:
        found.append(
            "training.length_bucketing: a doubling curriculum changes lengths at any batch; "
            "leave it at 1"
        )
    return found + _plateau_errors(training) + _smoothing_errors(training)


def _plateau_errors(training: TrainingConfig) -> list[str]:
    found: list[str] = []
    if not training.plateau_every:
        names = [field.name for field in dataclasses.fields(training)]
        idle = [name for name in names if name.startswith("plateau_") and name != "plateau_every"]
        check_idle(found, "training", training, idle, "without plateau_every")
        return found
    check_choice(found, "training.plateau_measure", "measure", training.plateau_measure, MEASURES)
    check_number(found, "training.plateau_patience", training.plateau_patience, 1)
    check_number(found, "training.plateau_window", training.plateau_window, 0, 1000)
    if training.plateau_window > 0:
        check_idle(found, "training", training, ("plateau_patience",), "with plateau_window")
    return found


def _smoothing_errors(training: TrainingConfig) -> list[str]:
    """Errors of loss thresholds that training with smoothed labels cannot reach."""
    if not 0 < training.label_smoothing <= 0.5:
        return []
    # The least loss with two tokens, when the output equals the smoothed target; higher with more.
    least = -math.log(1 - training.label_smoothing / 2)
    waits = {
        "converged_perplexity": (training.stop == "converged", math.exp(least)),
        "early_abort_perplexity": (training.early_abort_after > 0, math.exp(least)),
        "curriculum_below": (training.curriculum == "doubling", least),
    }
    return [
        f"training.label_smoothing: with {training.label_smoothing:g} training cannot fall below "
        f"{bound:.3g}, and training.{name} is {getattr(training, name):g}; give more, or 0 here"
        for name, (is_awaited, bound) in waits.items()
        if is_awaited and getattr(training, name) <= bound
    ]


def per_symbol_update_errors(config: RunConfig) -> list[str]:
    """Errors of options that do not fit a per-symbol update."""
    training, model = config.training, config.model
    if training.update != "per_symbol":
        return []
    controller = model.controller
    needed = [
        ("model.memory", model.memory["name"], "superposition_stack"),
        ("model.controller", controller["name"], "elman"),
        ("model.embedding_size", model.embedding_size, None),
        ("model.input_bits", model.input_bits, None),
        ("model.readout_size", model.readout_size, None),
        ("model.output_read_vector", model.output_read_vector, False),
        ("model.output_bias", model.output_bias, False),
        ("model.dropout", model.dropout, 0.0),
        ("training.batch_size", training.batch_size, 1),
        ("training.optimizer", training.optimizer, "sgd"),
        ("training.clip_by", training.clip_by, "value"),
        ("training.label_smoothing", training.label_smoothing, 0.0),
        ("training.temperature_noise", training.temperature_noise, 1),
        ("training.precision", training.precision, "no"),
    ]
    if controller["name"] == "elman":
        needed += [
            ("model.controller.activation", controller.get("activation", "tanh"), "sigmoid"),
            ("model.controller.bias", controller.get("bias", True), False),
        ]
    found = [
        f"{name}: a per-symbol update needs {want!r}, got {got!r}"
        for name, got, want in needed
        if got != want
    ]
    if config.hardware.device == "cuda":
        found.append("hardware.device: a per-symbol update runs on the CPU; leave it at auto")
    if model.memory.get("capacity") is None:
        found.append("model.memory.capacity: a per-symbol update needs one; the authors use 200")
    if training.chunk_steps is None:
        found.append(
            "training.chunk_steps: a per-symbol update needs it, as its backpropagation steps; "
            "the authors use 50"
        )
    return found


def temperature_errors(config: RunConfig) -> list[str]:
    """Errors of a model or its training options that temperature noise does not support."""
    training, found = config.training, []
    if training.temperature_noise == 1:
        return []
    if _has_no_gates(config):
        name = config.model.memory["name"]
        found.append(f"training.temperature_noise: memory {name!r} has no gates; leave it at 1")
    if training.precision == "fp16":
        # In hardening the factor is up to ten thousand times as large as in training.
        found.append("training.temperature_noise: scaled logits exceed fp16; use bf16")
    if training.temperature_noise_units != 1:
        if config.model.controller.get("activation") == "relu":
            found.append(
                "training.temperature_noise_units: needs bounded units, sigmoid or tanh; with "
                "activation relu leave it at 1"
            )
        if is_factor(training.temperature_noise_units) and (
            training.temperature_noise_units > training.temperature_noise
        ):
            found.append(
                "training.temperature_noise_units: expected at most temperature_noise "
                f"({training.temperature_noise}), got {training.temperature_noise_units}"
            )
    return found


def _has_no_gates(config: RunConfig) -> bool:
    # Unknown for a memory with errors, which are reported elsewhere.
    is_known = _memory(config) is not None or config.model.memory["name"] == NO_MEMORY
    return is_known and not decides(config)


def hardening_errors(config: RunConfig, metric_set: MetricSet) -> list[str]:
    """Errors of the hardening section of a config, on a task with this metric set."""
    found: list[str] = []
    hardening = config.hardening
    if hardening.batches == 0:
        # The preset's options of a hardening that the user switched off are not errors.
        usual = preset_of(config.task)["hardening"]
        fields = [field.name for field in dataclasses.fields(hardening) if field.name != "batches"]
        names = [name for name in fields if getattr(hardening, name) != usual[name]]
        check_idle(found, "hardening", hardening, names, "without hardening.batches")
        return found
    check_number(found, "hardening.batches", hardening.batches, 0)
    for name in ("every", "most_removals"):
        check_number(found, f"hardening.{name}", getattr(hardening, name), 1)
    check_number(found, "hardening.factor", hardening.factor, 1, 1e6, above=True)
    check_number(found, "hardening.saturated", hardening.saturated, 0.5, 0.999999, above=True)
    if hardening.optimizer is not None:
        check_choice(found, "hardening.optimizer", "optimizer", hardening.optimizer, OPTIMIZERS)
    if hardening.learning_rate is not None:
        rate = hardening.learning_rate
        check_number(found, "hardening.learning_rate", rate, 0, 1e3, above=True)
    check_number(found, "hardening.settle", hardening.settle, 0)
    check_number(found, "hardening.patience", hardening.patience, 0)
    if hardening.enough is not None:
        check_number(found, "hardening.enough", hardening.enough, 0, 1e3)
    check_number(found, "hardening.cool", hardening.cool, 0)
    if hardening.cool * hardening.every >= hardening.batches > 0:
        found.append(
            f"hardening.cool: {hardening.cool} checks of {hardening.every} batches take all of "
            f"{hardening.batches}, so nothing is hardened; give fewer (--hardening.cool 0), or "
            "more batches"
        )
    check_number(found, "hardening.far", hardening.far, 0, 1000)
    check_number(found, "hardening.tolerance", hardening.tolerance, 0, 1)
    if hardening.validation_count is not None:
        check_number(found, "hardening.validation_count", hardening.validation_count, 1)
    if not metric_set.judges_hardening:
        found.append(f"hardening.batches: task {config.task!r} has no correct outputs; give 0")
    name = config.model.memory["name"]
    if _has_no_gates(config):
        found.append(f"hardening.batches: memory {name!r} has no gates; give 0")
    elif not has_actions(config):
        check_idle(
            found, "hardening", hardening, ("remove", "most_removals"), f"with memory {name}"
        )
    return found


def decides(config: RunConfig) -> bool:
    """Whether the memory of a config has gates that can be hardened."""
    memory = _memory(config)
    return memory is not None and any(head.can_harden for head in memory.heads)


def has_actions(config: RunConfig) -> bool:
    """Whether the memory of a config has actions, such as PUSH and POP."""
    return isinstance(_memory(config), SuperpositionMemory)


def _memory(config: RunConfig) -> Memory[Any, Any] | None:
    """The memory of a config; None if it has none, or one with errors."""
    try:
        return make_memory(config.model.memory, max(config.model.hidden_size, 1))
    except (ValueError, TypeError):
        return None
