"""The arguments of C++ calls: structures that mirror csrc/call.h, and functions to fill them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from torch import Tensor

from unbounded.kernels._sizes import Sizes
from unbounded.memories.core.head import KERNEL_ACTIVATIONS

_OPTIONS: Final = 16
_HEADS: Final = 24
_FIELDS: Final = 8
_SAVED: Final = 12

_SIZES: Final = (
    "steps batch inputs hidden read_vector head_count rows room first_step saves threads block "
    "checkpoint_size precision"
)
#: Pointers in the order of the struct. A pair of a name and a length represents an array of
#: pointers.
_POINTERS: Final[tuple[str | tuple[str, int], ...]] = (
    "lengths",
    "x",
    "weight_ih",
    "weight_hh",
    "bias_ih",
    "bias_hh",
    "head_weight",
    "head_bias",
    "hidden0",
    "cell0",
    "read_vector0",
    ("state0", _FIELDS),
    ("instruction", _HEADS),
    "gates",
    "outputs",
    "cells",
    "tanh_cells",
    "read_vectors",
    "hidden_last",
    "cell_last",
    "read_vector_last",
    ("state_last", _FIELDS),
    "checkpoints",
    ("saved", _SAVED),
    "error",
    "grad_outputs",
    "grad_read_vectors",
    "grad_hidden_last",
    "grad_cell_last",
    "grad_read_vector_last",
    ("grad_state_last", _FIELDS),
    "grad_x",
    "grad_weight_ih",
    "grad_weight_hh",
    "grad_bias_ih",
    "grad_bias_hh",
    "grad_head_weight",
    "grad_head_bias",
    "grad_hidden0",
    "grad_cell0",
    "grad_read_vector0",
    ("grad_state0", _FIELDS),
    ("grad_instruction", _HEADS),
)

Pointer = ctypes.c_void_p


class HeadOfCall(ctypes.Structure):
    """`UnboundedHead`."""

    _fields_ = [(name, ctypes.c_int64) for name in ("count", "size", "activation")]


class Switches(ctypes.Structure):
    """`UnboundedSwitches`: settings for tests and measurements. Otherwise all of them are 0.

    Fields:
        division: how csrc/split.h divides the work between threads: 0 by its rule, 1 by batch rows,
            2 by columns.
        alone_after: the barrier after which the first thread of a call continues alone, as it does
            where the others have no core (csrc/threads.h); 0 for none.
        skips_memory: omits the memory's part; the read vector is then 0.
    """

    _fields_ = [(name, ctypes.c_int64) for name in ("division", "alone_after", "skips_memory")]


def _pointer(entry: str | tuple[str, int]) -> tuple[str, Any]:
    return (entry, Pointer) if isinstance(entry, str) else (entry[0], Pointer * entry[1])


class Call(ctypes.Structure):
    """`UnboundedCall`."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in _SIZES.split()),
        ("switches", Switches),
        ("options", ctypes.c_int64 * _OPTIONS),
        ("heads", HeadOfCall * _HEADS),
        *map(_pointer, _POINTERS),
    ]


class OutputCall(ctypes.Structure):
    """`UnboundedOutput`. Strides are given per sequence and per step."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("steps", "batch", "hidden", "symbols")),
        ("target_strides", ctypes.c_int64 * 2),
        ("mask_strides", ctypes.c_int64 * 2),
        ("scale", ctypes.c_double),
        *(
            (name, Pointer)
            for name in (
                "outputs", "weight", "bias", "targets", "mask", "nats", "logits", "grad_outputs",
                "grad_weight", "grad_bias",
            )
        ),
    ]  # fmt: skip


class DeltaCall(ctypes.Structure):
    """`UnboundedDelta`."""

    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in ("batch", "tokens", "heads", "size", "steps", "taps", "threads")
        ),
        *(
            (name, Pointer)
            for name in (
                "projected", "recent", "weights", "strengths", "state", "read", "state_last",
                "differences", "checkpoints", "grad_read", "grad_state_last", "grad_projected",
                "grad_recent", "grad_weights", "grad_strengths", "grad_state",
            )
        ),
    ]  # fmt: skip


def new_call(sizes: Sizes, activations: Sequence[str] = ()) -> Call:
    """Create a call with these sizes that saves for the backward pass, without its tensors.

    Args:
        activations: of the heads, in order; empty for a given instruction.
    """
    return Call.from_buffer_copy(_call_of(sizes, tuple(activations)))


@lru_cache(maxsize=1024)
def _call_of(sizes: Sizes, activations: tuple[str, ...]) -> Call:
    call, structure = Call(), sizes.structure
    call.steps, call.batch, call.inputs = sizes.steps, sizes.batch, sizes.inputs
    call.hidden, call.read_vector = sizes.hidden, structure.read_vector
    call.rows, call.room, call.saves = sizes.rows, sizes.steps, 1
    call.block, call.checkpoint_size = sizes.block, sizes.checkpoint_size
    call.options[: len(structure.options)] = structure.options
    call.head_count = len(structure.heads)
    for k, shape in enumerate(structure.heads.values()):
        call.heads[k].size = shape[-1] if shape else 1
        call.heads[k].count = math.prod(shape[:-1])
        if activations:
            call.heads[k].activation = KERNEL_ACTIVATIONS.index(activations[k])
    return call


def point(call: Call | DeltaCall, tensors: Mapping[str, Tensor | None]) -> None:
    """Set the addresses of tensors under their names."""
    for name, tensor in tensors.items():
        setattr(call, name, _address(tensor))


def point_array(call: Call, name: str, tensors: Sequence[Tensor | None]) -> None:
    """Set the addresses of tensors in an array."""
    array = getattr(call, name)
    for k, tensor in enumerate(tensors):
        array[k] = _address(tensor)


def _address(tensor: Tensor | None) -> int | None:
    # An empty tensor represents an absent tensor.
    return None if tensor is None else tensor.data_ptr() or None
