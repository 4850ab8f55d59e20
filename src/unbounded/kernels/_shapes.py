"""Names that the kernels know, and the sizes of what they read and write."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch
from torch import Tensor


class ControllerKind(NamedTuple):
    """What tells one controller from another outside its C++ file.

    Fields:
        code: number of the controller in csrc/library.cpp.
        blocks: row blocks of H in weight_ih and weight_hh.
        lanes: H-wide sums of products of a step, as in csrc/controllers.h.
        hidden_lanes: the lanes that h_{t-1} feeds, in the order of the blocks of weight_hh.
        has_cell: whether the state holds a cell.
    """

    code: int
    blocks: int
    lanes: int
    hidden_lanes: tuple[slice, ...]
    has_cell: bool


STRUCTURES: Final = {"stack": 0, "queue": 1, "deque": 2}
SUPERPOSITIONS: Final = {"superposition_stack": 3, "superposition_list": 4}
PARTS: Final = {"stack": 1, "queue": 1, "deque": 2}
_ONE: Final = (slice(0, 1),)
CONTROLLERS: Final = {
    "lstm": ControllerKind(0, 4, 4, (slice(0, 4),), True),
    "gru": ControllerKind(1, 3, 4, (slice(0, 2), slice(3, 4)), False),
    "elman_tanh": ControllerKind(2, 1, 1, _ONE, False),
    "elman_sigmoid": ControllerKind(3, 1, 1, _ONE, False),
    "elman_relu": ControllerKind(4, 1, 1, _ONE, False),
}
DTYPES: Final = {torch.float32: 0, torch.float64: 1}


def first_row(structure: str, steps: int) -> int:
    """Where the initial rows lie among the final ones."""
    return steps if structure == "deque" else 0


def joint_bias(controller: str, bias_ih: Tensor | None, bias_hh: Tensor | None) -> Tensor | None:
    """The bias that goes to the blocks of weight_ih; a GRU keeps the n part of bias_hh apart."""
    if bias_hh is None or bias_ih is None:
        if bias_hh is not None and controller == "gru":
            return torch.cat(
                (bias_hh[: len(bias_hh) // 3 * 2], bias_hh.new_zeros(len(bias_hh) // 3))
            )
        return bias_ih if bias_hh is None else bias_hh
    if controller != "gru":
        return bias_ih + bias_hh
    both = bias_ih.clone()
    split = len(bias_hh) // 3 * 2
    both[:split] += bias_hh[:split]
    return both


def project_input(
    controller: str,
    x: Tensor,
    x_weight: Tensor,
    bias: Tensor | None,
    bias_hh: Tensor | None,
    gates: Tensor,
) -> None:
    """Write the x part of every lane into `gates` [T * B, lanes * H], biases included.

    Args:
        x: [T * B, I]. x_weight: [I, blocks * H], the transpose of weight_ih's first columns.
        bias: of `joint_bias`.
    """
    target = gates
    if controller == "gru":
        split = x_weight.shape[1]
        target = gates[:, :split]
        if bias_hh is None:
            gates[:, split:] = 0
        else:
            gates[:, split:] = bias_hh[split // 3 * 2 :]
    if bias is None:
        torch.mm(x, x_weight, out=target)
    else:
        torch.addmm(bias, x, x_weight, out=target)
