"""Check before a run whether it can fit into memory, because it would be killed otherwise.

All estimates are lower bounds, which omit most of the memory that a run needs. A refused run
certainly does not fit in memory. An accepted run may still be too large.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path

import torch
from torch import nn

from unbounded.errors import ConfigError
from unbounded.experiments.config.check import evaluation_of
from unbounded.experiments.config.schema import ModelConfig, RunConfig
from unbounded.experiments.run.plan import Plan
from unbounded.models.saved_model import without_weights
from unbounded.rnn import MemoryLayer
from unbounded.tasks import LengthRange, Task

# A token's input and target are int64, its mask is a byte; numbers are float32.
_TOKEN, _NUMBER = 17, 4
# Number of sequences to draw for an estimate of a batch's length.
_SOME = 8
#: Numbers that an optimizer stores per weight, where they are not two.
_KEPT = {"sgd": 1, "rmsprop": 1, "adagrad": 1}
#: Folder of the control groups, whose limits bound a process's memory, and file with this process's
#: groups.
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def check_ram(planned: Plan, device: torch.device, processes: int = 1) -> None:
    """Refuse a run that certainly does not fit into memory.

    Args:
        planned: the run.
        device: the model's device.
        processes: number of processes that share a batch; each has its own device, except on CPU.
    Raises:
        ConfigError: the run does not fit; the message names the number to lower.
    """
    config, task, training = planned.config, planned.task, planned.config.training
    with without_weights():
        model = planned.model()
        weights = sum(parameter.numel() for parameter in model.parameters())
    here, host = memory_of(device), memory_of(torch.device("cpu"))
    # Each weight with its gradient and the optimizer's numbers.
    needed: float = weights * _NUMBER * (2 + _KEPT.get(training.optimizer["name"], 2))
    sizes = _sizes(config.model)
    largest = max(sizes, key=lambda name: sizes[name])
    errors = _error(f"model.{largest}", sizes[largest], needed, here)

    size, on_cpu = training.batch_size, device.type == "cpu"
    share = size if on_cpu else size / processes
    # The memory's state at one step. The message names the largest size, because even a batch of 1
    # may be too large.
    of_memory = {name: value for name, value in sizes.items() if name.startswith("memory.")}
    if of_memory and not errors:
        largest = max(of_memory, key=lambda name: of_memory[name])
        needed += share * _state_numbers(model) * _NUMBER
        errors = _error(f"model.{largest}", of_memory[largest], needed, here)

    # The state of a single longer sequence, at the start of the test.
    of_longer = evaluation_of(config).memory or {}
    numbers_of_longer = {name: value for name, value in of_longer.items() if type(value) is int}
    if numbers_of_longer and not errors:
        memory = {**config.model.memory, **of_longer}
        longer = replace(config, model=replace(config.model, memory=memory))
        with without_weights():
            state = _state_numbers(replace(planned, config=longer).model()) * _NUMBER
        largest = max(numbers_of_longer, key=lambda name: numbers_of_longer[name])
        errors = _error(f"evaluation.memory.{largest}", numbers_of_longer[largest], state, here)

    steps = _steps(config, task, planned.train_lengths)
    chunk = min(steps, training.chunk_steps or steps)
    # The controller's output at each step, the logits, and their gradients.
    numbers = config.model.hidden_size + 2 * len(task.output_vocabulary)
    needed += share * chunk * numbers * _NUMBER
    tokens = size * steps * _TOKEN
    if not errors:
        errors = _error("training.batch_size", size, needed + tokens * on_cpu, here)
    if not errors and not on_cpu:
        errors = _error("training.batch_size", size, tokens, host)
    grows = _state_numbers(model, 1) > _state_numbers(model)
    if grows and not errors:
        needed = share * _state_numbers(model, int(chunk)) * _NUMBER
        options = [*of_memory, "training.batch_size"]
        errors = _state_error(options, int(chunk), needed, here)

    if task.has_lengths:
        validation = planned.validation_lengths
        counts = [("training.validation_count", training.validation_count, [validation])]
        if training.accuracy_every:
            counts.append(("training.accuracy_count", training.accuracy_count, [validation]))
        evaluation = evaluation_of(config)
        ranges = [LengthRange.parse(text) for text in evaluation.lengths or ()]
        counts.append(("evaluation.count", evaluation.count, ranges))
        if grows and not of_longer and not errors:
            longest = max(ranges or [task.test_lengths], key=lambda lengths: lengths.maximum)
            some = min(evaluation.count, _SOME)
            tested = task.batch(config.seed, "test", 0, some, longest).inputs.shape[1]
            needed = _state_numbers(model, tested) * _NUMBER
            errors = _state_error([*of_memory, "evaluation.lengths"], tested, needed, here)
        for name, count, own in counts:
            errors += count_errors(name, count, own)
    if errors:
        raise ConfigError(errors)


def _state_numbers(model: nn.Module, steps: int = 0) -> int:
    """The numbers in the states of a model's memories after some steps, for one sequence."""
    layers = [layer for layer in model.modules() if isinstance(layer, MemoryLayer)]
    fields = [field for layer in layers for field in layer.memory.state_fields]
    return sum(prod(field.with_rows(field.rows_after(field.rows, steps))) for field in fields)


