"""The equations of controllers and memories, fused over time, as functions of tensors.

Python dispatches a call, and C++ computes it behind a plain C interface (csrc/). A memory's header
defines what C++ needs. The file `kernel.py` in the memory's folder in `memories/` defines the
additions to the memory's declaration.
"""

from unbounded.kernels._availability import check_expected, negative_field, why_no_kernel, why_not
from unbounded.kernels._controllers import CONTROLLERS, ControllerWeights, Weights
from unbounded.kernels._delta_rule import DeltaInputs, delta_rule
from unbounded.kernels._fused import open_session, recurrence, unroll
from unbounded.kernels._library import (
    PRECISIONS,
    Availability,
    available,
    has_tiles,
    most_symbols,
    product_precision,
    switched,
    without_memory,
)
from unbounded.kernels._registry import Session
from unbounded.kernels._static import StaticOutput, StaticRecurrence
from unbounded.kernels._structures import STRUCTURES, kernel_of, structure_of
from unbounded.memories.core.structure import Structure

__all__ = [
    "CONTROLLERS",
    "PRECISIONS",
    "STRUCTURES",
    "Availability",
    "ControllerWeights",
    "DeltaInputs",
    "Session",
    "StaticOutput",
    "StaticRecurrence",
    "Structure",
    "Weights",
    "available",
    "check_expected",
    "delta_rule",
    "has_tiles",
    "kernel_of",
    "most_symbols",
    "negative_field",
    "open_session",
    "product_precision",
    "recurrence",
    "structure_of",
    "switched",
    "unroll",
    "why_no_kernel",
    "why_not",
    "without_memory",
]
