"""A model as a page knows it: what it is made of as plain data, and its tensors by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.layers import ControllerRNN, DeepLSTM, ElmanController, MemoryRNN
from unbounded.layers.controllers import Controller, GRUController, LSTMController
from unbounded.memories import (
    LieAccessMemory,
    Memory,
    NeuralDeque,
    NeuralQueue,
    NeuralStack,
    SuperpositionList,
    SuperpositionStack,
    TuringTape,
)
from unbounded.memories.lie_access import STEPS
from unbounded.memories.tape_variants import VARIANTS
from unbounded.models.memory_model import MemoryModel

Options = dict[str, float | str | bool | None]

#: The memories that the page runs, each with its name there and the options that it needs.
KINDS: Final[dict[type[Memory[Any, Any]], tuple[str, Callable[[Any], Options]]]] = {
    NeuralStack: ("stack", lambda memory: {"width": memory.width}),
    NeuralQueue: ("queue", lambda memory: {"width": memory.width}),
    NeuralDeque: ("deque", lambda memory: {"width": memory.width}),
    SuperpositionStack: ("superposition_stack", lambda memory: _cells(memory)),
    SuperpositionList: ("superposition_list", lambda memory: _cells(memory)),
    TuringTape: (
        "turing_tape",
        lambda memory: {
            "slots": memory.slots,
            "width": memory.width,
            "read_heads": memory.read_heads,
            "write_heads": memory.write_heads,
            "circular": memory.shift == "circular",
            "reads_before": memory.reads == "before",
            "floor": VARIANTS[memory.variant].floor,
        },
    ),
    LieAccessMemory: (
        "lie_access",
        lambda memory: {
            "width": memory.width,
            "group": memory.group.name,
            "key_size": memory.group.key_size,
            "weighting": memory.weighting,
            "length_floor": STEPS[memory.step_length],
            "capacity": memory.capacity,
            "drop": memory.drop,
        },
    ),
}

#: The controllers that the page runs.
CONTROLLERS: Final[dict[type[Controller], str]] = {
    LSTMController: "lstm",
    GRUController: "gru",
    ElmanController: "elman",
}
_OF_LSTM: Final = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def model_data(model: MemoryModel) -> dict[str, Any]:
    """What a model is made of, as plain data.

    Raises:
        ConfigError: the page cannot run it; the message says which part.
    """
    sequence = model.sequence
    layer = sequence.layer
    kind = "embedding" if sequence.embedding is not None else "one_hot"
    return {
        "inputs": sequence.input_vocabulary,
        "outputs": sequence.output.weight.shape[0],
        "input": kind if sequence.input_bits is None else "bits",
        "input_bits": sequence.input_bits or 0,
        "read_only_token": sequence.read_only_token,
        "controller": _controller_data(layer),
        "memory": memory_data(layer.memory) if isinstance(layer, MemoryRNN) else None,
    }


def memory_data(memory: Memory[Any, Any]) -> dict[str, Any]:
    """What a memory declares and its options, as plain data.

    Raises:
        ConfigError: the page does not know it.
    """
    if type(memory) not in KINDS:
        raise ConfigError(
            [
                f"memory: the page has no {type(memory).__name__}; it has "
                f"{', '.join(name for name, _ in KINDS.values())}"
            ]
        )
    name, options = KINDS[type(memory)]
    heads = [
        {
            "name": head.name,
            "shape": list(head.shape),
            "activation": head.activation,
            "decision": head.decision,
        }
        for head in memory.heads
    ]
    return {
        "kind": name,
        "options": options(memory),
        "heads": heads,
        "write_strengths": list(memory.write_strengths),
    }


def model_tensors(model: MemoryModel) -> dict[str, Tensor]:
    """The weights of a model by their names in a page, and the state in which it begins."""
    sequence, layer = model.sequence, model.sequence.layer
    tensors: dict[str, Tensor | None] = {}
    if sequence.embedding is not None:
        tensors["embedding"] = sequence.embedding.weight
    if isinstance(layer, DeepLSTM):
        for k, part in enumerate(layer.layers):
            for name in _OF_LSTM:
                tensors[f"controller.{k}.{name}"] = part.get_parameter(f"{name}_l0")
        pairs = layer.initial_state(1)
        begin = (pairs[-1][0], *(tensor for pair in pairs for tensor in pair))
    elif isinstance(layer, MemoryRNN | ControllerRNN):
        for name in _OF_LSTM:
            tensors[f"controller.{name}"] = getattr(layer.controller, name)
        begin = ()
    if isinstance(layer, ControllerRNN):
        begin = layer.initial_state(1)
    if isinstance(layer, MemoryRNN):
        tensors["heads.weight"], tensors["heads.bias"] = layer.heads.weight, layer.heads.bias
        if layer.readout is not None:
            tensors["readout.weight"] = layer.readout.weight
            tensors["readout.bias"] = layer.readout.bias
        with torch.no_grad():
            state = layer.initial_loop_state(1)
        begin = state.controller
        tensors["initial.reading"] = state.reading[0]
        for field, held in zip(layer.memory.state_fields, state.memory, strict=True):
            tensors[f"initial.memory.{field.name}"] = held[0]
    for k, tensor in enumerate(begin):
        tensors[f"initial.controller.{k}"] = tensor[0]
    tensors["output.weight"], tensors["output.bias"] = sequence.output.weight, sequence.output.bias
    return {name: tensor.detach() for name, tensor in tensors.items() if tensor is not None}


def _controller_data(layer: nn.Module) -> dict[str, Any]:
    if isinstance(layer, DeepLSTM):
        layers, skips = layer.num_layers, layer.skip_input
        return {"kind": "deep_lstm", "activation": "", "layers": layers, "skip_input": skips}
    controller = layer.controller if isinstance(layer, MemoryRNN | ControllerRNN) else layer
    name = next((name for kind, name in CONTROLLERS.items() if type(controller) is kind), None)
    if name is None:
        raise ConfigError(
            [
                f"controller: the page has no {type(controller).__name__}; it has "
                f"{', '.join(CONTROLLERS.values())}"
            ]
        )
    activation = controller.activation if isinstance(controller, ElmanController) else ""
    return {"kind": name, "activation": activation, "layers": 1, "skip_input": False}


def _cells(memory: SuperpositionStack | SuperpositionList) -> Options:
    return {"count": memory.count, "depth": memory.depth, "capacity": memory.capacity}
