"""Check that training, memory and hardening in a config fit each other."""

from __future__ import annotations

import math
from typing import Any

from unbounded.checks import check_choice
from unbounded.errors import collected
from unbounded.evaluation.metric_sets import MetricSet
from unbounded.experiments.config.components import build, option_at
from unbounded.experiments.config.schema import HardeningConfig, RunConfig, TrainingConfig
from unbounded.memories import Memory, SuperpositionMemory, TuringTape
from unbounded.models.model_parts import valid_memory
from unbounded.tasks import LengthRange
from unbounded.training.optimizers import OPTIMIZERS


def training_errors(training: TrainingConfig) -> list[str]:
    """Errors of training options that contradict each other.

    Args:
        training: has options of the right types and ranges.
    """
    found: list[str] = []
    for name in ("lengths", "validation_lengths"):
        text = getattr(training, name)
        if text is not None:
            with collected(found, f"training.{name}"):
                LengthRange.parse(text)
    if training.length_bucketing != 1:
        if training.chunk_steps is not None:
            found.append("training.length_bucketing: streams in chunks cannot be bucketed; give 1")
        if training.curriculum["name"] == "doubling":
            found.append(
                "training.length_bucketing: a doubling curriculum changes lengths at any batch; "
                f"expected 1, got {training.length_bucketing}"
            )
    is_cooling = training.schedule["name"] == "cooldown"
    if is_cooling and training.plateau["name"] != "none":
        found.append(
            "training.plateau: with schedule cooldown two rules would lower the rate; give "
            "--training.schedule constant, or no plateau"
        )
    if training.update == "per_symbol" and len(training.optimizer) > 1:
        found.append("training.optimizer: in a per-symbol update it has no options; leave them out")
    waits = {"training.patience": training.patience}
    if training.early_abort["name"] == "perplexity":
        waits["training.early_abort.after"] = training.early_abort.get("after", 0)
    found += [
        f"{name}: expected a multiple of training.report_every ({training.report_every}), got "
        f"{value}"
        for name, value in waits.items()
        if value % training.report_every
    ]
    return found + _smoothing_errors(training)


def _smoothing_errors(training: TrainingConfig) -> list[str]:
    """Errors of loss thresholds that training with smoothed labels cannot reach."""
    if not training.label_smoothing:
        return []
    # The lowest loss for two tokens, reached if the output equals the smoothed target. With more
    # tokens it is higher.
    least = -math.log(1 - training.label_smoothing / 2)
    waits = (
        ("stop", "converged", "perplexity", math.exp(least)),
        ("early_abort", "perplexity", "perplexity", math.exp(least)),
        ("curriculum", "doubling", "below", least),
    )
    found = []
    for choice, name, option, bound in waits:
        part = getattr(training, choice)
        if part["name"] != name:
            continue
        value = option_at(f"training.{choice}", part, option)
        if value <= bound:
            found.append(
                f"training.label_smoothing: with {training.label_smoothing:g} training cannot fall "
                f"below {bound:.3g}, and training.{choice}.{option} is {value:g}; give more, or 0 "
                "here"
            )
    return found


def per_symbol_update_errors(config: RunConfig) -> list[str]:
    """Errors of options that do not support a per-symbol update."""
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
        ("training.optimizer", training.optimizer["name"], "sgd"),
        ("training.clip_by", training.clip_by, "value"),
        ("training.label_smoothing", training.label_smoothing, 0.0),
        ("training.temperature_noise", training.temperature_noise["name"], "none"),
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
    if training.temperature_noise["name"] == "none" or not has_gates(config):
        return []
    if training.precision == "fp16":
        # During hardening, the inverse temperature is up to ten thousand times as large as in
        # training.
        found.append("training.temperature_noise: scaled logits exceed fp16; use bf16")
    is_unbounded = config.model.controller.get("activation") == "relu"
    if is_unbounded and training.temperature_noise.get("units", 1) != 1:
        found.append(
            "training.temperature_noise.units: needs bounded units, sigmoid or tanh; with "
            "activation relu give 1"
        )
    return found


def hardening_of(config: RunConfig) -> HardeningConfig | None:
    """The hardening of a checked config; None without hardening or without memory gates."""
    hardening: HardeningConfig | None = build("hardening", config.hardening)
    return hardening if has_gates(config) else None


def hardening_errors(config: RunConfig, metric_set: MetricSet) -> list[str]:
    """Errors of a hardening with valid options, on a task with this metric set."""
    found: list[str] = []
    hardening: HardeningConfig | None = build("hardening", config.hardening)
    if hardening is None:
        return []
    if hardening.optimizer is not None:
        with collected(found, "hardening.optimizer"):
            check_choice("optimizer", hardening.optimizer, OPTIMIZERS)
    if hardening.cool * hardening.every >= hardening.batches:
        found.append(
            f"hardening.cool: {hardening.cool} checks of {hardening.every} batches take all of "
            f"{hardening.batches}, so nothing is hardened; give fewer, or more batches"
        )
    if not metric_set.judges_hardening:
        task = config.task["name"]
        found.append(
            f"hardening: task {task!r} has no correct outputs by which a hardened model can be "
            "judged, so its models cannot be hardened"
        )
    return found


def has_gates(config: RunConfig) -> bool:
    """Whether the memory in a config has gates that can be hardened."""
    memory = _memory(config)
    return memory is not None and any(head.can_harden for head in memory.heads)


def has_actions(config: RunConfig) -> bool:
    """Whether the memory in a config has actions, such as PUSH and POP."""
    return isinstance(_memory(config), SuperpositionMemory)


def grows(config: RunConfig) -> bool:
    """Whether the memory in a config grows by a row at each step, without bound."""
    memory = _memory(config)
    fixed = isinstance(memory, TuringTape) or getattr(memory, "capacity", None) is not None
    return memory is not None and not fixed


def _memory(config: RunConfig) -> Memory[Any, Any] | None:
    return valid_memory(config.model.memory, max(config.model.hidden_size, 1))
