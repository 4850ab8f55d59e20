"""Heads: one linear map from the controller's output to a complete instruction."""

from __future__ import annotations

import math
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.errors import ChoiceError
from unbounded.memories import Head
from unbounded.memories.core import ACTIVATIONS
from unbounded.replaced import remember_methods


def head_slices(heads: tuple[Head, ...]) -> dict[str, slice]:
    """The rows of the linear map for each head, by name."""
    ends = list(accumulate(head.size for head in heads))
    return {head.name: slice(end - head.size, end) for head, end in zip(heads, ends, strict=True)}


def apply_heads(
    heads: tuple[Head, ...], hidden: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Compute the fields of one instruction.

    Args:
        hidden: controller output, [B, H].
        weight: [K, H]. bias: [K] or None; K is the sum of the heads' sizes.
    Returns:
        one tensor per head, [B, *head.shape], in the dtype of `weight` also under autocast.
    """
    raw = F.linear(hidden, weight, bias).to(weight.dtype)
    parts = torch.split(raw, [head.size for head in heads], dim=-1)
    return tuple(
        ACTIVATIONS[head.activation](part.view(part.shape[0], *head.shape))
        for head, part in zip(heads, parts, strict=True)
    )


class Heads(nn.Module):
    """The linear map for all heads of a memory. `rows(name)` returns the rows of one head.

    Args:
        hidden_size: H. heads: the memory's declaration.
        bias: whether there are biases; otherwise `bias` is None and not in the state_dict.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        hidden_size: int,
        heads: tuple[Head, ...],
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        for head in heads:
            if head.activation not in ACTIVATIONS:
                raise ChoiceError("head activation", head.activation, ACTIVATIONS)
        self.heads = heads
        self._slices = head_slices(heads)
        size = sum(head.size for head in heads)
        self.weight = nn.Parameter(torch.empty(size, hidden_size, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(size, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights from Glorot's uniform distribution, then set the declared biases."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        nn.init.xavier_uniform_(self.weight)
        if self.bias is None:
            return
        nn.init.uniform_(self.bias, -bound, bound)
        with torch.no_grad():
            for head in self.heads:
                head.set_initial_biases(self.bias[self.rows(head.name)])

    def rows(self, name: str) -> slice:
        """Return the rows of `weight` and `bias` for the head `name`."""
        if name not in self._slices:
            raise ChoiceError("head", name, self._slices)
        return self._slices[name]

    def forward(self, hidden: Tensor) -> tuple[Tensor, ...]:
        """Return the fields of the instruction, each [B, ...], from hidden [B, H]."""
        return apply_heads(self.heads, hidden, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return ", ".join(f"{head.name}{list(head.shape)}" for head in self.heads)


remember_methods(Heads)
