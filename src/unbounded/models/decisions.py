"""What a model decides over some sequences: how surely, and what in the mean."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.checks import check_device, check_number
from unbounded.errors import ConfigError
from unbounded.layers import MemoryRNN
from unbounded.layers.memory_drops import drops_are_meant
from unbounded.layers.read_only import silent_steps
from unbounded.memories import Head
from unbounded.models.discrete import deciding_layers, sequence_model
from unbounded.models.sequence_model import SequenceModel
from unbounded.tasks import Batch, pieces
from unbounded.tasks.batch import check_batch


class Certainty(NamedTuple):
    """How sure the decisions of one head are.

    Fields:
        least: the weight of the likelier choice where it is smallest, from 1 / choices to 1.
        undecided: how many decisions are less sure than was asked for.
        decisions: how many were looked at.
    """

    least: float
    undecided: int
    decisions: int


def least_decided(
    model: nn.Module, batch: Batch, *, piece_steps: int = 1000, device: torch.device | str = "cpu"
) -> float:
    """The certainty of the least decided decision: 1 where all are made wholly.

    Args and errors as for `certainties`.
    """
    found = certainties(model, batch, piece_steps=piece_steps, device=device)
    return min(each.least for each in found.values())


def certainties(
    model: nn.Module,
    batch: Batch,
    *,
    decided: float = 0.999,
    piece_steps: int = 1000,
    device: torch.device | str = "cpu",
) -> dict[str, Certainty]:
    """How sure the decisions of each head are, by its name, over all steps of a batch.

    What a memory is not told in an answer phase (`read_only_token`) does not count.

    Args:
        model: is or holds a SequenceModel with a memory that decides.
        batch: the sequences to look at, run from empty memories to their ends.
        decided: certainty that a decision must have to count as made.
        piece_steps: steps of one call of the layer.
        device: where the model is.
    Raises:
        ConfigError: the model has no such memory, or several layers of it.
    """
    check_number("decided", decided)
    decided = float(decided)
    found: dict[str, list[Certainty]] = {}
    for head, field, counts, _ in _told(model, batch, piece_steps, device):
        sure = head.certainty(field)[counts].flatten()
        if len(sure):
            few = int((sure < decided).sum())
            found.setdefault(head.name, []).append(Certainty(float(sure.min()), few, len(sure)))
    return {
        name: Certainty(
            min(each.least for each in parts),
            sum(each.undecided for each in parts),
            sum(each.decisions for each in parts),
        )
        for name, parts in found.items()
    }


def mean_decisions(
    model: nn.Module,
    batch: Batch,
    *,
    piece_steps: int = 1000,
    device: torch.device | str = "cpu",
) -> dict[str, dict[str, Any]]:
    """What each head decides in the mean, over the steps that are not scored and those that are.

    A stack whose mean push is near 0 on what it has to keep is not used, however right the answers
    are. What a memory is not told in an answer phase (`read_only_token`) does not count.

    Returns:
        "unscored" and "scored" (the steps where the batch's mask is False and True, left out where
        there is none) -> name of a head -> the mean of its field: a number in [0, 1], or nested
        lists of the field's shape, such as one weight for each stack and action.

    Args and errors as for `certainties`.
    """
    sums: dict[str, dict[str, tuple[Tensor, int]]] = {"unscored": {}, "scored": {}}
    for head, field, counts, mask in _told(model, batch, piece_steps, device):
        for phase, steps in (("unscored", counts & ~mask), ("scored", counts & mask)):
            here = field[steps].double()  # [steps, *shape]
            if len(here):
                total, number = sums[phase].get(head.name, (0, 0))
                sums[phase][head.name] = (total + here.sum(dim=0), number + len(here))
    return {
        phase: {name: (total / number).tolist() for name, (total, number) in heads.items()}
        for phase, heads in sums.items()
        if heads
    }


def _told(
    model: nn.Module, batch: Batch, piece_steps: int, device: torch.device | str
) -> Iterator[tuple[Head, Tensor, Tensor, Tensor]]:
    """Each head that decides with its field [B, T, *shape], piece by piece of a batch.

    Beside it, bool [B, T]: the steps in which the memory was told it, and the batch's mask.
    """
    check_batch(batch)
    device = check_device(device)
    layers, sequence = deciding_layers(model), sequence_model(model)
    if len(layers) > 1:
        raise ConfigError([f"model: expected one layer with a memory, got {len(layers)}"])
    (layer,) = layers
    state = None
    for piece in pieces(batch, piece_steps):
        # Where a capacity is too small scores tell of it; a stream's is for its longest sequence.
        with torch.no_grad(), drops_are_meant():
            inputs, lengths = piece.inputs.to(device), piece.lengths.to(device)
            ragged = bool((lengths != inputs.shape[1]).any())
            silent = torch.zeros_like(inputs, dtype=torch.bool)
            if sequence.read_only_token is not None:
                silent = silent_steps(inputs == sequence.read_only_token, state)
            seen, state = controller_outputs(sequence, inputs, state, lengths if ragged else None)
            fields = layer.heads(seen[..., : layer.hidden_size].flatten(0, 1))
        there = torch.arange(inputs.shape[1], device=device) < lengths.unsqueeze(1)
        for head, field in zip(layer.memory.heads, fields, strict=True):
            if head.can_harden:
                writes = head.name in layer.memory.write_strengths
                counts = there & ~silent if writes else there
                yield head, field.unflatten(0, inputs.shape), counts, piece.mask.to(device)


def controller_outputs(
    sequence: SequenceModel, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
) -> tuple[Tensor, Any]:
    """What heads and output of a model are computed from, and the layer's state.

    Of a layer with `output_reading` that is concat(h, r) [B, T, H + R], of which the heads see h;
    otherwise h alone.

    Args and errors as for `SequenceModel.forward`.
    """
    bare = copy.copy(sequence)
    bare._modules = {**sequence._modules, "layer": _without_readout(sequence.layer)}
    return bare.hidden(inputs, state, lengths)


def _without_readout(layer: nn.Module) -> nn.Module:
    """The same layer, weights shared, whose outputs are those that it reads out."""
    if not isinstance(layer, MemoryRNN) or layer.readout is None:
        return layer
    bare = copy.copy(layer)
    bare._modules = {**layer._modules, "readout": None}
    return bare
