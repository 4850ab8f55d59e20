"""What a layer writes before the first step, where its memory asks for it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.layers.heads import Heads
from unbounded.layers.recurrence import LoopState
from unbounded.memories import Memory
from unbounded.memories.autocast import without_autocast


class FirstWrite(nn.Module):
    """A hidden state h_0 from which the heads are told what to write before the first step.

    h_0 is drawn once from Glorot's distribution, a buffer that is saved and never learned; what is
    written is learned with the weights of the heads.

    Args:
        hidden_size: H. device, dtype: of the buffer.
    Source: the program of Deleu & Dureau 2016, whose step begins with the write of the step before.
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
        """Draw h_0 anew, as a Glorot draw of a matrix [1, H]."""
        bound = math.sqrt(6 / (1 + self.hidden.shape[0]))
        nn.init.uniform_(self.hidden, -bound, bound)

    def forward(self) -> Tensor:
        """h_0, [H]; by a call, so that hooks that load it run."""
        return self.hidden

    def write(self, heads: Heads, memory: Memory[Any, Any], state: LoopState) -> LoopState:
        """Return the state after the write, and what is read of it.

        Args:
            heads, memory: of the layer. state: before the first step, [B, ...] each.
        """
        told = heads(self().to(heads.weight.dtype).unsqueeze(0))
        size, dtype = len(state.reading), state.reading.dtype
        instruction = memory.Instruction(
            *(part.to(dtype).expand(size, *part.shape[1:]) for part in told)
        )
        with without_autocast(state.reading.device):
            reading, written = memory.first_write(state.memory, instruction)
        return LoopState(state.controller, reading, written)
