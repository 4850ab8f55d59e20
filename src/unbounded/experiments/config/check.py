"""Find all errors of a config at once; the task is built once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from unbounded.custom_components import NO_MEMORY
from unbounded.errors import ChoiceError, ConfigError
from unbounded.evaluation.metric_sets import MetricSet, metric_set_of
from unbounded.experiments.config.check_training import (
    STOPS,
    hardening_errors,
    per_symbol_update_errors,
    temperature_errors,
    training_errors,
)
from unbounded.experiments.config.checking import (
    check_builds,
    check_choice,
    check_idle,
    check_number,
    check_task,
)
from unbounded.experiments.config.schema import (
    EvaluationConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
    to_dict,
)
from unbounded.kernels import PRECISIONS, gpu
from unbounded.memories import BACKENDS
from unbounded.models.inputs import bit_errors
from unbounded.models.memory_model import initialization_errors, map_errors
from unbounded.models.model_parts import can_read_only, controller_errors, memory_errors
from unbounded.models.sequence_model import dropout_errors, tie_errors
from unbounded.options import field_errors
from unbounded.tasks import TASKS, Batch, LengthRange, StreamTask, Task, make_task
from unbounded.training.objective import CLIPPED

DEVICES = ("auto", "cpu", "cuda")
# Number of lengths to try: tasks have a shortest length, and some have even ones only.
_LOOKED_AT = 64
# Longer examples take seconds; for these only the task's own check of the range is done.
_LONGEST_LOOKED_AT = 10_000

#: Errors of checked ranges: (task, options, data, option, range, split) -> lines.
_TriedRanges = dict[tuple[str, ...], list[str]]


def _backend_errors(config: RunConfig, instead: str) -> list[str]:
    """The reasons why a named device's kernels cannot serve a run."""
    hardware, memory = config.hardware, config.model.memory
    backend, device = hardware.backend, hardware.device
    if device not in ("auto", backend):
        return [f"hardware.backend: {backend} contradicts hardware.device {device}{instead}"]
    if backend != "cuda":
        return []
    name = memory.get("name") if isinstance(memory, dict) else memory
    if name not in (*gpu.MEMORIES, "quiet_deque"):
        return [f"hardware.backend: no kernel for CUDA is built for memory {name}{instead}"]
    if not torch.cuda.is_available():
        return [f"hardware.backend: cuda was asked for and torch finds no CUDA device{instead}"]
    reason = gpu.why_not(None, torch.cuda.current_device())
    return [] if reason is None else [f"hardware.backend: {reason}{instead}"]


def examine(config: RunConfig, tried: _TriedRanges | None = None) -> tuple[Task | None, list[str]]:
    """The task of a config, None if it cannot be built, and all errors, one line each.

    Args:
        config: the config to check.
        tried: errors of ranges already checked for other configs; these are not checked again.
    """
    found = field_errors(config)
    if found:
        return None, found
    task = check_task(found, lambda: build_task(config))
    check_number(found, "seed", config.seed, 0, 2**63 - 1)
    found += model_errors(config.model)
    on_gpu = config.hardware.device in ("auto", "cuda") and torch.cuda.is_available()
    found += training_errors(config.training, "cuda" if on_gpu else "cpu")
    check_number(found, "evaluation.count", config.evaluation.count, 1, 1_000_000_000)
    if config.evaluation.symbols is not None:
        check_number(found, "evaluation.symbols", config.evaluation.symbols, 1)
    for times in config.evaluation.multiples or ():
        check_number(found, "evaluation.multiples", times, 1, 10_000)
    check_number(found, "evaluation.every", config.evaluation.every, 1)
    check_number(found, "evaluation.streams", config.evaluation.streams, 1)
    named = config.evaluation.lengths
    if named is not None:
        check_builds(found, "evaluation.lengths", lambda: ranges(named))
    hardware = config.hardware
    check_choice(found, "hardware.device", "device", hardware.device, DEVICES)
    check_choice(found, "hardware.backend", "backend", hardware.backend, BACKENDS)
    if hardware.backend in ("cpu", "cuda"):
        instead = "; give auto or reference"
        if config.model.controller.get("name") == "srcn":
            found.append(f"hardware.backend: no kernel is built for srcn{instead}")
        elif config.training.precision != "no":
            found.append(f"hardware.backend: the kernels train in full precision only{instead}")
        else:
            found += _backend_errors(config, instead)
    if hardware.matmul_precision is not None:
        check_choice(
            found, "hardware.matmul_precision", "precision", hardware.matmul_precision, PRECISIONS
        )
    if hardware.threads is not None:
        check_number(found, "hardware.threads", hardware.threads, 1, 4096)
    found += per_symbol_update_errors(config)
    found += temperature_errors(config)
    if task is not None:
        found += _task_errors(config, task, {} if tried is None else tried)
    return task, found


