"""The gates of a model over some sequences: their certainty and their means."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.checks import check_device, check_number
from unbounded.errors import ConfigError
from unbounded.memories import Head
from unbounded.models.discrete import deciding_layers, sequence_model
from unbounded.models.sequence_model import SequenceModel
from unbounded.rnn import MemoryRNN
from unbounded.rnn.read_only import silent_steps
from unbounded.rnn.room import drops_are_meant
from unbounded.tasks import Batch, chunks
from unbounded.tasks.batch import check_batch


class Certainty(NamedTuple):
    """Certainty of the gates of one head.

    Fields:
        least: smallest weight of a likelier choice, from 1 / choices to 1.
        unsaturated: number of gates with a certainty below the threshold.
        gates: number of gates checked.
    """

    least: float
    unsaturated: int
    gates: int


def least_saturated(
    model: nn.Module, batch: Batch, *, chunk_steps: int = 1000, device: torch.device | str = "cpu"
) -> float:
    """The certainty of the least saturated gate, which is 1 if all gates are 0 or 1.

    Args and errors are as for `certainties`.
    """
    by_head = certainties(model, batch, chunk_steps=chunk_steps, device=device)
    return min(certainty.least for certainty in by_head.values())


def certainties(
    model: nn.Module,
    batch: Batch,
    *,
    saturated: float = 0.999,
    chunk_steps: int = 1000,
    device: torch.device | str = "cpu",
) -> dict[str, Certainty]:
    """The certainty of the gates by name of head, over all steps of a batch.

    Instructions that an answer phase (`read_only_token`) suppresses do not count.

    Args:
        model: a SequenceModel, or a model with one, with a memory that has gates.
        batch: the sequences, run from empty memories to their ends.
        saturated: smallest certainty of a saturated gate.
        chunk_steps: steps of one call of the layer.
        device: device of the model.
    Raises:
        ConfigError: the model has no such memory, or several layers with one.
    """
    check_number("saturated", saturated)
    saturated = float(saturated)
    parts: dict[str, list[Certainty]] = {}
    for head, field, counts, _ in _gate_fields(model, batch, chunk_steps, device):
        certainty = head.certainty(field)[counts].flatten()
        if len(certainty):
            unsaturated = int((certainty < saturated).sum())
            part = Certainty(float(certainty.min()), unsaturated, len(certainty))
            parts.setdefault(head.name, []).append(part)
    return {
        name: Certainty(
            min(part.least for part in of_head),
            sum(part.unsaturated for part in of_head),
            sum(part.gates for part in of_head),
        )
        for name, of_head in parts.items()
    }


def mean_gates(
    model: nn.Module,
    batch: Batch,
    *,
    chunk_steps: int = 1000,
    device: torch.device | str = "cpu",
) -> dict[str, dict[str, Any]]:
    """The mean gates of each head, separately over steps that are not scored and scored steps.

    A stack is not used if its mean push is near 0 on the symbols that it should keep, even if all
    answers are correct. Instructions that an answer phase (`read_only_token`) suppresses do not
    count.

    Returns:
        "unscored" and "scored" (steps where the batch's mask is False and True; absent without such
        steps) -> name of a head -> the mean of its field: a number in [0, 1], or nested lists of
        the field's shape, such as one weight for each stack and action.

    Args and errors are as for `certainties`.
    """
    sums: dict[str, dict[str, tuple[Tensor, int]]] = {"unscored": {}, "scored": {}}
    for head, field, counts, mask in _gate_fields(model, batch, chunk_steps, device):
        for phase, steps in (("unscored", counts & ~mask), ("scored", counts & mask)):
            values = field[steps].double()  # [steps, *shape]
            if len(values):
                total, number = sums[phase].get(head.name, (0, 0))
                sums[phase][head.name] = (total + values.sum(dim=0), number + len(values))
    return {
        phase: {name: (total / number).tolist() for name, (total, number) in heads.items()}
        for phase, heads in sums.items()
        if heads
    }


def _gate_fields(
    model: nn.Module, batch: Batch, chunk_steps: int, device: torch.device | str
) -> Iterator[tuple[Head, Tensor, Tensor, Tensor]]:
    """Yield each head with gates and its field [B, T, *shape], for each chunk of a batch.

    Also yield two bool tensors [B, T]: the steps whose instruction the memory carried out, and the
    batch's mask.
    """
    check_batch(batch)
    device = check_device(device)
    layers, sequence = deciding_layers(model), sequence_model(model)
    if len(layers) > 1:
        raise ConfigError(f"model: expected one layer with a memory, got {len(layers)}")
    (layer,) = layers
    state: Any = sequence.started(batch.inputs.to(device), batch.lengths.to(device))
    for chunk in chunks(batch, chunk_steps):
        # If the capacity is too small, this is reported with the scores. On streams, the capacity
        # is that for the longest sequence.
        with torch.no_grad(), drops_are_meant():
            inputs, lengths = chunk.inputs.to(device), chunk.lengths.to(device)
            ragged = bool((lengths != inputs.shape[1]).any())
            silent = torch.zeros_like(inputs, dtype=torch.bool)
            if sequence.read_only_token is not None:
                silent = silent_steps(inputs == sequence.read_only_token, state)
            seen, state = controller_outputs(sequence, inputs, state, lengths if ragged else None)
            fields = layer.heads(seen[..., : layer.hidden_size].flatten(0, 1))
        is_valid = torch.arange(inputs.shape[1], device=device) < lengths.unsqueeze(1)
        for head, field in zip(layer.memory.heads, fields, strict=True):
            if head.can_harden:
                writes = head.name in layer.memory.write_strengths
                counts = is_valid & ~silent if writes else is_valid
                yield head, field.unflatten(0, inputs.shape), counts, chunk.mask.to(device)


def controller_outputs(
    sequence: SequenceModel, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
) -> tuple[Tensor, Any]:
    """The inputs of a model's heads and output, and the layer's state.

    For a layer with `output_read_vector` the inputs are concat(h, r) [B, T, H + R], of which the
    heads use h. For other layers, the inputs are only h.

    Args and errors are as for `SequenceModel.forward`.
    """
    bare = copy.copy(sequence)
    bare._modules = {**sequence._modules, "layer": _without_readout(sequence.layer)}
    return bare.hidden(inputs, state, lengths)


def _without_readout(layer: nn.Module) -> nn.Module:
    """Return the same layer with shared weights, which returns the inputs of the readout."""
    if not isinstance(layer, MemoryRNN):
        return layer
    parts = [copy.copy(part) for part in layer.layers]
    for part in parts:
        part._modules = {**part._modules, "readout": None}
    bare = copy.copy(layer)
    bare._modules = {**layer._modules, "layers": nn.ModuleList(parts)}
    return bare
