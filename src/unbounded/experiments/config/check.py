"""Everything that is wrong with a config, found together, with its task built once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from unbounded.errors import ChoiceError, ConfigError
from unbounded.evaluation.scorings import Scoring, scoring_of
from unbounded.experiments.config.check_training import (
    STOPS,
    rounding_faults,
    sharpness_faults,
    symbol_update_faults,
    training_faults,
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
from unbounded.models.inputs import bit_faults
from unbounded.models.memory_model import initialization_faults, map_faults
from unbounded.models.model_parts import can_read_only, controller_faults, memory_faults
from unbounded.models.sequence_model import dropout_faults, tie_faults
from unbounded.options import field_errors
from unbounded.own_parts import NO_MEMORY
from unbounded.tasks import TASKS, Batch, LengthRange, StreamTask, Task, make_task
from unbounded.training.objective import CLIPPED

DEVICES = ("auto", "cpu", "cuda")
# So many lengths are tried: tasks have a shortest length, and some have even ones alone.
_LOOKED_AT = 64
# Of a longer one an example takes seconds; what its task says of the range has to do.
_LONGEST_LOOKED_AT = 10_000

#: The errors of ranges that were tried: (task, options, data, option, range, split) -> lines.
_TriedRanges = dict[tuple[str, ...], list[str]]


def _backend_faults(config: RunConfig, instead: str) -> list[str]:
    """Why the kernels of a device that was named cannot serve a run."""
    machine, memory = config.machine, config.model.memory
    backend, device = machine.backend, machine.device
    if device not in ("auto", backend):
        return [f"machine.backend: {backend} beside machine.device {device}{instead}"]
    if backend != "cuda":
        return []
    name = memory.get("name") if isinstance(memory, dict) else memory
    if name not in (*gpu.MEMORIES, "quiet_deque"):
        return [f"machine.backend: no kernel for CUDA is built for memory {name}{instead}"]
    if not torch.cuda.is_available():
        return [f"machine.backend: cuda was asked for and torch finds no CUDA device{instead}"]
    reason = gpu.why_not(None, torch.cuda.current_device())
    return [] if reason is None else [f"machine.backend: {reason}{instead}"]


def examine(config: RunConfig, tried: _TriedRanges | None = None) -> tuple[Task | None, list[str]]:
    """The task of a config, None where it cannot be built, and all faults, one line each.

    Args:
        config: what is checked.
        tried: the ranges that were tried for other configs; these are not drawn from again.
    """
    found = field_errors(config)
    if found:
        return None, found
    task = check_task(found, lambda: build_task(config))
    check_number(found, "seed", config.seed, 0, 2**63 - 1)
    found += model_faults(config.model)
    on_gpu = config.machine.device in ("auto", "cuda") and torch.cuda.is_available()
    found += training_faults(config.training, "cuda" if on_gpu else "cpu")
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
    machine = config.machine
    check_choice(found, "machine.device", "device", machine.device, DEVICES)
    check_choice(found, "machine.backend", "backend", machine.backend, BACKENDS)
    if machine.backend in ("cpu", "cuda"):
        instead = "; give auto or reference"
        if config.model.controller.get("name") == "srcn":
            found.append(f"machine.backend: no kernel is built for srcn{instead}")
        elif config.training.precision != "no":
            found.append(f"machine.backend: the kernels train in full precision alone{instead}")
        else:
            found += _backend_faults(config, instead)
    if machine.matmul_precision is not None:
        check_choice(
            found, "machine.matmul_precision", "precision", machine.matmul_precision, PRECISIONS
        )
    if machine.threads is not None:
        check_number(found, "machine.threads", machine.threads, 1, 4096)
    found += symbol_update_faults(config)
    found += sharpness_faults(config)
    if task is not None:
        found += _task_faults(config, task, {} if tried is None else tried)
    return task, found


def faults(config: RunConfig) -> list[str]:
    """Everything that is wrong with a config, one line each; empty when nothing is."""
    return examine(config)[1]


def checked(config: RunConfig) -> Task:
    """The task of a config without faults.

    Raises:
        ConfigError: it has faults; all of them together.
    """
    task, found = examine(config)
    if found or task is None:
        raise ConfigError(found)
    return task


def check_all(configs: Iterable[RunConfig]) -> None:
    """Check many configs: those that differ in their seed alone once, a range of a task once.

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
    if config.machine.data is not None:
        options["data"] = config.machine.data
    if "name" in options:  # which is no option, but the first argument of `make_task`
        raise ConfigError([f"task {config.task!r} has no option 'name'. It is given as the task."])
    return make_task(config.task, **options)


