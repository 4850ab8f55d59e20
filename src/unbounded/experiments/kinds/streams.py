"""Streams: the tasks and models of Joulin & Mikolov 2015."""

from __future__ import annotations

import dataclasses
from typing import Any

from unbounded.errors import ChoiceError, ConfigError
from unbounded.evaluation import (
    StreamScore,
    score_lengths,
    score_streams,
    stream_loss,
    stream_row,
)
from unbounded.experiments.checking import check_choice, check_idle, check_number
from unbounded.experiments.config import ModelConfig, RunConfig
from unbounded.experiments.kinds.base import Judge, Kind, Model, Place, Sweep
from unbounded.layers import CONTROLLERS
from unbounded.memories import SUPERPOSITION_MEMORIES
from unbounded.models.initialization import SYMBOL_INITIALIZATIONS
from unbounded.models.stream import NO_MEMORY, SRCN_NAME, StreamModel
from unbounded.tasks import Batch, LengthRange, StreamTask, Task, make_task
from unbounded.training.optimizers import OPTIMIZERS

#: Validation sequences are shared among so many parallel streams.
VALIDATION_STREAMS = 32
_OF_MEMORY = ("count", "depth", "noop", "capacity", "overflow")
_NOT_HERE = (
    *("memory_width", "embedding_size", "skip_input", "learn_initial_state", "pop_bias"),
    *("initialization", "output_initialization"),
)


def stream_model_faults(model: ModelConfig) -> list[str]:
    """What is wrong with a model of streams or of a text."""
    found: list[str] = []
    names = (NO_MEMORY, *SUPERPOSITION_MEMORIES)
    controllers = (*CONTROLLERS, SRCN_NAME)
    check_choice(found, "model.controller", "controller", model.controller, controllers)
    if model.controller == SRCN_NAME and model.memory in SUPERPOSITION_MEMORIES:
        found.append(
            f"model.controller: srcn has no memory beside it, got {model.memory!r}; give "
            "--model.memory none"
        )
    if model.controller != SRCN_NAME:
        names_it = f"with controller {model.controller!r}"
        check_idle(found, "model", model, ("context_size",), names_it)
    elif model.context_size is not None:
        check_number(found, "model.context_size", model.context_size, 1)
    check_choice(found, "model.memory", "memory", model.memory, names)
    check_choice(
        found,
        "model.symbol_initialization",
        "symbol initialization",
        model.symbol_initialization,
        SYMBOL_INITIALIZATIONS,
    )
    check_idle(found, "model", model, _NOT_HERE, "on streams")
    if model.controller != "elman":
        check_idle(found, "model", model, ("recurrent",), f"with controller {model.controller!r}")
    if model.memory == NO_MEMORY:
        check_idle(found, "model", model, _OF_MEMORY, "with memory 'none'")
        if model.controller == "elman" and not model.recurrent:
            found.append(
                "model.recurrent: an elman controller without a memory remembers nothing without "
                "it; give true"
            )
        if model.controller != "lstm":
            check_idle(found, "model", model, ("layers",), f"with controller {model.controller!r}")
        return found
    check_idle(found, "model", model, ("layers",), f"with memory {model.memory!r}")
    for name in ("count", "depth"):
        check_number(found, f"model.{name}", getattr(model, name), 1)
    if model.memory in SUPERPOSITION_MEMORIES:
        made = SUPERPOSITION_MEMORIES[model.memory]
        check_choice(found, "model.overflow", "overflow", model.overflow, made.overflows)
        overflow = model.overflow if model.overflow in made.overflows else "error"
        try:
            # What was found above is not to hide what is wrong with the rest.
            made(max(model.count, 1), max(model.depth, 1), model.noop, model.capacity, overflow)
        except (ConfigError, ValueError) as error:
            faults = error.faults if isinstance(error, ConfigError) else (str(error),)
            found += [f"model.{fault}" for fault in faults]
    return found


def build_stream_model(config: RunConfig, task: Task) -> StreamModel:
    """The model of streams or of a text that a config describes, freshly initialised."""
    model = config.model
    return StreamModel(
        vocabulary=len(task.input_vocabulary),
        memory=model.memory,
        controller=model.controller,
        hidden_size=model.hidden_size,
        recurrent=model.recurrent,
        count=model.count,
        depth=model.depth,
        noop=model.noop,
        capacity=model.capacity,
        overflow=model.overflow,
        layers=model.layers,
        context_size=model.context_size,
        symbol_initialization=model.symbol_initialization,
        backend=config.machine.backend,
    )


def symbol_update_faults(config: RunConfig) -> list[str]:
    """What does not go with an update after every symbol."""
    training, model = config.training, config.model
    if training.update != "symbol":
        return []
    needed = [
        ("model.memory", model.memory, "superposition_stack"),
        ("model.controller", model.controller, "elman"),
        ("training.batch_size", training.batch_size, 1),
        ("training.optimizer", training.optimizer, "sgd"),
        ("training.clip_by", training.clip_by, "value"),
    ]
    found = [
        f"{name}: an update after every symbol needs {want!r}, got {got!r}"
        for name, got, want in needed
        if got != want
    ]
    if config.machine.device == "cuda":
        found.append("machine.device: an update after every symbol is made on the CPU; give cpu")
    if model.capacity is None:
        found.append("model.capacity: an update after every symbol needs one; the authors have 200")
    if training.piece_steps is None:
        found.append(
            "training.piece_steps: an update after every symbol needs it, as the steps that its "
            "error goes back; the authors have 50"
        )
    return found


