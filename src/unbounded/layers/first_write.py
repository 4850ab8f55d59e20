"""The write before the first step, for memories with `writes_first`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.layers.heads import Heads
from unbounded.layers.recurrence import LoopState
from unbounded.memories import Memory
from unbounded.memories.core import without_autocast


class FirstWrite(nn.Module):
    """A hidden state h_0 from which the heads compute the first write.

    h_0 is drawn once from Glorot's distribution, as a buffer that is saved and never learned. The
    written values are learned through the weights of the heads.

    Args:
        hidden_size: H. device, dtype: of the buffer.
    Source: the program of Deleu & Dureau 2016, whose step starts with the previous step's write.
    """

    hidden: Tensor

    def __init__(
        self,
        hidden_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("hidden", torch.empty(hidden_size, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw h_0 like a Glorot draw of a matrix [1, H]."""
        bound = math.sqrt(6 / (1 + self.hidden.shape[0]))
        nn.init.uniform_(self.hidden, -bound, bound)

    def forward(self) -> Tensor:
        """Return h_0, [H]; as a call, so that hooks which load it run."""
        return self.hidden

    def write(self, heads: Heads, memory: Memory[Any, Any], state: LoopState) -> LoopState:
        """Return the state after the write, with its read vector.

        Args:
            heads, memory: of the layer. state: before the first step, tensors [B, ...].
        """
        fields = heads(self().to(heads.weight.dtype).unsqueeze(0))
        size, dtype = len(state.read_vector), state.read_vector.dtype
        instruction = memory.Instruction(
            *(part.to(dtype).expand(size, *part.shape[1:]) for part in fields)
        )
        with without_autocast(state.read_vector.device):
            read_vector, written = memory.first_write(state.memory, instruction)
        return LoopState(state.controller, read_vector, written)