def errors(config: RunConfig) -> list[str]:
    """All errors of a config, one line each; empty if there are none."""
    return examine(config)[1]


def checked(config: RunConfig) -> Task:
    """The task of a config without errors.

    Raises:
        ConfigError: the config has errors; lists all of them.
    """
    task, found = examine(config)
    if found or task is None:
        raise ConfigError(found)
    return task


def check_all(configs: Iterable[RunConfig]) -> None:
    """Check many configs; those that differ only in the seed, and repeated ranges, only once.

    Raises:
        ConfigError: a config has errors; all errors of the first such config.
    """
    tried: _TriedRanges = {}
    sound: set[str] = set()
    for config in configs:
        found: list[str] = []
        check_number(found, "seed", config.seed, 0, 2**63 - 1)
        without_seed = json.dumps({**to_dict(config), "seed": None}, sort_keys=True, default=repr)
        if found or without_seed not in sound:
            found = examine(config, tried)[1]
        if found:
            raise ConfigError(found)
        sound.add(without_seed)


def build_task(config: RunConfig) -> Task:
    """The task a config names."""
    options = dict(config.task_options)
    if config.hardware.data is not None:
        options["data"] = config.hardware.data
    if "name" in options:  # the first argument of `make_task`, not an option
        raise ConfigError([f"task {config.task!r} has no option 'name'. It is given as the task."])
    return make_task(config.task, **options)


def model_errors(model: ModelConfig) -> list[str]:
    """Errors of a model, one line each; its parts are checked by their own signatures."""
    found: list[str] = []
    for name in ("hidden_size", "embedding_size", "readout_size"):
        value = getattr(model, name)
        if value is not None:
            check_number(found, f"model.{name}", value, 1, 1_000_000)
    memory = model.memory.get("name")
    memory_lines = memory_errors(model.memory, max(model.hidden_size, 1))
    able = can_read_only(model.memory, max(model.hidden_size, 1))
    if model.answer_writes is False and not memory_lines and not able:
        found.append(
            f"model.answer_writes: memory {memory!r} cannot be kept from writing; give null (no "
            "writes if the memory supports it) or true"
        )
    for part, lines in (
        ("memory", memory_lines),
        ("controller", controller_errors(model.controller, memory)),
    ):
        options = getattr(model, part)
        for line in lines:
            named = line.partition(":")[0] in options
            found.append(f"model.{part}{'.' if named else ': '}{line}")
    if memory == NO_MEMORY and model.readout_size is not None:
        found.append("model.readout_size: a layer without a memory has no readout; give null")
    if memory == NO_MEMORY and model.output_read_vector:
        found.append("model.output_read_vector: a layer without a memory reads nothing; give false")
    lines = initialization_errors(
        model.initialization,
        model.output_initialization,
        model.symbol_initialization,
        embedding_size=model.embedding_size,
        input_bits=model.input_bits,
    )
    lines += bit_errors(model.input_bits, model.embedding_size)
    lines += dropout_errors(model.dropout)
    if model.tied_embeddings:
        lines += tie_errors(0, 0, model.embedding_size)
    lines += map_errors(model.map_initial_state, model.learn_initial_state)
    return found + [f"model.{line}" for line in lines]


def ranges(texts: Iterable[str]) -> tuple[LengthRange, ...]:
    """Length ranges from their text forms.

    Raises:
        ConfigError: ranges are malformed, reversed or overlap; lists all errors.
    """
    found: list[str] = []
    parsed: list[LengthRange] = []
    texts = list(texts)
    if not texts:
        found.append("expected at least one range of lengths, such as 65:128, got none")
    for text in texts:
        try:
            parsed.append(LengthRange.parse(text))
        except ConfigError as error:
            found += error.errors
    in_order = sorted(parsed)
    for left, right in pairwise(in_order):
        if right.minimum <= left.maximum:
            found.append(f"length ranges {left} and {right} overlap; each length belongs to one")
    if found:
        raise ConfigError(found)
    return tuple(parsed)


