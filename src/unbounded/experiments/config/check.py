"""Find all errors of a config at once; the task is built once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, pairwise
from typing import Any, Final

import torch

from unbounded.custom_components import NO_MEMORY
from unbounded.errors import ChoiceError, ConfigError, collected, did_you_mean, placed
from unbounded.evaluation.metric_sets import MetricSet, metric_set_of
from unbounded.experiments.config.check_training import (
    hardening_errors,
    hardening_of,
    per_symbol_update_errors,
    temperature_errors,
    training_errors,
)
from unbounded.experiments.config.components import CHOICES, component_errors
from unbounded.experiments.config.schema import (
    EvaluationConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
    to_dict,
)
from unbounded.kernels import gpu
from unbounded.models.inputs import bit_errors
from unbounded.models.memory_model import initialization_errors, map_errors
from unbounded.models.model_parts import (
    BASELINES_WITH_KERNEL,
    ONLY_BASELINES,
    changed_memory_errors,
    valid_memory,
)
from unbounded.models.sequence_model import dropout_errors, tie_errors
from unbounded.options import field_errors, field_kinds, value_error
from unbounded.tasks import TASKS, Batch, LengthRange, StreamTask, Task, make_task
from unbounded.training.hooks import STOPS

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
# Number of lengths to try, because a task has a shortest length and may have only even lengths.
_LOOKED_AT = 64
# Longer examples take seconds to draw, so only the task's own check is applied to their ranges.
_LONGEST_LOOKED_AT = 10_000

#: Errors of checked ranges: (task, options, data, option, range, split) -> lines.
_TriedRanges = dict[tuple[str, ...], list[str]]


def examine(config: RunConfig, tried: _TriedRanges | None = None) -> tuple[Task | None, list[str]]:
    """The task of a config, None if it cannot be built, and all errors, one line each.

    Args:
        config: the config to check.
        tried: errors of ranges already checked for other configs; these are not checked again.
    """
    found = field_errors(config)
    if isinstance(config.id, str) and not _ID.fullmatch(config.id):
        found.append(
            "id: expected at most 200 letters, digits, '-', '_' and '.', the first a letter or a "
            f"digit, got {config.id!r:.80}"
        )
    is_named = isinstance(config.task, dict) and isinstance(config.task.get("name"), str)
    lines: list[str] = []
    task = check_task(lines, lambda: build_task(config)) if is_named else None
    for line in lines:
        of_task = line.removeprefix("task: ")
        found += [line] if of_task == line else placed([of_task], "task", config.task)
    on_gpu = config.hardware.device in ("auto", "cuda") and torch.cuda.is_available()
    wrong = {
        place: component_errors(config, place, "cuda" if on_gpu else "cpu")
        for place in CHOICES
        if place != "task"
    }
    found += [line for place in CHOICES for line in wrong.get(place, ())]
    if found:  # the remaining checks compare options with each other
        return task, found
    found += model_errors(config.model)
    found += training_errors(config.training)
    named = config.evaluation.get("lengths")
    if isinstance(named, list) and all(isinstance(text, str) for text in named):
        with collected(found, "evaluation.lengths"):
            ranges(named)
    if config.hardware.backend in ("cpu", "cuda") and (reason := _why_no_kernels(config)):
        found.append(f"hardware.backend: {reason}; give auto or reference")
    found += per_symbol_update_errors(config)
    found += temperature_errors(config)
    if task is not None:
        found += _task_errors(config, task, {} if tried is None else tried)
    return task, found


def _why_no_kernels(config: RunConfig) -> str | None:
    """The reason why a named device's kernels cannot serve a run; None if they can."""
    backend, device = config.hardware.backend, config.hardware.device
    controller = config.model.controller["name"]
    if controller in BASELINES_WITH_KERNEL and backend == "cuda":
        return f"the kernel of {controller} is for cpu"
    if controller in ONLY_BASELINES and controller not in BASELINES_WITH_KERNEL:
        return f"no kernel is built for {controller}"
    if config.training.precision != "no":
        return "the kernels train in full precision only"
    if device not in ("auto", backend):
        return f"{backend} contradicts hardware.device {device}"
    if backend != "cuda":
        return None
    if (memory := config.model.memory["name"]) not in (*gpu.MEMORIES, "quiet_deque"):
        return f"no kernel for CUDA is built for memory {memory}"
    if not torch.cuda.is_available():
        return "cuda was asked for and torch finds no CUDA device"
    return gpu.why_not(None, torch.cuda.current_device())


