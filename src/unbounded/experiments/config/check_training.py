"""What is wrong with the training and the rounding of a config."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any

from unbounded.evaluation.scorings import Scoring
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
from unbounded.own_parts import NO_MEMORY
from unbounded.tasks import LengthRange
from unbounded.training.optimizers import (
    CLIPS,
    OPTIMIZERS,
    SCHEDULES,
    UPDATES,
    has_epsilon,
    option_faults,
)
from unbounded.training.plateau import MEASURES
from unbounded.training.random_sharpness import MOST as MOST_SHARPNESS
from unbounded.training.random_sharpness import is_factor

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
    "tail_batches",
)


def training_faults(training: TrainingConfig, device: str = "cpu") -> list[str]:
    """What is wrong with numbers and choices of the training, whatever the task.

    Args:
        device: "cpu" or "cuda", where the optimizer works.
    """
    found: list[str] = []
    check_choice(found, "training.optimizer", "optimizer", training.optimizer, OPTIMIZERS)
    check_choice(found, "training.schedule", "schedule", training.schedule, SCHEDULES)
    check_choice(found, "training.stop", "stop rule", training.stop, STOPS)
    check_choice(found, "training.precision", "precision", training.precision, PRECISIONS)
    check_choice(found, "training.clip_by", "clip_by", training.clip_by, CLIPS)
    check_choice(found, "training.curriculum", "curriculum", training.curriculum, CURRICULA)
    check_choice(found, "training.update", "update", training.update, UPDATES)
    for name in _WHOLE:
        check_number(found, f"training.{name}", getattr(training, name), 1, 1_000_000_000)
    check_number(found, "training.batch_size", training.batch_size, 1, 1_000_000)
    check_number(found, "training.deal", training.deal, 1, 10_000)
    if training.deal != 1 and training.piece_steps is not None:
        found.append("training.deal: streams that are cut into pieces are not dealt; give 1")
    for name in ("accuracy_every", "plateau_every", "plateau_hold"):
        check_number(found, f"training.{name}", getattr(training, name), 0)
    factor = training.plateau_factor
    check_number(found, "training.plateau_factor", factor, 0, 1, above=True)
    check_number(found, "training.plateau_least", training.plateau_least, 0)
    check_number(found, "training.plateau_threshold", training.plateau_threshold, 0, 0.5)
    for name in ("piece_steps", "symbols"):
        if getattr(training, name) is not None:
            check_number(found, f"training.{name}", getattr(training, name), 1)
    check_number(found, "training.learning_rate", training.learning_rate, 0, 1e3, above=True)
    if training.epsilon is not None:
        check_number(found, "training.epsilon", training.epsilon, 0, 1e3, above=True)
        if training.optimizer in OPTIMIZERS and not has_epsilon(training.optimizer):
            found.append(f"training.epsilon: {training.optimizer} has none; leave it at null")
    if training.optimizer in OPTIMIZERS and training.optimizer_options:
        lines = option_faults(training.optimizer, training.optimizer_options, device)
        found += [f"training.optimizer_options: {line}" for line in lines]
    if training.update == "symbol" and training.optimizer_options:
        found.append(
            "training.optimizer_options: an update after every symbol has none; leave them out"
        )
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
    check_number(found, "training.give_up_after", training.give_up_after, 0)
    check_number(found, "training.give_up_perplexity", training.give_up_perplexity, 1, above=True)
    check_number(found, "training.prediction_clip", training.prediction_clip, 0, 0.1)
    check_number(found, "training.label_smoothing", training.label_smoothing, 0, 0.5)
    for name in ("random_sharpness", "random_sharpness_units"):
        if not is_factor(getattr(training, name)):
            found.append(
                f"training.{name}: expected 1, for none, or a power of two up to "
                f"{MOST_SHARPNESS}, got {getattr(training, name)!r}"
            )
    below = training.random_sharpness_below
    check_number(found, "training.random_sharpness_below", below, 0, above=True)
    if training.random_sharpness == 1:
        others = ("random_sharpness_units", "random_sharpness_below")
        check_idle(found, "training", training, others, "without random_sharpness")
    if not training.give_up_after:
        check_idle(found, "training", training, ("give_up_perplexity",), "without give_up_after")
    check_number(found, "training.patience", training.patience, 0)
    for name in ("give_up_after", "patience"):
        value, every = getattr(training, name), training.report_every
        if every > 0 and value % every:
            found.append(
                f"training.{name}: expected a multiple of training.report_every ({every}), got "
                f"{value}"
            )
    if training.schedule != "tail":
        check_idle(found, "training", training, ("tail_batches",), "without schedule tail")
    elif training.plateau_every:
        found.append(
            "training.plateau_every: beside schedule tail two rules would lower the learning rate; "
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
    if training.curriculum == "doubling" and training.deal != 1:
        found.append(
            "training.deal: a doubling curriculum changes lengths at any batch; leave it at 1"
        )
    return found + _plateau_faults(training) + _smoothing_faults(training)


def _plateau_faults(training: TrainingConfig) -> list[str]:
    found: list[str] = []
    if not training.plateau_every:
        names = [each.name for each in dataclasses.fields(training)]
        idle = [each for each in names if each.startswith("plateau_") and each != "plateau_every"]
        check_idle(found, "training", training, idle, "without plateau_every")
        return found
    check_choice(found, "training.plateau_measure", "measure", training.plateau_measure, MEASURES)
    check_number(found, "training.plateau_patience", training.plateau_patience, 1)
    check_number(found, "training.plateau_window", training.plateau_window, 0, 1000)
    if training.plateau_window > 0:
        check_idle(found, "training", training, ("plateau_patience",), "with plateau_window")
    return found


def _smoothing_faults(training: TrainingConfig) -> list[str]:
    """Losses that a rule waits for, and that nothing trained on smoothed labels comes to."""
    if not 0 < training.label_smoothing <= 0.5:
        return []
    # Of two tokens, and more of any other number: what is as sure as its target costs that.
    least = -math.log(1 - training.label_smoothing / 2)
    waits = {
        "converged_perplexity": (training.stop == "converged", math.exp(least)),
        "give_up_perplexity": (training.give_up_after > 0, math.exp(least)),
        "curriculum_below": (training.curriculum == "doubling", least),
    }
    return [
        f"training.label_smoothing: with {training.label_smoothing:g} none comes below {bound:.3g} "
        f"in training, and training.{name} is {getattr(training, name):g}; give more, or 0 here"
        for name, (is_awaited, bound) in waits.items()
        if is_awaited and getattr(training, name) <= bound
    ]


def symbol_update_faults(config: RunConfig) -> list[str]:
    """What does not go with an update after every symbol."""
    training, model = config.training, config.model
    if training.update != "symbol":
        return []
    controller = model.controller
    needed = [
        ("model.memory", model.memory["name"], "superposition_stack"),
        ("model.controller", controller["name"], "elman"),
        ("model.embedding_size", model.embedding_size, None),
        ("model.input_bits", model.input_bits, None),
        ("model.readout_size", model.readout_size, None),
        ("model.output_reading", model.output_reading, False),
        ("model.output_bias", model.output_bias, False),
        ("model.dropout", model.dropout, 0.0),
        ("training.batch_size", training.batch_size, 1),
        ("training.optimizer", training.optimizer, "sgd"),
        ("training.clip_by", training.clip_by, "value"),
        ("training.label_smoothing", training.label_smoothing, 0.0),
        ("training.random_sharpness", training.random_sharpness, 1),
        ("training.precision", training.precision, "no"),
    ]
    if controller["name"] == "elman":
        needed += [
            ("model.controller.activation", controller.get("activation", "tanh"), "sigmoid"),
            ("model.controller.bias", controller.get("bias", True), False),
        ]
    found = [
        f"{name}: an update after every symbol needs {want!r}, got {got!r}"
        for name, got, want in needed
        if got != want
    ]
    if config.machine.device == "cuda":
        found.append("machine.device: an update after every symbol is made on the CPU; leave it")
    if model.memory.get("capacity") is None:
        found.append(
            "model.memory.capacity: an update after every symbol needs one; the authors have 200"
        )
    if training.piece_steps is None:
        found.append(
            "training.piece_steps: an update after every symbol needs it, as the steps that its "
            "error goes back; the authors have 50"
        )
    return found


def sharpness_faults(config: RunConfig) -> list[str]:
    """What is wrong with a model, or its numbers, for decisions and units that are sharpened."""
    training, found = config.training, []
    if training.random_sharpness == 1:
        return []
    if _decides_nothing(config):
        name = config.model.memory["name"]
        found.append(f"training.random_sharpness: memory {name!r} decides nothing; leave it at 1")
    if training.precision == "fp16":
        # Hardened a factor is ten thousand times as large as in training.
        found.append("training.random_sharpness: what is sharpened exceeds fp16; use bf16")
    if training.random_sharpness_units != 1:
        if config.model.controller.get("activation") == "relu":
            found.append(
                "training.random_sharpness_units: needs units with a bound, of sigmoid or tanh; "
                "with activation relu leave it at 1"
            )
        if is_factor(training.random_sharpness_units) and (
            training.random_sharpness_units > training.random_sharpness
        ):
            found.append(
                "training.random_sharpness_units: expected at most random_sharpness "
                f"({training.random_sharpness}), got {training.random_sharpness_units}"
            )
    return found


def _decides_nothing(config: RunConfig) -> bool:
    # Of a memory with faults, which are named elsewhere, nobody knows.
    is_known = _memory(config) is not None or config.model.memory["name"] == NO_MEMORY
    return is_known and not decides(config)


def rounding_faults(config: RunConfig, scoring: Scoring) -> list[str]:
    """What is wrong with the rounding of a config, on a task of that scoring."""
    found: list[str] = []
    rounding = config.rounding
    if rounding.batches == 0:
        # What the preset says of a hardening that is called off is nobody's mistake.
        usual = preset_of(config.task)["rounding"]
        fields = [field.name for field in dataclasses.fields(rounding) if field.name != "batches"]
        names = [name for name in fields if getattr(rounding, name) != usual[name]]
        check_idle(found, "rounding", rounding, names, "without rounding.batches")
        return found
    check_number(found, "rounding.batches", rounding.batches, 0)
    for name in ("every", "most_removals"):
        check_number(found, f"rounding.{name}", getattr(rounding, name), 1)
    check_number(found, "rounding.factor", rounding.factor, 1, 1e6, above=True)
    check_number(found, "rounding.decided", rounding.decided, 0.5, 0.999999, above=True)
    if rounding.optimizer is not None:
        check_choice(found, "rounding.optimizer", "optimizer", rounding.optimizer, OPTIMIZERS)
    if rounding.learning_rate is not None:
        rate = rounding.learning_rate
        check_number(found, "rounding.learning_rate", rate, 0, 1e3, above=True)
    check_number(found, "rounding.settle", rounding.settle, 0)
    check_number(found, "rounding.patience", rounding.patience, 0)
    if rounding.enough is not None:
        check_number(found, "rounding.enough", rounding.enough, 0, 1e3)
    check_number(found, "rounding.cool", rounding.cool, 0)
    if rounding.cool * rounding.every >= rounding.batches > 0:
        found.append(
            f"rounding.cool: {rounding.cool} looks of {rounding.every} batches take all of "
            f"{rounding.batches}, and nothing would be sharpened; give fewer (--rounding.cool 0), "
            "or more batches"
        )
    check_number(found, "rounding.far", rounding.far, 0, 1000)
    check_number(found, "rounding.tolerance", rounding.tolerance, 0, 1)
    if rounding.validation_count is not None:
        check_number(found, "rounding.validation_count", rounding.validation_count, 1)
    if not scoring.rounds:
        found.append(f"rounding.batches: task {config.task!r} is never right or wrong; give 0")
    name = config.model.memory["name"]
    if _decides_nothing(config):
        found.append(f"rounding.batches: memory {name!r} decides nothing; give 0")
    elif not has_actions(config):
        check_idle(found, "rounding", rounding, ("remove", "most_removals"), f"with memory {name}")
    return found


def decides(config: RunConfig) -> bool:
    """Whether the memory of a config decides something, which can be hardened."""
    memory = _memory(config)
    return memory is not None and any(head.can_harden for head in memory.heads)


def has_actions(config: RunConfig) -> bool:
    """Whether the memory of a config has actions, such as PUSH and POP, to look at."""
    return isinstance(_memory(config), SuperpositionMemory)


def _memory(config: RunConfig) -> Memory[Any, Any] | None:
    """The memory of a config; None where it has none, or one with faults."""
    try:
        return make_memory(config.model.memory, max(config.model.hidden_size, 1))
    except (ValueError, TypeError):
        return None
