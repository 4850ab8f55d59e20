"""Memories, controllers and baselines from a name and options, checked against their signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch import nn

from unbounded.checks import check_positive
from unbounded.errors import ChoiceError, ConfigError
from unbounded.layers import CONTROLLERS, SRCN, Controller, ControllerRNN, DeepLSTM, MemoryRNN
from unbounded.layers.named_controller import ControllerFactory
from unbounded.memories import MEMORIES, Memory
from unbounded.options import option_errors, options_of
from unbounded.own_parts import NO_MEMORY, find_part, part_of

#: A part as data: {"name": "queue", "width": 256}.
Part = Mapping[str, Any]

#: Layers that need no memory and take none: a deep LSTM, the structurally constrained network.
BASELINES: Final[dict[str, type[DeepLSTM] | type[SRCN]]] = {"lstm": DeepLSTM, "srcn": SRCN}

# Superposition stacks of Joulin & Mikolov 2015; a vector is as wide as the controller's output.
_COUNT = 10
#: Options of a controller or baseline that the layer gives, and no user.
OF_LAYER: Final = (
    "input_size",
    "hidden_size",
    "device",
    "dtype",
    "batch_first",
    "learn_initial_state",
    "backend",
)


def split_part(value: str | Part) -> tuple[Any, dict[str, Any]]:
    """The name of a part, and its options."""
    options = part_of(value)
    return options.pop("name", None), options


def memory_faults(part: str | Part, hidden_size: int) -> list[str]:
    """What is wrong with a memory's name and options, a line each."""
    name, options = split_part(part)
    if name == NO_MEMORY:
        return option_errors("memory 'none'", lambda: None, options)
    try:
        factory = part_factory("memory", name, None)
    except (ChoiceError, ConfigError) as error:
        return _texts(error)
    faults = option_errors(f"memory {name!r}", factory, options, filled=("width", "count"))
    if faults:
        return faults
    try:
        make_memory(part, hidden_size)
    except (ConfigError, ValueError, TypeError) as error:
        return _texts(error)
    return []


def can_read_only(part: str | Part, hidden_size: int) -> bool:
    """Whether a memory without faults can be kept from writing; a model without one cannot."""
    if split_part(part)[0] == NO_MEMORY or memory_faults(part, hidden_size):
        return False
    return bool(make_memory(part, hidden_size).write_strengths)


def controller_faults(part: str | Part, memory: Any) -> list[str]:
    """What is wrong with a controller's name and options beside the memory of that name."""
    name, options = split_part(part)
    if name == "srcn" and memory != NO_MEMORY:
        return [f"srcn has no memory beside it, got {memory!r}; give --model.memory none"]
    try:
        factory = part_factory("controller", memory, name)
    except (ChoiceError, ConfigError) as error:
        return _texts(error)
    faults = option_errors(f"controller {name!r}", factory, options, hidden=OF_LAYER)
    if faults:
        return faults
    if memory == NO_MEMORY and options.get("recurrent") is False:
        return ["recurrent: without it and a memory nothing is remembered; leave it out"]
    try:
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are thrown away
            factory(2, 2, **options)
    except (ConfigError, ValueError, TypeError) as error:
        return _texts(error)
    return []


def part_factory(kind: str, memory: Any, controller: Any) -> Callable[..., Any]:
    """What makes a memory, or a controller beside that memory.

    Args:
        kind: "memory" or "controller". memory, controller: names, or mappings with a name.
    Raises:
        ChoiceError, ConfigError: there is none of that name.
    """
    name, without = split_part(memory)[0], split_part(memory)[0] == NO_MEMORY
    if kind == "memory":
        return find_part("memory", name, {NO_MEMORY: Memory, **MEMORIES}, Memory)
    name = split_part(controller)[0]
    is_baseline = without and isinstance(name, str) and name in BASELINES
    return BASELINES[name] if is_baseline else _controller(name, without)


def make_memory(part: str | Part, hidden_size: int) -> Memory[Any, Any]:
    """The memory of that name; what has no default is as wide as the controller, and ten of them.

    Raises:
        ChoiceError, ConfigError: no memory has that name, or an option is unknown or missing.
        ShapeError: an option is out of range.
    """
    name, options = split_part(part)
    factory: Any = find_part("memory", name, MEMORIES, Memory)
    known = options_of(factory)
    filled = {"width": hidden_size, "count": _COUNT}
    left_out = {
        option: value
        for option, value in filled.items()
        if option in known and known[option].is_required
    }
    _refuse(option_errors(f"memory {name!r}", factory, options, filled=tuple(filled)))
    memory: Memory[Any, Any] = factory(**{**left_out, **options})
    return memory


def make_layer(
    memory: str | Part,
    controller: str | Part,
    input_size: int,
    hidden_size: int,
    readout_size: int | None,
    *,
    learn_initial_state: bool,
    output_reading: bool = False,
    backend: str,
) -> tuple[nn.Module, int]:
    """A batch-first layer: a controller with a memory, or a baseline without one.

    Returns:
        the layer, and the size of its output.
    Raises:
        ChoiceError, ConfigError, ShapeError: a name or an option is wrong.
    """
    check_positive("hidden_size", hidden_size)
    name, options = split_part(controller)
    without = split_part(memory)[0] == NO_MEMORY
    faults = controller_faults(controller, split_part(memory)[0])
    if without:
        faults += memory_faults(memory, hidden_size)
        if readout_size is not None:
            faults.append("readout_size: a layer without a memory has no readout; give null")
        if output_reading:
            faults.append("output_reading: a layer without a memory reads nothing; give false")
    _refuse(faults)
    common: dict[str, Any] = {
        "batch_first": True,
        "learn_initial_state": learn_initial_state,
        "backend": backend,
    }
    if without and name in BASELINES:
        layer = BASELINES[name](input_size, hidden_size, **options, **common)
        return layer, layer.output_size if isinstance(layer, SRCN) else hidden_size
    factory: ControllerFactory = partial(_controller(name, without), **options)
    if without:
        return ControllerRNN(input_size, hidden_size, factory, **common), hidden_size
    made = make_memory(memory, hidden_size)
    size = (
        hidden_size + made.reading_size * output_reading if readout_size is None else readout_size
    )
    layer_with_memory = MemoryRNN(
        input_size,
        hidden_size,
        made,
        factory,
        output_size=readout_size,
        output_reading=output_reading,
        **common,
    )
    return layer_with_memory, size


def _controller(name: Any, without_memory: bool) -> type[Controller]:
    known: dict[str, Any] = dict(CONTROLLERS)
    if without_memory:
        known = {**BASELINES, **known}
    return find_part("controller", name, known, Controller)


def _texts(error: Exception) -> list[str]:
    return list(error.faults) if isinstance(error, ConfigError) else [str(error)]


def _refuse(faults: list[str]) -> None:
    if faults:
        raise ConfigError(faults)