def errors(config: RunConfig) -> list[str]:
    """All errors of a config, one line each; empty for a valid config."""
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
    """Check many configs. Equal ranges, and configs that differ only in the seed, are checked once.

    Raises:
        ConfigError: a config has errors; all errors of the first such config.
    """
    tried: _TriedRanges = {}
    sound: set[str] = set()
    for config in configs:
        found = field_errors(config)
        without_seed = json.dumps(
            {**to_dict(config), "id": None, "seed": None}, sort_keys=True, default=repr
        )
        if found or without_seed not in sound:
            found = examine(config, tried)[1]
        if found:
            raise ConfigError(found)
        sound.add(without_seed)


def check_task(found: list[str], build: Callable[[], Task]) -> Task | None:
    """Build a task, None on errors; errors of its corpus are reported under --data."""
    lines: list[str] = []
    task = None
    with collected(lines):
        task = build()
    found += [f"{'--' if line.startswith('data: ') else 'task: '}{line}" for line in lines]
    return task


def build_task(config: RunConfig) -> Task:
    """The task that a config names."""
    options = {name: value for name, value in config.task.items() if name != "name"}
    if config.hardware.data is not None:
        options["data"] = config.hardware.data
    return make_task(config.task["name"], **options)


def evaluation_of(config: RunConfig) -> EvaluationConfig:
    """The evaluation options of a checked config, completed with defaults."""
    return EvaluationConfig(**config.evaluation)


def model_errors(model: ModelConfig) -> list[str]:
    """Errors of a model's options that contradict each other, one line each."""
    found: list[str] = []
    memory = valid_memory(model.memory, model.hidden_size)
    if model.answer_writes is False and not (memory is not None and memory.write_strengths):
        found.append(
            f"model.answer_writes: memory {model.memory['name']!r} cannot be kept from writing; "
            "give null (no writes if the memory supports it) or true"
        )
    lines = initialization_errors(
        model.initialization,
        model.output_initialization,
        model.symbol_initialization,
        embedding_size=model.embedding_size,
        input_bits=model.input_bits,
    )
    lines += bit_errors(model.input_bits, model.embedding_size, model.input_number)
    lines += dropout_errors(model.dropout)
    if model.tied_embeddings:
        lines += tie_errors(0, 0, model.embedding_size)
    lines += map_errors(model.map_initial_state, model.learn_initial_state)
    return found + [f"model.{line}" for line in lines]


def ranges(texts: Iterable[str]) -> tuple[LengthRange, ...]:
    """Parse length ranges.

    One range may contain another, as 3:128 contains 8:64.

    Raises:
        ConfigError: ranges are malformed, reversed, equal or overlap in part; lists all errors.
    """
    found: list[str] = []
    parsed: list[LengthRange] = []
    texts = list(texts)
    if not texts:
        found.append("expected at least one range of lengths, such as 65:128, got none")
    for text in texts:
        with collected(found):
            parsed.append(LengthRange.parse(text))
    for left, right in combinations(sorted(parsed), 2):
        is_nested = right.maximum <= left.maximum or left.minimum == right.minimum
        if left == right or (right.minimum <= left.maximum and not is_nested):
            found.append(
                f"length ranges {left} and {right} overlap; one may only hold another whole"
            )
    if found:
        raise ConfigError(found)
    return tuple(parsed)


