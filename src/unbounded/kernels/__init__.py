"""The same equations fused over time: tensors and declarations in, tensors out.

Dispatch in Python, C++ behind a plain C interface (csrc/). A memory is known to this folder by its
declaration in `structures/`, and to C++ by its header.
"""

from unbounded.kernels import structures
from unbounded.kernels._availability import check_wanted, why_not
from unbounded.kernels._bound import BoundRecurrence
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
from unbounded.kernels._output import BoundOutput
from unbounded.kernels._registry import Session
from unbounded.kernels.structures import STRUCTURES, Structure

__all__ = [
    "CONTROLLERS",
    "PRECISIONS",
    "STRUCTURES",
    "Availability",
    "BoundOutput",
    "BoundRecurrence",
    "ControllerWeights",
    "Session",
    "Structure",
    "Weights",
    "available",
    "check_wanted",
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