def rounding_faults(config: RunConfig) -> list[str]:
    """What is wrong with the rounding of a config."""
    found: list[str] = []
    rounding = config.rounding
    if rounding.batches == 0:
        names = [each.name for each in dataclasses.fields(rounding) if each.name != "batches"]
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
    if config.model.memory not in SUPERPOSITION_MEMORIES:
        found.append(
            f"rounding.batches: memory {config.model.memory!r} has no actions to round; give 0"
        )
    return found


class StreamsKind(Kind[StreamTask]):
    """Runs that train streams of sequences."""

    name = "streams"
    model = StreamModel

    def faults(self, config: RunConfig) -> list[str]:
        """See `Kind.faults`."""
        found = stream_model_faults(config.model) + symbol_update_faults(config)
        training = config.training
        if training.stop == "converged":
            found.append(
                "training.stop: streams are never wholly determined, so their perplexity does not "
                "converge to 1; choose solved or budget"
            )
        found += _below(config) + rounding_faults(config)
        if training.curriculum != "growing":
            idle = ("curriculum_every", "curriculum_first")
            check_idle(found, "training", training, idle, f"with curriculum {training.curriculum}")
        if not training.plateau_every:
            idle_too = ("plateau_hold", "plateau_factor", "plateau_least")
            check_idle(found, "training", training, idle_too, "without plateau_every")
        check_number(found, "evaluation.every", config.evaluation.every, 1)
        check_number(found, "evaluation.streams", config.evaluation.streams, 1)
        return found

    def build_model(self, config: RunConfig, task: StreamTask) -> StreamModel:
        """See `Kind.build_model`."""
        return build_stream_model(config, task)

    def validation_lengths(self, config: RunConfig, task: StreamTask) -> LengthRange:
        """The training range, unless another is named: longer sequences are for the test alone."""
        text = config.training.validation_lengths
        return LengthRange.parse(text) if text else self.train_lengths(config, task)

    def judge(self, config: RunConfig, task: StreamTask, model: Model, place: Place) -> Judge:
        """See `Kind.judge`."""
        return _StreamsJudge(self, config, task, model, place)

    def example(self, config: RunConfig, task: StreamTask) -> Batch:
        """Two short test sequences, one after the other."""
        shortest = self.train_lengths(config, task).minimum
        lengths = LengthRange(shortest, shortest + 2)
        return task.with_sequences(2).batch(config.seed, "test", 0, 1, lengths)


def _below(config: RunConfig) -> list[str]:
    """Ranges with an n that the grammar does not have; what is no range is found elsewhere."""
    try:
        task = make_task(config.task, **config.task_options)
    except (ConfigError, ChoiceError):
        return []
    if not isinstance(task, StreamTask):
        return []
    least, training = task.source.shortest, config.training
    named = [("training.lengths", training.lengths)]
    named += [("training.validation_lengths", training.validation_lengths)]
    named += [("evaluation.lengths", each) for each in config.evaluation.lengths or ()]
    found: list[str] = []
    first = training.curriculum_first
    try:
        trained = LengthRange.parse(training.lengths) if training.lengths else task.train_lengths
        if training.curriculum == "growing" and first is not None and first not in trained:
            found.append(f"training.curriculum_first: expected a length of {trained}, got {first}")
    except ConfigError:
        pass
    for name, text in named:
        try:
            short = text is not None and LengthRange.parse(text).minimum < least
        except ConfigError:
            continue
        if short:
            found.append(f"{name}: task {task.name} has no n below {least}, got {text}")
    return found


class _StreamsJudge(Judge):
    def __init__(
        self, kind: StreamsKind, config: RunConfig, task: StreamTask, model: Model, place: Place
    ) -> None:
        self._config = config
        self._task = task
        self._model = model
        self._place = place
        self._lengths = kind.validation_lengths(config, task)
        self._options: dict[str, Any] = {"device": place.device, "check": place.check}

    def assess(self, lengths: LengthRange, start: int, count: int) -> StreamScore:
        streams, sequences = shared(count, VALIDATION_STREAMS)
        task = self._task.with_sequences(sequences)
        judged = task.judged(self._config.seed, "validation", start, streams, lengths)
        return score_streams(self._model, judged, **self._options)

    def validate(self) -> float:
        streams, sequences = shared(self._config.training.validation_count, VALIDATION_STREAMS)
        task = self._task.with_sequences(sequences)
        batch = task.batch(self._config.seed, "validation", 0, streams, self._lengths)
        return stream_loss(self._model, batch, **self._options)

    def rows(self, sweep: Sweep) -> list[dict[str, Any]]:
        streams, sequences = shared(sweep.count, sweep.streams)
        task = self._task.with_sequences(sequences)
        rows = []
        for lengths in sweep.lengths or (self._task.test_lengths,):
            sweep.looking(str(lengths), sweep.count)
            chosen = range(lengths.minimum, lengths.maximum + 1, sweep.every)
            scores = score_lengths(
                self._model,
                task,
                chosen,
                seed=sweep.seed,
                split=sweep.split,
                streams=streams,
                carry=sweep.carry,
                **self._options,
            )
            rows.append(stream_row(lengths, sweep.every, scores))
        return rows

    def facts(self) -> dict[str, Any]:
        score = self.assess(self._lengths, 0, self._config.training.validation_count)
        return {
            "validation": {
                "lengths": str(self._lengths),
                "count": score.count,
                "right": score.right,
                "accuracy_coarse": score.coarse,
                "accuracy_symbols": score.fine,
                "nats_per_token": self.validate(),
                "determined_nats_per_token": score.nats,
            }
        }


def shared(count: int, streams: int) -> tuple[int, int]:
    """Parallel streams, and sequences of each, that score at least `count` sequences.

    The last sequence of a stream is not scored.
    """
    used = min(count, streams)
    return used, -(-count // used) + 1