def _own_batch_errors(config: RunConfig, task: Task) -> list[str]:
    """Errors of the first batch of a custom task, at most one line."""
    what = f"task {config.task!r}: the first batch"
    try:
        batch: Any = task.batch(config.seed, "train", 0, 2)  # a custom task may return anything
    except (ConfigError, ChoiceError) as error:
        return [f"{what}: {error}"]
    if not isinstance(batch, Batch):
        return [f"{what}: expected a Batch, got {type(batch).__name__}"]
    for name, field in batch._asdict().items():
        if not isinstance(field, torch.Tensor):
            return [f"{what}: expected a tensor for {name}, got {type(field).__name__}"]
    axes = tuple(batch.inputs.shape)
    if len(axes) != 2 or not all(axes):
        return [f"{what}: expected inputs [B, T] of at least one step, got {list(axes)}"]
    for name, field, dtype, shape in (
        ("inputs", batch.inputs, torch.int64, axes),
        ("targets", batch.targets, torch.int64, axes),
        ("mask", batch.mask, torch.bool, axes),
        ("lengths", batch.lengths, torch.int64, axes[:1]),
    ):
        if field.dtype != dtype or tuple(field.shape) != shape:
            return [
                f"{what}: expected {name} {list(shape)} of {dtype}, got {list(field.shape)} of "
                f"{field.dtype}"
            ]
    if not bool(batch.mask.any()):
        return [f"{what}: no step counts; mask is False everywhere"]
    most = 2 ** len(task.output_vocabulary) if task.objective == "bits" else 2
    if task.objective == "cross_entropy":
        most = len(task.output_vocabulary)
    for name, values, least, end in (
        ("inputs", batch.inputs, 0, len(task.input_vocabulary)),
        ("targets", batch.targets[batch.mask], 0, most),
        ("lengths", batch.lengths, 1, axes[1] + 1),
    ):
        low, high = int(values.min()), int(values.max())
        if low < least or high >= end:
            return [f"{what}: expected {name} in {least}..{end - 1}, got {low} to {high}"]
    return []


def _comes_to_one(task: Task) -> bool:
    """Whether the training perplexity can reach 1, because the scored symbols are determined."""
    return not (isinstance(task, StreamTask) and task.loss == "all")


def _task_errors(config: RunConfig, task: Task, tried: _TriedRanges) -> list[str]:
    """Errors of options that do not fit the task and its metric set."""
    found = [] if config.task in TASKS else _own_batch_errors(config, task)
    if found:
        return found
    training = config.training
    try:
        metric_set = metric_set_of(task.metric_set)
    except (ChoiceError, ConfigError) as error:
        return [f"task: {error}"]
    stops = [stop for stop in metric_set.stops if stop != "converged" or _comes_to_one(task)]
    if training.stop in STOPS and training.stop not in stops:
        found.append(
            f"training.stop: {training.stop!r} has no meaning on task {config.task!r}; choose "
            f"{' or '.join(stops)}"
        )
    if training.temperature_noise != 1 and not _comes_to_one(task):
        usual = TrainingConfig().temperature_noise_below
        if training.temperature_noise_below == usual:
            found.append(
                f"training.temperature_noise_below: a loss of {usual:g} is never reached on task "
                f"{config.task!r}, which is not determined; set it above the learned task's loss"
            )
    if "solved" not in metric_set.stops and training.accuracy_every:
        found.append(f"training.accuracy_every: has no effect on task {config.task!r}; give 0")
    on_task = f"on task {config.task!r}"
    if training.plateau_measure == "errors" and "solved" not in metric_set.stops:
        found.append(f"training.plateau_measure: errors has no meaning {on_task}; give loss")
    if config.model.answer_writes is False and task.answer_token is None:
        found.append(f"model.answer_writes: has no effect {on_task}; leave it at True")
    if task.objective not in CLIPPED:
        check_idle(found, "training", training, ("prediction_clip",), on_task)
    names = [name for name in vars(EvaluationConfig()) if name not in metric_set.fields]
    check_idle(found, "evaluation", config.evaluation, names, on_task)
    if not task.has_lengths:
        idle = ("lengths", "validation_lengths", "curriculum", "length_bucketing")
        check_idle(found, "training", training, idle, on_task)
        return found + hardening_errors(config, metric_set)
    return found + _range_errors(config, task, tried) + hardening_errors(config, metric_set)


