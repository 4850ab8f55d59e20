"""The equations fused over time: tensors and declarations in, tensors out.

Dispatch is in Python, computation in C++ behind a plain C interface (csrc/). A memory is declared
in `structures/` for Python, and by its header for C++.
"""

from unbounded.kernels import structures
from unbounded.kernels._availability import check_expected, why_not
from unbounded.kernels._controllers import CONTROLLERS, ControllerWeights, Weights
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
from unbounded.kernels._output import StaticOutput
from unbounded.kernels._registry import Session
from unbounded.kernels._static import StaticRecurrence
from unbounded.kernels.structures import STRUCTURES, Structure

__all__ = [
    "CONTROLLERS",
    "PRECISIONS",
    "STRUCTURES",
    "Availability",
    "ControllerWeights",
    "Session",
    "StaticOutput",
    "StaticRecurrence",
    "Structure",
    "Weights",
    "available",
    "check_expected",
    "has_tiles",
    "most_symbols",
    "open_session",
    "product_precision",
    "recurrence",
    "structures",
    "switched",
    "unroll",
    "why_not",
    "without_memory",
]
