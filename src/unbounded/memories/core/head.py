"""The declaration of a head, which computes one field of a memory's instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_like, check_shape
from unbounded.errors import ChoiceError, ShapeError

#: Activations of heads by name: each maps a linear output to a field. A softmax is over the last
#: axis.
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
#: Activations of a stored value. A softmax would depend on the value's axes.
VALUE_ACTIVATIONS: Final = tuple(name for name in ACTIVATIONS if name != "softmax")
#: Activations of the kernels, in the order of `Activation` in csrc/heads.h. Activations that are
#: added later are not included.
KERNEL_ACTIVATIONS: Final = tuple(ACTIVATIONS)

#: Certainty of a gate, by activation: the weight of the likeliest choice.
_CERTAINTY: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sigmoid": lambda field: torch.maximum(field, 1 - field),
    "hard_sigmoid": lambda field: torch.maximum(field, 1 - field),
    "softmax": lambda field: field.amax(dim=-1),
}


class Head(NamedTuple):
    """One field of an instruction, and how the controller's output is mapped to it.

    Fields:
        name: the field of the memory's Instruction.
        shape: axes of that field after the batch; () for a scalar.
        activation: one of ACTIVATIONS.
        bias: initial value of every bias of the head, or of each along its last axis; None keeps
            the random draw of the layer.
        gate: whether the head is a gate, such as push: an action that a discrete data structure
            takes fully or not at all. Hardening drives it to 0 or 1, or a softmax to one choice.
        choices: the names of a softmax's choices, in the order of its weights; () without names.
    """

    name: str
    shape: tuple[int, ...]
    activation: str
    bias: float | tuple[float, ...] | None = None
    gate: bool = False
    choices: tuple[str, ...] = ()

    @property
    def can_harden(self) -> bool:
        """Whether the head is a gate that saturates as the inverse temperature rises."""
        return self.gate and self.activation in _CERTAINTY

    def certainty(self, field: Tensor) -> Tensor:
        """Certainty of each gate: the weight of its likeliest choice, from 1/choices to 1.

        Args:
            field: of instructions, [..., *shape].
        Returns:
            [..., *shape]; for a softmax without the last axis, the choices.
        Raises:
            ChoiceError: the activation is not that of a gate.
        """
        if self.activation not in _CERTAINTY:
            raise ChoiceError("activation of a gate", self.activation, _CERTAINTY)
        return _CERTAINTY[self.activation](field)

    def set_initial_biases(self, biases: Tensor) -> None:
        """Fill the head's biases, [size], with the declared initial bias, if there is one.

        Raises:
            ShapeError: the number of declared biases is not the size of the last axis.
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
        """Number of rows of the linear map for this head."""
        return int(torch.Size(self.shape).numel())


def check_instruction_type(expected: type[Any], instruction: object) -> None:
    """Raise ShapeError unless `instruction` is the memory's NamedTuple."""
    if not isinstance(instruction, expected):
        fields = ", ".join(expected._fields)
        raise ShapeError(
            f"instruction: expected memory.Instruction({fields}), got {type(instruction).__name__}."
        )


def check_parts(
    heads: tuple[Head, ...], instruction: tuple[Tensor, ...], leading: tuple[int, ...]
) -> None:
    """Check an instruction's tensors against the declarations of the heads.

    Args:
        heads, instruction: the declarations, and a tensor [*leading, *head.shape] for each.
        leading: sizes of the axes of batch and time.
    Raises:
        ShapeError: a shape disagrees. DTypeError, DeviceError: a tensor is not like the first.
    """
    for head, field in zip(heads, instruction, strict=True):
        check_shape(head.name, field, (*leading, *head.shape))
        check_like(head.name, field, heads[0].name, instruction[0])
