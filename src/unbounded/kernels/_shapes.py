"""Names that the kernels know, and the sizes of what they read and write."""

from __future__ import annotations

from typing import Final, NamedTuple

import torch


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
