"""Initial values of a layer: learned values of its memory and controller, or a first write."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.memories import Learned, Memory, StateField
from unbounded.memories.core import without_autocast
from unbounded.memories.core.memory import READ_VECTOR
from unbounded.rnn.heads import Heads
from unbounded.rnn.recurrence import RecurrenceState


class InitialMemory(nn.Module):
    """One parameter for each field that a memory declares as learned, and for its read vector.

    A parameter has the field's name, and its shape without the batch. The initial read vector's
    parameter is named "read_vector". (An nn.ParameterDict rejects names such as "keys" and
    "values".)

    Args:
        memory: declares the `learned_fields`.
        device, dtype: of the parameters.
        read_vector: whether the initial read vector has a parameter. A layer whose instructions do
            not depend on read vectors has none.
    """

    def __init__(
        self,
        memory: Memory[Any, Any],
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        read_vector: bool = True,
    ) -> None:
        super().__init__()
        # Store the memory, not its fields, because a rule may be a function that cannot be pickled.
        self._memory, self._mapped, self._read_vector = memory, False, read_vector
        for field in self._fields():
            empty = torch.empty(field.initial_shape, device=device, dtype=dtype)
            self.register_parameter(field.name, nn.Parameter(empty))
        self.reset_parameters()

    def _fields(self) -> tuple[StateField, ...]:
        fields = self._memory.learned_fields
        return tuple(field for field in fields if self._read_vector or field.name != READ_VECTOR)

    def reset_parameters(self) -> None:
        """Initialize each parameter by the rule of its field."""
        for field in self._fields():
            if isinstance(field.initializer, Learned):
                with torch.no_grad():
                    field.initializer.rule(self.get_parameter(field.name))
                    if self._mapped:
                        nn.init.zeros_(self.get_parameter(f"{field.name}_bias"))

    def forward(self) -> Mapping[str, Tensor]:
        """Return `by_name()`. This is a call, so that hooks that load the parameters run."""
        return self.by_name()

    def by_name(self) -> Mapping[str, Tensor]:
        """Return the parameters for `Memory.initial_state`."""
        # Use attributes, because these need not be parameters while torch.func.functional_call
        # runs.
        names = [field.name for field in self._fields()]
        if not self._mapped:
            return {name: getattr(self, name) for name in names}
        return {name: getattr(self, name) + getattr(self, f"{name}_bias") for name in names}

    def map_one(self) -> None:
        """Make each number the sum of two parameters, like a linear map of the constant 1.

        The second parameter, NAME_bias, is initially 0.
        Source: the program of Yang & Rush 2017, arXiv:1611.02854.
        """
        self._mapped = True
        for field in self._fields():
            bias = torch.zeros_like(self.get_parameter(field.name))
            self.register_parameter(f"{field.name}_bias", nn.Parameter(bias))

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return ", ".join(f"{field.name}{list(field.initial_shape)}" for field in self._fields())


class FirstWrite(nn.Module):
    """A hidden state h_0 from which the heads compute the first write.

    h_0 is drawn once from Glorot's distribution. The buffer h_0 is saved but never learned. The
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
        """Draw h_0 from Glorot's distribution for a matrix [1, H]."""
        bound = math.sqrt(6 / (1 + self.hidden.shape[0]))
        nn.init.uniform_(self.hidden, -bound, bound)

    def forward(self) -> Tensor:
        """Return h_0, [H]. This is a call, so that hooks that load h_0 run."""
        return self.hidden

    def write(
        self, heads: Heads, memory: Memory[Any, Any], state: RecurrenceState
    ) -> RecurrenceState:
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
        return RecurrenceState(state.controller, read_vector, written)


class InitialController(nn.ParameterList):
    """The learned initial state of a controller, one parameter [H] for each of its tensors."""

    __call__ = nn.Module.__call__  # because ParameterList's method raises an error

    def forward(self) -> tuple[Tensor, ...]:
        """Return the parameters. This is a call, so that hooks that load them run."""
        return tuple(self)
