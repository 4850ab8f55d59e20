"""What a memory declares of each part of its instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_like, check_shape
from unbounded.errors import ChoiceError, ShapeError

#: What maps a head's products to its field, by name. Softmax goes over the last axis. The kernels
#: have the same (csrc/heads.h).
ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "identity": lambda tensor: tensor,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
    "softplus": F.softplus,
    "softmax": lambda tensor: torch.softmax(tensor, dim=-1),
    # clip(0.2 x + 0.5, 0, 1), with derivative 0 at the bounds.
    "hard_sigmoid": lambda tensor: F.hardtanh(0.2 * tensor + 0.5, 0.0, 1.0),
    "one_plus_relu": lambda tensor: 1 + F.relu(tensor),
    "one_plus_softplus": lambda tensor: 1 + F.softplus(tensor),
}


#: What each activation that can decide makes of its field: the weight of the likelier choice.
_CERTAINTY: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sigmoid": lambda field: torch.maximum(field, 1 - field),
    "hard_sigmoid": lambda field: torch.maximum(field, 1 - field),
    "softmax": lambda field: field.amax(dim=-1),
}


class Head(NamedTuple):
    """One part of an instruction, as the controller's linear map has to produce it.

    Fields:
        name: the field of the memory's Instruction that it fills.
        shape: axes of that field after the batch; () for a scalar.
        activation: one of ACTIVATIONS.
        bias: initial value of every bias of the head, or of each along its last axis; None keeps
            the ordinary random draw.
        decision: whether it is a choice that a memory used as a data structure makes wholly or not
            at all, such as to push: hardening drives it to 0 or 1, or a softmax to one choice.
    """

    name: str
    shape: tuple[int, ...]
    activation: str
    bias: float | tuple[float, ...] | None = None
    decision: bool = False

    @property
    def can_harden(self) -> bool:
        """Whether it is a decision, and larger products make it a surer one."""
        return self.decision and self.activation in _CERTAINTY

    def certainty(self, field: Tensor) -> Tensor:
        """How sure each decision is: the weight of its likelier choice, from 1/choices to 1.

        Args:
            field: of instructions, [..., *shape].
        Returns:
            [..., *shape], or without the last axis, the choices, of a softmax.
        Raises:
            ChoiceError: the activation cannot decide.
        """
        if self.activation not in _CERTAINTY:
            raise ChoiceError("activation that decides", self.activation, _CERTAINTY)
        return _CERTAINTY[self.activation](field)

    def begin(self, biases: Tensor) -> None:
        """Set the head's biases, [size], to what is declared of them, if anything is.

        Raises:
            ShapeError: there are several biases, and not as many as the last axis is long.
        """
        if self.bias is None:
            return
        if isinstance(self.bias, tuple):
            if self.shape[-1:] != (len(self.bias),):
                raise ShapeError(
                    f"bias of head {self.name!r}: expected one number, or one for each along the "
                    f"last axis of {list(self.shape)}, got {len(self.bias)}."
                )
            biases = biases.view(-1, len(self.bias))
        biases.copy_(biases.new_tensor(self.bias).expand_as(biases))

    @property
    def size(self) -> int:
        """Rows of the linear map that belong to this head."""
        return int(torch.Size(self.shape).numel())


def check_instruction_type(expected: type[Any], instruction: object) -> None:
    """Raise ShapeError unless `instruction` is the NamedTuple that the memory asks for."""
    if not isinstance(instruction, expected):
        fields = ", ".join(expected._fields)
        raise ShapeError(
            f"instruction: expected memory.Instruction({fields}), got {type(instruction).__name__}."
        )


def check_parts(
    heads: tuple[Head, ...], instruction: tuple[Tensor, ...], leading: tuple[int, ...]
) -> None:
    """Check an instruction's tensors against what is declared of them.

    Args:
        heads, instruction: the declarations, and a tensor [*leading, *head.shape] for each.
        leading: sizes of the axes of batch and time.
    Raises:
        ShapeError: a shape disagrees. DTypeError, DeviceError: a tensor is not like the first.
    """
    for head, field in zip(heads, instruction, strict=True):
        check_shape(head.name, field, (*leading, *head.shape))
        check_like(head.name, field, heads[0].name, instruction[0])