def _own_batch_errors(config: RunConfig, task: Task) -> list[str]:
    """Errors of the first batch of a custom task, at most one line."""
    what = f"task {config.task['name']!r}: the first batch"
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
    found = [] if config.task["name"] in TASKS else _own_batch_errors(config, task)
    if found:
        return found
    training, name = config.training, config.task["name"]
    try:
        metric_set = metric_set_of(task.metric_set)
    except (ChoiceError, ConfigError) as error:
        return [f"task: {error}"]
    if missing := [method for method in metric_set.needs if not hasattr(task, method)]:
        return [
            f"task {name!r}: metric set {task.metric_set!r} needs a task with "
            f"{' and '.join(missing)}; define {'them' if missing[1:] else 'it'}, or name another "
            "metric set"
        ]
    on_task = f"on task {name!r}"
    if task.has_further_loss and training.chunk_steps is not None:
        found.append(
            f"training.chunk_steps: the further loss {on_task} needs full strings; give null"
        )
    no_stops = {*metric_set.no_stops, *(() if _comes_to_one(task) else ("converged",))}
    if training.stop["name"] in no_stops:
        stops = [stop for stop in STOPS if stop not in no_stops]
        found.append(
            f"training.stop: {training.stop['name']!r} has no meaning {on_task}; choose "
            f"{' or '.join(stops)}"
        )
    noise = training.temperature_noise
    if noise["name"] != "none" and "below" not in noise and not _comes_to_one(task):
        found.append(
            "training.temperature_noise.below: the default loss is never reached "
            f"{on_task}, which is not determined; set it above the learned task's loss"
        )
    if "solved" in metric_set.no_stops:
        if training.accuracy_every:
            found.append(f"training.accuracy_every: has no effect {on_task}; give 0")
        if training.plateau.get("measure") == "errors":
            found.append(f"training.plateau.measure: errors has no meaning {on_task}; give loss")
    if config.model.answer_writes is False and task.answer_token is None:
        found.append(f"model.answer_writes: has no effect {on_task}; leave it at True")
    is_known = task.layout == "answer" and task.end_token is None and task.answer_token is not None
    if config.model.controller.get("bidirectional", False) and not is_known:
        found.append(
            f"model.controller.bidirectional: a step would see the answer {on_task}; leave it out, "
            "or take a task whose answers are not fed back and have no end, such as reverse_string"
        )
    wrong = evaluation_errors(config.evaluation, metric_set, on_task)
    if wrong:
        return found + wrong
    found += _nested_errors(config.evaluation, metric_set, on_task)
    found += _test_memory_errors(config)
    found += hardening_errors(config, metric_set)
    if task.has_lengths:
        return found + _range_errors(config, task, tried)
    without = TrainingConfig(
        lengths=None, validation_lengths=None, length_bucketing=1, curriculum={"name": "none"}
    )
    for option in ("lengths", "validation_lengths", "length_bucketing", "curriculum"):
        if getattr(training, option) != getattr(without, option):
            found.append(f"training.{option}: has no effect {on_task}; leave it out")
    return found


def _nested_errors(options: Mapping[str, Any], metric_set: MetricSet, on_task: str) -> list[str]:
    """One error if a range contains another and the metric set scores each length separately."""
    texts = options.get("lengths")
    if "every" not in metric_set.fields or not isinstance(texts, list):
        return []
    try:
        parsed = sorted(ranges(texts))
    except (ConfigError, TypeError):  # reported elsewhere
        return []
    return [
        f"evaluation.lengths: length ranges {left} and {right} overlap; each length has a number "
        f"of its own {on_task}"
        for left, right in pairwise(parsed)
        if right.minimum <= left.maximum
    ]


