"""What a layer learns of a memory's beginning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.memories import Learned, Memory


class InitialMemory(nn.Module):
    """One parameter for each field that a memory declares as learned, and for its first reading.

    A parameter has the field's name and its shape without the batch; that of the first reading is
    called "reading". (An nn.ParameterDict refuses names such as "keys" and "values".)

    Args:
        memory: whose `learned_fields` are meant.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        memory: Memory[Any, Any],
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        # The memory, not its fields: a rule may be a function that cannot be pickled.
        self._memory = memory
        for field in memory.learned_fields:
            empty = torch.empty(field.first_shape, device=device, dtype=dtype)
            self.register_parameter(field.name, nn.Parameter(empty))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw each parameter by the rule that its field declares."""
        for field in self._memory.learned_fields:
            if isinstance(field.beginning, Learned):
                with torch.no_grad():
                    field.beginning.rule(self.get_parameter(field.name))

    def by_name(self) -> Mapping[str, Tensor]:
        """Return the parameters as `Memory.initial_state` takes them."""
        # By attribute: while torch.func.functional_call runs, these need not be parameters.
        return {field.name: getattr(self, field.name) for field in self._memory.learned_fields}

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return ", ".join(
            f"{field.name}{list(field.first_shape)}" for field in self._memory.learned_fields
        )
