"""Build memories, controllers and baselines from names and options, checked by signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch
from torch import nn

from unbounded.checks import check_positive
from unbounded.custom_components import NO_MEMORY, find_part, part_of
from unbounded.errors import ChoiceError, ConfigError, placed
from unbounded.memories import MEMORIES, Memory
from unbounded.memories.as_data import has_name
from unbounded.options import option_errors, options_of
from unbounded.rnn import (
    CONTROLLERS,
    SRCN,
    Controller,
    ControllerRNN,
    DeepLSTM,
    DeltaNet,
    DeltaProduct,
    MemoryRNN,
    Transformer,
)
from unbounded.rnn.controllers import ControllerFactory

#: A component as data: {"name": "queue", "width": 256}.
Part = Mapping[str, Any]

Baseline = type[DeepLSTM] | type[SRCN] | type[Transformer] | type[DeltaNet] | type[DeltaProduct]

#: The library's layers without a memory.
BASELINES: Final[dict[str, Baseline]] = {
    "lstm": DeepLSTM,
    "srcn": SRCN,
    "transformer": Transformer,
    "deltanet": DeltaNet,
    "deltaproduct": DeltaProduct,
}
#: Layers that are only baselines. Such layers do not accept a memory.
ONLY_BASELINES: Final = tuple(name for name in BASELINES if name not in CONTROLLERS)
#: The ones with a kernel, which is for the CPU.
BASELINES_WITH_KERNEL: Final = ("deltanet", "deltaproduct")

# Superposition stacks of Joulin & Mikolov 2015; other memories are as wide as the controller.
_COUNT = 10
#: Options of a controller or baseline that the layer sets, not the user.
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
    """The name of a component, and its options."""
    options = part_of(value)
    return options.pop("name", None), options


def memory_errors(part: str | Part, hidden_size: int) -> list[str]:
    """The errors of a memory's name and options, one per line."""
    name, options = split_part(part)
    if name == NO_MEMORY:
        return option_errors("memory 'none'", lambda: None, options)
    try:
        factory = memory_factory(name)
    except (ChoiceError, ConfigError) as error:
        return _texts(error)
    errors = option_errors(f"memory {name!r}", factory, options, filled=("width", "count"))
    if errors:
        return errors
    try:
        make_memory(part, hidden_size)
    except (ConfigError, ValueError, TypeError) as error:
        return _texts(error)
    return []


def changed_memory_errors(
    model: Mapping[str, Any], options: Mapping[str, Any], place: str
) -> list[str]:
    """The errors of options that shall change a trained model's memory, but no parameter.

    Args:
        model: the model's "memory" (not "none") and "hidden_size".
        options: memory options by name. place: of the options, for the messages.
    """
    memory, width = model["memory"], model["hidden_size"]
    errors = memory_errors({**memory, **options}, width)
    if errors:
        return placed(errors, place, options)
    return [
        f"{place}.{option}: changes the parameters of the run; to score a run, give only options "
        "that change none"
        for option, value in options.items()
        if _parameters(make_memory({**memory, option: value}, width))
        != _parameters(make_memory(memory, width))
    ]


def _parameters(memory: Memory[Any, Any]) -> list[Any]:
    """All of a memory on which the parameters and buffers of a layer depend."""
    heads = [(head.name, head.shape) for head in memory.heads]
    learned = [(field.name, field.initial_shape) for field in memory.learned_fields]
    return [heads, memory.read_vector_size, learned, memory.writes_first]


def valid_memory(part: str | Part, hidden_size: int) -> Memory[Any, Any] | None:
    """Create a memory by name; None for no memory, and for a memory with errors."""
    if split_part(part)[0] == NO_MEMORY or memory_errors(part, hidden_size):
        return None
    return make_memory(part, hidden_size)


def can_be_shown(part: str | Part, hidden_size: int) -> bool:
    """Whether the explorer supports a memory; True without a memory."""
    memory = valid_memory(part, hidden_size)
    return memory is None or has_name(memory)


def controller_errors(part: str | Part, memory: Any, hidden_size: int) -> list[str]:
    """The errors of a controller's name and options, given the name of the memory."""
    name, options = split_part(part)
    try:
        factory = controller_factory(name, memory)
    except (ChoiceError, ConfigError) as error:
        return _texts(error)
    if "memory" in options_of(factory) and isinstance(options.get("memory"), str | Mapping):
        if errors := memory_errors(options["memory"], hidden_size):
            return [f"memory: {error}" for error in errors]
        options = _with_memory(options, hidden_size)
    errors = option_errors(f"controller {name!r}", factory, options, hidden=OF_LAYER)
    if errors:
        return errors
    if memory == NO_MEMORY and options.get("recurrent") is False:
        return ["recurrent: without it and a memory nothing is remembered; leave it out"]
    try:
        if name in ONLY_BASELINES:  # a baseline's sizes must fit each other
            with torch.device("meta"):
                factory(2, hidden_size, **options)
            return []
        with torch.random.fork_rng(devices=[]):  # the drawn weights are discarded
            factory(2, 2, **options)
    except (ConfigError, ValueError, TypeError) as error:
        return _texts(error)
    return []


