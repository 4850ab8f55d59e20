"""From a config to its faults, its task and its model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Any

from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config import ModelConfig, RunConfig, TrainingConfig
from unbounded.layers import CONTROLLERS
from unbounded.memories import BACKENDS, MEMORIES
from unbounded.models.initialization import INITIALIZATIONS, OUTPUT_INITIALIZATIONS
from unbounded.models.transduction import NO_MEMORY, TransductionModel
from unbounded.tasks import LengthRange, Task, TransductionTask, make_task
from unbounded.training.optimizers import EPSILONS, OPTIMIZERS, SCHEDULES

STOPS = ("solved", "converged", "budget")
PRECISIONS = ("no", "bf16", "fp16")
DEVICES = ("auto", "cpu", "cuda")
MEMORY_NAMES = (NO_MEMORY, *MEMORIES)


def faults(config: RunConfig) -> list[str]:
    """Everything that is wrong with a config, one line each; empty when nothing is."""
    found: list[str] = []
    _try(found, "task", lambda: _transduction(config))
    _number(found, "seed", config.seed, 0, 2**63 - 1)
    _model_faults(found, config.model)
    _training_faults(found, config.training)
    _number(found, "evaluation.count", config.evaluation.count, 1, 1_000_000_000)
    _try(found, "evaluation.lengths", lambda: ranges(config.evaluation.lengths or ()))
    machine = config.machine
    _choice(found, "machine.device", "device", machine.device, DEVICES)
    _choice(found, "machine.backend", "backend", machine.backend, BACKENDS)
    if machine.threads is not None:
        _number(found, "machine.threads", machine.threads, 1, 4096)
    return found


def checked(config: RunConfig) -> RunConfig:
    """The config itself.

    Raises:
        ConfigError: it has faults; all of them together.
    """
    found = faults(config)
    if found:
        raise ConfigError(found)
    return config


def build_task(config: RunConfig) -> Task:
    """The task a config names."""
    return make_task(config.task, **config.task_options)


def build_model(config: RunConfig, task: Task) -> TransductionModel:
    """The model a config describes, for the vocabularies of its task, freshly initialised."""
    model = config.model
    return TransductionModel(
        input_vocabulary=len(task.input_vocabulary),
        output_vocabulary=len(task.output_vocabulary),
        memory=model.memory,
        controller=model.controller,
        hidden_size=model.hidden_size,
        memory_width=model.memory_width,
        embedding_size=model.embedding_size,
        layers=model.layers,
        skip_input=model.skip_input,
        learn_initial_state=model.learn_initial_state,
        pop_bias=model.pop_bias,
        initialization=model.initialization,
        output_initialization=model.output_initialization,
        backend=config.machine.backend,
    )


def _transduction(config: RunConfig) -> None:
    task = build_task(config)
    if not isinstance(task, TransductionTask):
        raise ConfigError(
            [
                f"{config.task!r} is a stream, and runs train sources with their targets; from "
                "Python, unbounded.training.loop.TrainingLoop(piece_steps=50) trains streams"
            ]
        )


def ranges(texts: Iterable[str]) -> tuple[LengthRange, ...]:
    """Length ranges from their text forms.

    Raises:
        ConfigError: one is malformed or reversed, or two overlap; all faults together.
    """
    found: list[str] = []
    parsed: list[LengthRange] = []
    for text in texts:
        try:
            parsed.append(LengthRange.parse(text))
        except ConfigError as error:
            found += error.faults
    in_order = sorted(parsed)
    for left, right in pairwise(in_order):
        if right.minimum <= left.maximum:
            found.append(f"length ranges {left} and {right} overlap; each length belongs to one")
    if found:
        raise ConfigError(found)
    return tuple(parsed)


def _model_faults(found: list[str], model: ModelConfig) -> None:
    _choice(found, "model.memory", "memory", model.memory, MEMORY_NAMES)
    _choice(found, "model.controller", "controller", model.controller, CONTROLLERS)
    for name in ("hidden_size", "memory_width", "embedding_size", "layers"):
        _number(found, f"model.{name}", getattr(model, name), 1, 1_000_000)
    _number(found, "model.pop_bias", model.pop_bias, -1e6, 1e6)
    for name, valid in (
        ("initialization", INITIALIZATIONS),
        ("output_initialization", OUTPUT_INITIALIZATIONS),
    ):
        _choice(found, f"model.{name}", name, getattr(model, name), valid)
    default = ModelConfig()
    without = model.memory == NO_MEMORY
    idle = ("controller", "memory_width", "pop_bias") if without else ("layers", "skip_input")
    found += [
        f"model.{name}: has no effect with memory {model.memory!r}; leave it at "
        f"{getattr(default, name)!r}"
        for name in idle
        if getattr(model, name) != getattr(default, name)
    ]


def _training_faults(found: list[str], training: TrainingConfig) -> None:
    _choice(found, "training.optimizer", "optimizer", training.optimizer, OPTIMIZERS)
    _choice(found, "training.schedule", "schedule", training.schedule, SCHEDULES)
    _choice(found, "training.stop", "stop rule", training.stop, STOPS)
    _choice(found, "training.precision", "precision", training.precision, PRECISIONS)
    whole = (
        "batches",
        "validate_every",
        "validation_count",
        "report_every",
        "accuracy_count",
        "checkpoint_every",
        "converged_reports",
    )
    for name in whole:
        _number(found, f"training.{name}", getattr(training, name), 1, 1_000_000_000)
    _number(found, "training.batch_size", training.batch_size, 1, 1_000_000)
    _number(found, "training.accuracy_every", training.accuracy_every, 0)
    _number(found, "training.learning_rate", training.learning_rate, 0, 1e3, above=True)
    if training.epsilon is not None:
        _number(found, "training.epsilon", training.epsilon, 0, 1e3, above=True)
        if training.optimizer in OPTIMIZERS and training.optimizer not in EPSILONS:
            found.append(f"training.epsilon: {training.optimizer} has none; leave it at null")
    _number(found, "training.clip", training.clip, 0, above=True)
    _number(found, "training.converged_perplexity", training.converged_perplexity, 1, above=True)
    if training.minutes is not None:
        _number(found, "training.minutes", training.minutes, 0, above=True)
    for name in ("lengths", "validation_lengths"):
        text = getattr(training, name)
        if text is not None:
            _try(found, f"training.{name}", partial(LengthRange.parse, text))


def _number(
    found: list[str],
    name: str,
    value: float,
    least: float,
    most: float = math.inf,
    above: bool = False,
) -> None:
    low = value > least if above else value >= least
    if not (low and value <= most and math.isfinite(value)):
        bound = f"above {least:g}" if above else f"at least {least:g}"
        if low and value > most:
            bound = f"at most {most:.15g}"
        found.append(f"{name}: expected a number {bound}, got {value!r}")


def _choice(found: list[str], name: str, kind: str, given: str, valid: Iterable[str]) -> None:
    names = list(valid)
    if given not in names:
        found.append(f"{name}: {ChoiceError(kind, given, names)}")


def _try(found: list[str], name: str, build: Callable[[], Any]) -> None:
    try:
        build()
    except ConfigError as error:
        found += [f"{name}: {fault}" for fault in error.faults]
    except ChoiceError as error:
        found.append(f"{name}: {error}")
