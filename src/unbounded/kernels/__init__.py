"""The same equations fused over time: tensors and names in, tensors out.

Dispatch in Python, C++ behind a plain C interface (csrc/).
"""

from unbounded.kernels._library import Availability, available
from unbounded.kernels._recurrence import ControllerWeights, recurrence, why_not

__all__ = ["Availability", "ControllerWeights", "available", "recurrence", "why_not"]
