"""A package of a user's own: a memory, a controller, a task and a scoring for `unbounded`."""

from __future__ import annotations

from bucket.learning import Parity, RightLabels
from bucket.network import Bucket, Leaky

__all__ = ["Bucket", "Leaky", "Parity", "RightLabels"]