def _test_memory_errors(config: RunConfig) -> list[str]:
    """Errors of the memory options for the test."""
    options = evaluation_of(config).memory
    if options is None:
        return []
    if not options:
        return ["evaluation.memory: expected at least one option such as slots, or null"]
    if config.model.memory["name"] == NO_MEMORY:
        return ["evaluation.memory: the model has no memory; leave it out"]
    model = {"memory": config.model.memory, "hidden_size": config.model.hidden_size}
    return changed_memory_errors(model, options, "evaluation.memory")


def evaluation_errors(options: Mapping[str, Any], metric_set: MetricSet, on_task: str) -> list[str]:
    """Errors of evaluation options that the metric set does not have, or of a wrong type."""
    kinds = {name: field_kinds(EvaluationConfig)[name] for name in metric_set.fields}
    found = []
    for name, value in options.items():
        if name in kinds:
            error = value_error(f"evaluation.{name}", value, kinds[name])
            found += [error] if error else []
        else:
            hint = did_you_mean(name, kinds)
            valid = ", ".join(kinds)
            found.append(f"evaluation has no option {name!r} {on_task}.{hint} Valid: {valid}.")
    return found


def _range_errors(config: RunConfig, task: Task, tried: _TriedRanges) -> list[str]:
    """Errors of ranges without examples; malformed ranges are reported elsewhere."""
    drawn_from = (
        json.dumps(config.task, sort_keys=True, default=repr),
        str(config.hardware.data),
    )

    def errors_of(name: str, lengths: LengthRange, split: str) -> list[str]:
        key = (*drawn_from, name, str(lengths), split)
        if key not in tried:
            tried[key] = errors_of_range(task, name, lengths, split)
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
    if training.curriculum["name"] == "one_length":
        for length in range(
            trained.minimum, min(trained.maximum, trained.minimum + _LOOKED_AT) + 1
        ):
            alone = LengthRange(length, length)
            missing: list[str] = []
            with collected(missing):
                task.batch(0, "train", 0, 1, alone)
            if missing:
                return [
                    *found,
                    f"training.curriculum: one_length needs examples of every length of {trained}, "
                    f"and task {task.name!r} has none of {length}",
                ]
    return found


def errors_of_range(task: Task, name: str, lengths: LengthRange, split: str) -> list[str]:
    """Errors of a length range of a split, one line each.

    Args:
        task: a task with lengths.
        name: the option that has the range, for the messages.
        lengths, split: the examples that will be drawn.
    """
    found = [f"{name}: {line}" for line in task.range_errors(lengths)]
    # Two lengths suffice: a task has a shortest length, and may have only even lengths. The
    # examples of a file may have any lengths in the range.
    shortest = max(lengths.minimum + 1, task.shortest_in(lengths))
    first = LengthRange(lengths.minimum, min(shortest, lengths.maximum))
    looked_at = first if task.available(split, lengths) is None else lengths
    if not found and first.minimum <= _LONGEST_LOOKED_AT:
        # The number of sequences in a stream does not affect this check.
        short = task.with_sequences(2) if isinstance(task, StreamTask) else task
        with collected(found, name):
            short.batch(0, split, 0, 1, looked_at)
    return found


def _named_ranges(config: RunConfig) -> Iterator[tuple[str, str | None, str]]:
    """Yield the length ranges of a run as (option, range as text, split)."""
    training = config.training
    yield "training.lengths", training.lengths, "train"
    yield "training.validation_lengths", training.validation_lengths, "validation"
    for text in evaluation_of(config).lengths or ():
        yield "evaluation.lengths", text, "test"


def _multiples(config: RunConfig) -> Iterator[tuple[str, int, str]]:
    """Yield the multiples of the longest training length as (option, number, split)."""
    multiples = evaluation_of(config).multiples or ()
    several = [("evaluation.multiples", n, "test") for n in multiples]
    if (hardening := hardening_of(config)) is not None and hardening.far:
        several.append(("hardening.far", hardening.far, "validation"))
    yield from several