def model_faults(model: ModelConfig) -> list[str]:
    """What is wrong with a model, a line each, its parts held to their own signatures."""
    found: list[str] = []
    for name in ("hidden_size", "embedding_size", "readout_size"):
        value = getattr(model, name)
        if value is not None:
            check_number(found, f"model.{name}", value, 1, 1_000_000)
    memory = model.memory.get("name")
    memory_lines = memory_faults(model.memory, max(model.hidden_size, 1))
    able = can_read_only(model.memory, max(model.hidden_size, 1))
    if model.answer_writes is False and not memory_lines and not able:
        found.append(
            f"model.answer_writes: memory {memory!r} cannot be kept from writing; give null for no "
            "writes where the memory can, or true"
        )
    for part, lines in (
        ("memory", memory_lines),
        ("controller", controller_faults(model.controller, memory)),
    ):
        options = getattr(model, part)
        for line in lines:
            named = line.partition(":")[0] in options
            found.append(f"model.{part}{'.' if named else ': '}{line}")
    if memory == NO_MEMORY and model.readout_size is not None:
        found.append("model.readout_size: a layer without a memory has no readout; give null")
    if memory == NO_MEMORY and model.output_reading:
        found.append("model.output_reading: a layer without a memory reads nothing; give false")
    lines = initialization_faults(
        model.initialization,
        model.output_initialization,
        model.symbol_initialization,
        embedding_size=model.embedding_size,
        input_bits=model.input_bits,
    )
    lines += bit_faults(model.input_bits, model.embedding_size)
    lines += dropout_faults(model.dropout)
    if model.tied_embeddings:
        lines += tie_faults(0, 0, model.embedding_size)
    lines += map_faults(model.map_initial_state, model.learn_initial_state)
    return found + [f"model.{line}" for line in lines]


def ranges(texts: Iterable[str]) -> tuple[LengthRange, ...]:
    """Length ranges from their text forms.

    Raises:
        ConfigError: one is malformed or reversed, or two overlap; all faults together.
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
            found += error.faults
    in_order = sorted(parsed)
    for left, right in pairwise(in_order):
        if right.minimum <= left.maximum:
            found.append(f"length ranges {left} and {right} overlap; each length belongs to one")
    if found:
        raise ConfigError(found)
    return tuple(parsed)


def _own_batch_faults(config: RunConfig, task: Task) -> list[str]:
    """What is wrong with the first batch of a task of the user's own, a line or none."""
    what = f"task {config.task!r}: the first batch"
    try:
        batch: Any = task.batch(config.seed, "train", 0, 2)  # which may be anything
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
    """Whether the perplexity of training comes to 1: what it counts is determined."""
    return not (isinstance(task, StreamTask) and task.loss == "all")


def _task_faults(config: RunConfig, task: Task, tried: _TriedRanges) -> list[str]:
    """What does not go with the task and its scoring."""
    found = [] if config.task in TASKS else _own_batch_faults(config, task)
    if found:
        return found
    training = config.training
    try:
        scoring = scoring_of(task.scoring)
    except (ChoiceError, ConfigError) as error:
        return [f"task: {error}"]
    stops = [stop for stop in scoring.stops if stop != "converged" or _comes_to_one(task)]
    if training.stop in STOPS and training.stop not in stops:
        found.append(
            f"training.stop: {training.stop!r} has no meaning on task {config.task!r}; choose "
            f"{' or '.join(stops)}"
        )
    if training.random_sharpness != 1 and not _comes_to_one(task):
        usual = TrainingConfig().random_sharpness_below
        if training.random_sharpness_below == usual:
            found.append(
                f"training.random_sharpness_below: a loss of {usual:g} is never reached on task "
                f"{config.task!r}, which is not determined; set it above that of the learned task"
            )
    if "solved" not in scoring.stops and training.accuracy_every:
        found.append(f"training.accuracy_every: has no effect on task {config.task!r}; give 0")
    on_task = f"on task {config.task!r}"
    if training.plateau_measure == "errors" and "solved" not in scoring.stops:
        found.append(f"training.plateau_measure: errors has no meaning {on_task}; give loss")
    if config.model.answer_writes is False and task.answer_token is None:
        found.append(f"model.answer_writes: has no effect {on_task}; leave it at True")
    if task.objective not in CLIPPED:
        check_idle(found, "training", training, ("prediction_clip",), on_task)
    names = [name for name in vars(EvaluationConfig()) if name not in scoring.fields]
    check_idle(found, "evaluation", config.evaluation, names, on_task)
    if not task.has_lengths:
        idle = ("lengths", "validation_lengths", "curriculum", "deal")
        check_idle(found, "training", training, idle, on_task)
        return found + rounding_faults(config, scoring)
    return found + _range_faults(config, task, tried) + rounding_faults(config, scoring)


