"""A model's data for a page: its structure as plain data, and its tensors by name."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.memories.as_data import memory_data
from unbounded.models.memory_model import MemoryModel
from unbounded.rnn import ControllerRNN, DeepLSTM, ElmanController, MemoryLayer, MemoryRNN
from unbounded.rnn.baselines import lstm_weights
from unbounded.rnn.controllers import Controller, GRUController, LSTMController

#: The controllers that the page supports.
CONTROLLERS: Final[dict[type[Controller], str]] = {
    LSTMController: "lstm",
    GRUController: "gru",
    ElmanController: "elman",
}
_OF_LSTM: Final = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def model_data(model: MemoryModel) -> dict[str, Any]:
    """The structure of a model as plain data.

    Raises:
        ConfigError: the page cannot run the model; the message names the component.
    """
    sequence = model.sequence
    layer = sequence.layer
    kind = "embedding" if sequence.embedding is not None else "one_hot"
    # "length_token" exists only if it is used, so that pages of other memories stay the same.
    own: dict[str, Any] = {"length_token": sequence.length_token} if sequence.uses_lengths else {}
    if sequence.input_number != "plain":
        own["input_number"] = sequence.input_number
    return {
        **own,
        "inputs": sequence.input_vocabulary,
        "outputs": sequence.output.weight.shape[0],
        "input": kind if sequence.input_bits is None else "bits",
        "input_bits": sequence.input_bits or 0,
        "read_only_token": sequence.read_only_token,
        "output_read_vector": isinstance(layer, MemoryRNN) and layer.output_read_vector,
        "controller": _controller_data(layer),
        "memory": memory_data(layer.memory) if isinstance(layer, MemoryRNN) else None,
    }


def model_tensors(model: MemoryModel) -> dict[str, Tensor]:
    """The weights of a model and its initial state, by their names in a page."""
    sequence, layer = model.sequence, model.sequence.layer
    tensors: dict[str, Tensor | None] = {}
    if sequence.embedding is not None:
        tensors["embedding"] = sequence.embedding.weight
    if isinstance(layer, DeepLSTM):
        for k, part in enumerate(layer.layers):
            for name, weight in zip(_OF_LSTM, lstm_weights(part), strict=True):
                tensors[f"controller.{k}.{name}"] = weight
        pairs = layer.initial_state(1)
        begin = (pairs[-1][0], *(tensor for pair in pairs for tensor in pair))
    part = layer.only_layer() if isinstance(layer, MemoryRNN) else layer
    if isinstance(part, MemoryLayer | ControllerRNN):
        for name in _OF_LSTM:
            tensors[f"controller.{name}"] = getattr(part.controller, name)
        begin = ()
    if isinstance(part, ControllerRNN):
        begin = part.initial_state(1)
    if isinstance(part, MemoryLayer):
        tensors["heads.weight"], tensors["heads.bias"] = part.heads.weight, part.heads.bias
        if part.readout is not None:
            tensors["readout.weight"] = part.readout.weight
            tensors["readout.bias"] = part.readout.bias
        with torch.no_grad():
            state = part.initial_state(1)
        begin = state.controller
        tensors["initial.reading"] = state.read_vector[0]
        for field, held in zip(part.memory.state_fields, state.memory, strict=True):
            tensors[f"initial.memory.{field.name}"] = held[0]
    for k, tensor in enumerate(begin):
        tensors[f"initial.controller.{k}"] = tensor[0]
    tensors["output.weight"], tensors["output.bias"] = sequence.output.weight, sequence.output.bias
    return {name: tensor.detach() for name, tensor in tensors.items() if tensor is not None}


def _controller_data(layer: nn.Module) -> dict[str, Any]:
    if isinstance(layer, DeepLSTM):
        layers, skips = layer.num_layers, layer.skip_input
        return {"kind": "deep_lstm", "activation": "", "layers": layers, "skip_input": skips}
    part = layer.only_layer() if isinstance(layer, MemoryRNN) else layer
    controller = part.controller if isinstance(part, MemoryLayer | ControllerRNN) else part
    name = next((name for kind, name in CONTROLLERS.items() if type(controller) is kind), None)
    if name is None:
        raise ConfigError(
            f"controller: the explorer page cannot run {type(controller).__name__}; it runs "
            f"{', '.join(CONTROLLERS.values())}, and shows traces of Transformer, DeltaNet and "
            "DeltaProduct"
        )
    activation = controller.activation if isinstance(controller, ElmanController) else ""
    return {"kind": name, "activation": activation, "layers": 1, "skip_input": False}