def _sizes(model: ModelConfig) -> dict[str, int]:
    """The options that determine how many weights a model has."""
    sizes = {name: getattr(model, name) for name in ("hidden_size", "embedding_size")}
    for part in ("memory", "controller"):
        sizes |= {f"{part}.{name}": value for name, value in getattr(model, part).items()}
    # A capacity or a depth does not add weights.
    return {
        name: value
        for name, value in sizes.items()
        if type(value) is int and not name.endswith("capacity")
    }


def count_errors(name: str, count: int, lengths: Sequence[LengthRange]) -> list[str]:
    """Errors if the sequences to score at once do not fit into memory.

    Args:
        name: name of the option, for the message.
        count: number of sequences.
        lengths: length ranges; empty if unknown.
    """
    needed = count * max(map(_middle, lengths), default=1) * _TOKEN
    return _error(name, count, needed, memory_of(torch.device("cpu")))


def memory_of(device: torch.device) -> float:
    """The upper limit in bytes of a process's memory and swap on a device; infinite if unknown."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    limits = [float("inf")]
    with suppress(OSError, ValueError, AttributeError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _swap())
    for limit in group_limits(_OWN_GROUPS, _GROUPS):
        with suppress(OSError, ValueError):
            limits.append(int(limit.read_text(encoding="ascii")) + _swap())
    return min(limits)


def group_limits(own: Path, root: Path) -> list[Path]:
    """The limit files of this process's control group and its ancestors.

    Args:
        own: /proc/self/cgroup, a line "0::/path" (version 2) or "4:memory:/path" (version 1) each.
        root: /sys/fs/cgroup. In a container the group's path may be missing, but the root exists.
    """
    files = [root / "memory.max", root / "memory" / "memory.limit_in_bytes"]
    with suppress(OSError, UnicodeDecodeError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            base, name = root, "memory.max"
            if controllers:
                if "memory" not in controllers.split(","):
                    continue
                base, name = root / "memory", "memory.limit_in_bytes"
            parts = [part for part in path.split("/") if part not in ("", "..")]
            groups = [base.joinpath(*parts[: k + 1]) for k in range(len(parts))]
            files += [group / name for group in groups]
    return files


def _swap() -> int:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("SwapTotal:"):
                return 1024 * int(line.split()[1])
    return 0


def _steps(config: RunConfig, task: Task, lengths: LengthRange) -> float:
    """A lower bound of the number of steps in a batch of the full training range."""
    size = config.training.batch_size
    if not task.has_lengths:
        # A batch of a text task is the full text.
        return task.batch(config.seed, "train", 0, 1).inputs.shape[1] / size
    # The drawn sequences are part of the batch, and the longest sequence sets the batch's length.
    return task.batch(config.seed, "train", 0, min(size, _SOME), lengths).inputs.shape[1]


def _middle(lengths: LengthRange) -> float:
    return (lengths.minimum + lengths.maximum) / 2


def _state_error(options: Sequence[str], steps: int, needed: float, there: float) -> list[str]:
    """The error if the states of a memory that grows do not fit after some steps."""
    if needed <= there:
        return []
    named = [f"model.{name}" if name.startswith("memory.") else name for name in options]
    return [
        f"model.memory: after {steps} steps its states would take at least {needed / 1e9:.0f} GB, "
        f"and there are {there / 1e9:.0f} GB in all; lower {' or '.join(named)}, or shorten the "
        "strings"
    ]


def _error(name: str, value: int, needed: float, there: float) -> list[str]:
    if needed <= there:
        return []
    return [
        f"{name}: {value} would take at least {needed / 1e9:.0f} GB of memory, and there are "
        f"{there / 1e9:.0f} GB in all; give a smaller number"
    ]