def _range_faults(config: RunConfig, task: Task, tried: _TriedRanges) -> list[str]:
    """Ranges of which the task has no example; what is no range is found elsewhere."""
    options = json.dumps(config.task_options, sort_keys=True, default=repr)
    drawn_from = (config.task, options, str(config.machine.data))

    def errors_of(name: str, lengths: LengthRange, split: str) -> list[str]:
        key = (*drawn_from, name, str(lengths), split)
        if key not in tried:
            tried[key] = _faults_of(task, name, lengths, split)
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
            f"{fault} ({times} times the longest of training; fewer will do, or none)"
            for fault in errors_of(name, LengthRange(longest, longest), split)
        ]
    if training.curriculum == "one_length":
        for length in range(
            trained.minimum, min(trained.maximum, trained.minimum + _LOOKED_AT) + 1
        ):
            alone = LengthRange(length, length)
            faulty: list[str] = []
            check_builds(faulty, "curriculum", partial(task.batch, 0, "train", 0, 1, alone))
            if faulty:
                return [
                    *found,
                    f"training.curriculum: one_length needs examples of every length of {trained}, "
                    f"and task {task.name!r} has none of {length}",
                ]
    return found


def _faults_of(task: Task, name: str, lengths: LengthRange, split: str) -> list[str]:
    """What is wrong with a range of a split, a line each."""
    found = [f"{name}: {fault}" for fault in task.range_faults(lengths)]
    # Its beginning is enough: tasks have a shortest length, and some have even ones alone. What a
    # file has may lie anywhere in it.
    first = LengthRange(lengths.minimum, min(lengths.minimum + 1, lengths.maximum))
    looked_at = first if task.available(split, lengths) is None else lengths
    if not found and first.minimum <= _LONGEST_LOOKED_AT:
        # The range decides, and not how many sequences a stream has.
        short = task.with_sequences(2) if isinstance(task, StreamTask) else task
        check_builds(found, name, partial(short.batch, 0, split, 0, 1, looked_at))
    return found


def _named_ranges(config: RunConfig) -> Iterator[tuple[str, str | None, str]]:
    """The ranges that a run draws from: the option, the range as text, the split."""
    training, evaluation = config.training, config.evaluation
    yield "training.lengths", training.lengths, "train"
    yield "training.validation_lengths", training.validation_lengths, "validation"
    for text in evaluation.lengths or ():
        yield "evaluation.lengths", text, "test"


def _multiples(config: RunConfig) -> Iterator[tuple[str, int, str]]:
    """So many times the longest of training: the option, the number, the split."""
    rounding = config.rounding
    several = [("evaluation.multiples", n, "test") for n in config.evaluation.multiples or ()]
    if rounding.batches:
        several.append(("rounding.far", rounding.far, "validation"))
    for name, times, split in several:
        if isinstance(times, int) and times > 0:  # another one is named elsewhere
            yield name, times, split


def scoring_faults(config: RunConfig, scoring: Scoring, names: Iterable[str]) -> list[str]:
    """Of these fields of the evaluation, those that mean nothing to a scoring; and bad counts."""
    found: list[str] = []
    idle = [name for name in names if name not in scoring.fields]
    check_idle(found, "evaluation", config.evaluation, idle, f"on task {config.task!r}")
    for name in ("count", "every", "streams"):
        check_number(found, f"evaluation.{name}", getattr(config.evaluation, name), 1)
    return found
