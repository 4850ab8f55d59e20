"""From a config to its faults, its task and its model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Any

from unbounded.errors import ConfigError
from unbounded.experiments.checking import check_builds, check_choice, check_number, check_task
from unbounded.experiments.config import RunConfig, TrainingConfig
from unbounded.experiments.kinds import Kind, Model, kind_of
from unbounded.memories import BACKENDS
from unbounded.tasks import TASKS, LengthRange, Task, make_task
from unbounded.training.optimizers import CLIPS, EPSILONS, OPTIMIZERS, SCHEDULES, UPDATES

STOPS = ("solved", "converged", "budget")
PRECISIONS = ("no", "bf16", "fp16")
DEVICES = ("auto", "cpu", "cuda")
CURRICULA = ("none", "growing")


def faults(config: RunConfig) -> list[str]:
    """Everything that is wrong with a config, one line each; empty when nothing is."""
    found: list[str] = []
    check_task(found, lambda: build_task(config))
    check_number(found, "seed", config.seed, 0, 2**63 - 1)
    for name in ("hidden_size", "memory_width", "embedding_size", "layers"):
        check_number(found, f"model.{name}", getattr(config.model, name), 1, 1_000_000)
    _training_faults(found, config.training)
    check_number(found, "evaluation.count", config.evaluation.count, 1, 1_000_000_000)
    check_builds(found, "evaluation.lengths", lambda: ranges(config.evaluation.lengths or ()))
    machine = config.machine
    check_choice(found, "machine.device", "device", machine.device, DEVICES)
    check_choice(found, "machine.backend", "backend", machine.backend, BACKENDS)
    if machine.threads is not None:
        check_number(found, "machine.threads", machine.threads, 1, 4096)
    # An unknown task's fields belong to no kind; a known one's, even if its options are wrong.
    if config.task in TASKS:
        found += kind_of(config.task).faults(config)
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
    options = dict(config.task_options)
    if config.machine.data is not None:
        options["data"] = config.machine.data
    return make_task(config.task, **options)


def build_model(config: RunConfig, task: Task) -> Model:
    """The model a config describes, for the vocabularies of its task, freshly initialised."""
    kind: Kind[Any] = kind_of(config.task)
    return kind.build_model(config, task)


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


def _training_faults(found: list[str], training: TrainingConfig) -> None:
    check_choice(found, "training.optimizer", "optimizer", training.optimizer, OPTIMIZERS)
    check_choice(found, "training.schedule", "schedule", training.schedule, SCHEDULES)
    check_choice(found, "training.stop", "stop rule", training.stop, STOPS)
    check_choice(found, "training.precision", "precision", training.precision, PRECISIONS)
    check_choice(found, "training.clip_by", "clip_by", training.clip_by, CLIPS)
    check_choice(found, "training.curriculum", "curriculum", training.curriculum, CURRICULA)
    check_choice(found, "training.update", "update", training.update, UPDATES)
    whole = (
        "batches",
        "validate_every",
        "validation_count",
        "report_every",
        "accuracy_count",
        "checkpoint_every",
        "converged_reports",
        "curriculum_every",
    )
    for name in whole:
        check_number(found, f"training.{name}", getattr(training, name), 1, 1_000_000_000)
    check_number(found, "training.batch_size", training.batch_size, 1, 1_000_000)
    for name in ("accuracy_every", "plateau_every", "plateau_hold"):
        check_number(found, f"training.{name}", getattr(training, name), 0)
    factor = training.plateau_factor
    check_number(found, "training.plateau_factor", factor, 0, 1, above=True)
    check_number(found, "training.plateau_least", training.plateau_least, 0)
    if training.piece_steps is not None:
        check_number(found, "training.piece_steps", training.piece_steps, 1)
    check_number(found, "training.learning_rate", training.learning_rate, 0, 1e3, above=True)
    if training.epsilon is not None:
        check_number(found, "training.epsilon", training.epsilon, 0, 1e3, above=True)
        if training.optimizer in OPTIMIZERS and training.optimizer not in EPSILONS:
            found.append(f"training.epsilon: {training.optimizer} has none; leave it at null")
    check_number(found, "training.clip", training.clip, 0, above=True)
    check_number(
        found, "training.converged_perplexity", training.converged_perplexity, 1, above=True
    )
    if training.minutes is not None:
        check_number(found, "training.minutes", training.minutes, 0, above=True)
    for name in ("lengths", "validation_lengths"):
        text = getattr(training, name)
        if text is not None:
            check_builds(found, f"training.{name}", partial(LengthRange.parse, text))
