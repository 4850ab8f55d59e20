"""Whether a run can fit into memory at all: said before it begins, and not by being killed.

Everything here is a lower bound, and most of what a run needs is left out: what is refused surely
does not fit, what is not refused may still be too much.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from unbounded.errors import ConfigError
from unbounded.experiments.config.schema import ModelConfig, RunConfig
from unbounded.experiments.run.plan import Plan
from unbounded.models.without_weights import without_weights
from unbounded.tasks import LengthRange, Task

# A token's input and target are int64, its mask is a byte; numbers are float32.
_TOKEN, _NUMBER = 17, 4
# Sequences that are drawn to see how long a batch is.
_SOME = 8
#: Numbers that an optimizer keeps for each weight, where it is not one.
_KEPT = {"sgd": 1, "rmsprop": 1, "adagrad": 1}
#: Where control groups are, and what of theirs bounds a process's memory beside the machine's.
_GROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def check_ram(planned: Plan, device: torch.device, processes: int = 1) -> None:
    """Refuse a run that surely does not fit.

    Args:
        planned: the run.
        device: of the model.
        processes: that share a batch, each with a device of its own unless that is the CPU.
    Raises:
        ConfigError: it does not fit; the message says which number to lower.
    """
    config, task, training = planned.config, planned.task, planned.config.training
    with without_weights():
        weights = sum(parameter.numel() for parameter in planned.model().parameters())
    here, host = memory_of(device), memory_of(torch.device("cpu"))
    # Each with its gradient and what the optimizer keeps.
    needed: float = weights * _NUMBER * (2 + _KEPT.get(training.optimizer, 2))
    sizes = _sizes(config.model)
    largest = max(sizes, key=lambda name: sizes[name])
    found = _fault(f"model.{largest}", sizes[largest], needed, here)

    size, on_cpu = training.batch_size, device.type == "cpu"
    steps = _steps(config, task, planned.train_lengths)
    piece = min(steps, training.piece_steps or steps)
    # What the controller gives at each step, the logits, and their gradients.
    numbers = config.model.hidden_size + 2 * len(task.output_vocabulary)
    needed += (size if on_cpu else size / processes) * piece * numbers * _NUMBER
    tokens = size * steps * _TOKEN
    if not found:
        found = _fault("training.batch_size", size, needed + tokens * on_cpu, here)
    if not found and not on_cpu:
        found = _fault("training.batch_size", size, tokens, host)

    if task.has_lengths:
        validation = planned.validation_lengths
        counts = [("training.validation_count", training.validation_count, [validation])]
        if training.accuracy_every:
            counts.append(("training.accuracy_count", training.accuracy_count, [validation]))
        ranges = [LengthRange.parse(text) for text in config.evaluation.lengths or ()]
        counts.append(("evaluation.count", config.evaluation.count, ranges))
        for name, count, own in counts:
            found += count_faults(name, count, own)
    if found:
        raise ConfigError(found)


def _sizes(model: ModelConfig) -> dict[str, int]:
    """The numbers that a model's weights grow with."""
    sizes = {name: getattr(model, name) for name in ("hidden_size", "embedding_size")}
    for part in ("memory", "controller"):
        sizes |= {f"{part}.{name}": value for name, value in getattr(model, part).items()}
    # A capacity and a depth cost no weights.
    return {
        name: value
        for name, value in sizes.items()
        if type(value) is int and not name.endswith("capacity")
    }


def count_faults(name: str, count: int, lengths: Sequence[LengthRange]) -> list[str]:
    """What is wrong with a number of sequences that are drawn at once, to be scored.

    Args:
        name: of the number, for the message.
        count: sequences.
        lengths: ranges, of which the longest needs most; none where they are not known.
    """
    needed = count * max(map(_middle, lengths), default=1) * _TOKEN
    return _fault(name, count, needed, memory_of(torch.device("cpu")))


def memory_of(device: torch.device) -> float:
    """Bytes that a process can have on a device at the most, swap included; infinite if unknown."""
    if device.type == "cuda":
        return float(torch.cuda.get_device_properties(device).total_memory)
    found = [float("inf")]
    with suppress(OSError, ValueError, AttributeError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _swap())
    for limit in group_limits(_OWN_GROUPS, _GROUPS):
        with suppress(OSError, ValueError):
            found.append(int(limit.read_text(encoding="ascii")) + _swap())
    return min(found)


def group_limits(own: Path, root: Path) -> list[Path]:
    """The files that may bound this process: of its control group and of those above it.

    Args:
        own: /proc/self/cgroup, a line "0::/path" (version 2) or "4:memory:/path" (version 1) each.
        root: /sys/fs/cgroup. In a container the group's path may not be there; the root is then.
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
    """Steps of a batch of the whole training range, at the least."""
    size = config.training.batch_size
    if not task.has_lengths:
        # Of a text every batch is all of it.
        return task.batch(config.seed, "train", 0, 1).inputs.shape[1] / size
    # A batch is as long as the longest of its sequences, and these are among them.
    return task.batch(config.seed, "train", 0, min(size, _SOME), lengths).inputs.shape[1]


def _middle(lengths: LengthRange) -> float:
    return (lengths.minimum + lengths.maximum) / 2


def _fault(name: str, value: int, needed: float, there: float) -> list[str]:
    if needed <= there:
        return []
    return [
        f"{name}: {value} would take at least {needed / 1e9:.0f} GB of memory, and there are "
        f"{there / 1e9:.0f} GB in all; give a smaller number"
    ]
