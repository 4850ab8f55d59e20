"""Models (tokens -> embedding -> layer -> logits) and greedy generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unbounded.lab import require
from unbounded.models.discrete import discretized, sharpen, sharpen_units
from unbounded.models.gates import certainties, least_saturated, mean_gates
from unbounded.models.generation import generate
from unbounded.models.initialization import draw_sums
from unbounded.models.memory_room import with_room
from unbounded.models.sequence_model import SequenceModel

if TYPE_CHECKING:
    from unbounded.models.memory_model import MemoryModel

__all__ = [
    "MemoryModel",
    "SequenceModel",
    "certainties",
    "discretized",
    "draw_sums",
    "generate",
    "least_saturated",
    "mean_gates",
    "sharpen",
    "sharpen_units",
    "with_room",
]


def __getattr__(name: str) -> Any:
    # This module needs huggingface_hub, which `import unbounded` must not load.
    if name == "MemoryModel":
        require("unbounded.models.MemoryModel", "huggingface_hub")
        from unbounded.models.memory_model import MemoryModel

        return MemoryModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
