"""The same equations fused over time: tensors and names in, tensors out.

Dispatch in Python, C++ behind a plain C interface (csrc/).
"""

from unbounded.kernels._checks import ControllerWeights
from unbounded.kernels._dispatch import check_wanted, why_not
from unbounded.kernels._generation import Stepper
from unbounded.kernels._library import Availability, available, without_memory
from unbounded.kernels._recurrence import recurrence
from unbounded.kernels._shapes import CONTROLLERS, STRUCTURES, SUPERPOSITIONS
from unbounded.kernels._superposition_shapes import MixtureOptions
from unbounded.kernels._unroll import unroll

__all__ = [
    "CONTROLLERS",
    "STRUCTURES",
    "SUPERPOSITIONS",
    "Availability",
    "ControllerWeights",
    "MixtureOptions",
    "Stepper",
    "available",
    "check_wanted",
    "recurrence",
    "unroll",
    "why_not",
    "without_memory",
]
