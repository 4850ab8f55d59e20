"""What a memory declares of each part of its instruction."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.checks import check_like, check_shape
from unbounded.errors import ShapeError


class Head(NamedTuple):
    """One part of an instruction, as the controller's linear map has to produce it.

    Fields:
        name: the field of the memory's Instruction that it fills.
        shape: axes of that field after the batch; () for a scalar.
        activation: "identity", "tanh", "sigmoid", "softmax" (over the last axis), "relu", ...
        bias: initial value of every bias of the head; None keeps the ordinary random draw.
    """

    name: str
    shape: tuple[int, ...]
    activation: str
    bias: float | None = None

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
