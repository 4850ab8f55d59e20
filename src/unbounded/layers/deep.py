"""Stacked layers in one or both directions, with the layout of torch.nn.LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_bool, check_positive
from unbounded.errors import ShapeError
from unbounded.layers.recurrence import LoopState

#: Runs one layer in one direction: (x [T, B, I], state, lengths) -> (output [T, B, O], state).
Run = Callable[[Tensor, LoopState, Tensor | None], tuple[Tensor, LoopState]]


@dataclass(frozen=True)
class Depth:
    """Number of layers and directions.

    Fields:
        num_layers: 1 or more.
        dropout: share of a layer's output that is dropped before the next, in [0, 1).
        bidirectional: whether each layer also runs backward.
    """

    num_layers: int
    dropout: float
    bidirectional: bool

    def __post_init__(self) -> None:
        check_positive("num_layers", self.num_layers)
        is_number = isinstance(self.dropout, int | float) and not isinstance(self.dropout, bool)
        if not is_number or not 0 <= self.dropout < 1:
            raise ShapeError(f"dropout: expected a number in [0, 1), got {self.dropout!r}.")
        if self.dropout and self.num_layers == 1:
            raise ShapeError(
                "dropout: expected 0 with one layer, because it is applied between layers; got "
                f"{self.dropout}. Put nn.Dropout after the layer."
            )
        check_bool("bidirectional", self.bidirectional)

    @property
    def directions(self) -> int:
        """1, or 2 if bidirectional."""
        return 2 if self.bidirectional else 1

    def others(self) -> Iterator[tuple[str, int]]:
        """Name and layer of all but the first layer's forward direction, in order."""
        for layer in range(self.num_layers):
            if layer:
                yield f"l{layer}", layer
            if self.bidirectional:
                yield f"l{layer}_reverse", layer


def run_deep(
    depth: Depth,
    runs: Sequence[Run],
    x: Tensor,
    states: Sequence[LoopState],
    lengths: Tensor | None,
    is_training: bool,
) -> tuple[Tensor, list[LoopState]]:
    """Run all layers and directions.

    Args:
        runs, states: one per layer and direction, in the order of nn.LSTM.
        x: [T, B, I]. lengths: int64 [B] or None.
        is_training: whether outputs between layers are dropped.
    Returns:
        the last layer's output [T, B, directions O], and the states.
    """
    last = []
    for layer in range(depth.num_layers):
        outputs = []
        for direction in range(depth.directions):
            place = layer * depth.directions + direction
            direction_input = _reversed(x, lengths) if direction else x
            output, state = runs[place](direction_input, states[place], lengths)
            outputs.append(_reversed(output, lengths) if direction else output)
            last.append(state)
        x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
        if layer < depth.num_layers - 1:
            x = F.dropout(x, depth.dropout, is_training)
    return x, last


def _reversed(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse sequences [T, B, ...] within their lengths; the padding stays in place."""
    if lengths is None:
        return x.flip(0)
    t = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    place = torch.where(t < lengths, lengths - 1 - t, t)
    return x.gather(0, place.unsqueeze(-1).expand_as(x))