def memory_factory(name: Any) -> Callable[..., Any]:
    """The class or callable of a memory.

    Raises:
        ChoiceError, ConfigError: an unknown name.
    """
    return find_part("memory", name, {NO_MEMORY: Memory, **MEMORIES}, Memory)


def controller_factory(name: Any, memory: Any) -> Callable[..., Any]:
    """The class or callable of a controller for a memory, a name or a mapping with a name.

    Without a memory, "lstm" and the names of other baselines are complete layers, such as DeepLSTM;
    with one, "lstm" is the cell LSTMController.

    Raises:
        ChoiceError, ConfigError: an unknown name, or a baseline with a memory.
    """
    of_memory = split_part(memory)[0]
    if of_memory == NO_MEMORY and isinstance(name, str) and name in BASELINES:
        return BASELINES[name]
    return _controller(name, of_memory)


def make_memory(part: str | Part, hidden_size: int) -> Memory[Any, Any]:
    """Create a memory by name.

    Required sizes default to the controller's width, and to a count of 10.

    Raises:
        ChoiceError, ConfigError: an unknown name, or an unknown or missing option.
        ShapeError: an option is out of range, or a custom memory's declaration has errors.
        DTypeError: such a declaration is of another kind.
    """
    name, options = split_part(part)
    factory: Any = find_part("memory", name, MEMORIES, Memory)
    known = options_of(factory)
    defaults = {"width": hidden_size, "count": _COUNT}
    required = {
        option: value
        for option, value in defaults.items()
        if option in known and known[option].is_required
    }
    _refuse(option_errors(f"memory {name!r}", factory, options, filled=tuple(defaults)))
    memory: Memory[Any, Any] = factory(**{**required, **options})
    memory.check_declarations()
    return memory


def make_layer(
    memory: str | Part,
    controller: str | Part,
    input_size: int,
    hidden_size: int,
    readout_size: int | None,
    *,
    learn_initial_state: bool,
    output_read_vector: bool = False,
    backend: str,
) -> tuple[nn.Module, int]:
    """Build a batch-first layer: a controller with a memory, or a baseline without a memory.

    Returns:
        the layer, and the size of its output.
    Raises:
        ChoiceError, ConfigError, ShapeError: an invalid name or option.
    """
    check_positive("hidden_size", hidden_size)
    name, options = split_part(controller)
    without = split_part(memory)[0] == NO_MEMORY
    errors = controller_errors(controller, split_part(memory)[0], hidden_size)
    if without:
        errors += memory_errors(memory, hidden_size)
        if readout_size is not None:
            errors.append("readout_size: a layer without a memory has no readout; give null")
        if output_read_vector:
            errors.append("output_read_vector: a layer without a memory reads nothing; give false")
    _refuse(errors)
    common: dict[str, Any] = {
        "batch_first": True,
        "learn_initial_state": learn_initial_state,
        "backend": backend,
    }
    if without and name in BASELINES:
        factory = BASELINES[name]
        # Networks of blocks have no initial state that can be learned.
        taken = {option: common[option] for option in options_of(factory) if option in common}
        options = _with_memory(options, hidden_size)
        layer = factory(input_size, hidden_size, **options, **taken)
        return layer, layer.output_size if isinstance(layer, SRCN) else hidden_size
    cell: ControllerFactory = partial(_controller(name, split_part(memory)[0]), **options)
    if without:
        return ControllerRNN(input_size, hidden_size, cell, **common), hidden_size
    memory_module = make_memory(memory, hidden_size)
    size = (
        hidden_size + memory_module.read_vector_size * output_read_vector
        if readout_size is None
        else readout_size
    )
    layer_with_memory = MemoryRNN(
        input_size,
        hidden_size,
        memory_module,
        cell,
        output_size=readout_size,
        output_read_vector=output_read_vector,
        **common,
    )
    return layer_with_memory, size


def _controller(name: Any, memory: Any) -> type[Controller]:
    """The class of a controller, given the name of the memory."""
    if name in ONLY_BASELINES and memory != NO_MEMORY:
        raise ConfigError(f"{name}: expected no memory, got {memory!r}; give --model.memory none")
    known: dict[str, Any] = {**BASELINES, **CONTROLLERS}
    return find_part("controller", name, known, Controller)


def _with_memory(options: dict[str, Any], hidden_size: int) -> dict[str, Any]:
    """The options of a Transformer, with the memory's name replaced by the memory itself."""
    part = options.get("memory")
    if not isinstance(part, str | Mapping):
        return options
    is_none = split_part(part)[0] == NO_MEMORY
    return {**options, "memory": None if is_none else make_memory(part, hidden_size)}


def _texts(error: Exception) -> list[str]:
    return list(error.errors) if isinstance(error, ConfigError) else [str(error)]


def _refuse(errors: list[str]) -> None:
    if errors:
        raise ConfigError(errors)