def _range_errors(config: RunConfig, task: Task, tried: _TriedRanges) -> list[str]:
    """Errors of ranges without examples; malformed ranges are reported elsewhere."""
    options = json.dumps(config.task_options, sort_keys=True, default=repr)
    drawn_from = (config.task, options, str(config.hardware.data))

    def errors_of(name: str, lengths: LengthRange, split: str) -> list[str]:
        key = (*drawn_from, name, str(lengths), split)
        if key not in tried:
            tried[key] = _errors_of(task, name, lengths, split)
        return tried[key]

    found: list[str] = []
    training = config.training
    try:
        trained = LengthRange.parse(training.lengths) if training.lengths else task.train_lengths
    except ConfigError:
        trained = None
    for name, text, split in _named_ranges(config):
        try:
            lengths = None if text is None else LengthRange.parse(text)
        except ConfigError:
            continue
        if lengths is not None:
            found += errors_of(name, lengths, split)
    if trained is None or found:
        return found
    for name, times, split in _multiples(config):
        longest = times * trained.maximum
        found += [
            f"{error} ({times} times the longest training length; give a smaller multiple or none)"
            for error in errors_of(name, LengthRange(longest, longest), split)
        ]
    if training.curriculum == "one_length":
        for length in range(
            trained.minimum, min(trained.maximum, trained.minimum + _LOOKED_AT) + 1
        ):
            alone = LengthRange(length, length)
            missing: list[str] = []
            check_builds(missing, "curriculum", partial(task.batch, 0, "train", 0, 1, alone))
            if missing:
                return [
                    *found,
                    f"training.curriculum: one_length needs examples of every length of {trained}, "
                    f"and task {task.name!r} has none of {length}",
                ]
    return found


def _errors_of(task: Task, name: str, lengths: LengthRange, split: str) -> list[str]:
    """Errors of a range of a split, one line each."""
    found = [f"{name}: {line}" for line in task.range_errors(lengths)]
    # Two lengths suffice: tasks have a shortest length, and some have even ones only. The examples
    # of a file may lie anywhere in the range.
    first = LengthRange(lengths.minimum, min(lengths.minimum + 1, lengths.maximum))
    looked_at = first if task.available(split, lengths) is None else lengths
    if not found and first.minimum <= _LONGEST_LOOKED_AT:
        # The number of sequences of a stream does not matter here.
        short = task.with_sequences(2) if isinstance(task, StreamTask) else task
        check_builds(found, name, partial(short.batch, 0, split, 0, 1, looked_at))
    return found


def _named_ranges(config: RunConfig) -> Iterator[tuple[str, str | None, str]]:
    """The ranges of a run: option, range as text, split."""
    training, evaluation = config.training, config.evaluation
    yield "training.lengths", training.lengths, "train"
    yield "training.validation_lengths", training.validation_lengths, "validation"
    for text in evaluation.lengths or ():
        yield "evaluation.lengths", text, "test"


def _multiples(config: RunConfig) -> Iterator[tuple[str, int, str]]:
    """The multiples of the longest training length: option, number, split."""
    hardening = config.hardening
    several = [("evaluation.multiples", n, "test") for n in config.evaluation.multiples or ()]
    if hardening.batches:
        several.append(("hardening.far", hardening.far, "validation"))
    for name, times, split in several:
        if isinstance(times, int) and times > 0:  # others are reported elsewhere
            yield name, times, split


def metric_set_errors(config: RunConfig, metric_set: MetricSet, names: Iterable[str]) -> list[str]:
    """Errors of evaluation fields that a metric set does not use, and of counts."""
    found: list[str] = []
    idle = [name for name in names if name not in metric_set.fields]
    check_idle(found, "evaluation", config.evaluation, idle, f"on task {config.task!r}")
    for name in ("count", "every", "streams"):
        check_number(found, f"evaluation.{name}", getattr(config.evaluation, name), 1)
    return found
