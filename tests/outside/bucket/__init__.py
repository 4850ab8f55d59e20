"""A custom package: memory, group, controller, task and metric set for `unbounded`."""

from __future__ import annotations

from bucket.learning import Parity, RightLabels
from bucket.network import Bucket, Leaky
from bucket.shear import Shear, nearest

__all__ = ["Bucket", "Leaky", "Parity", "RightLabels", "Shear", "nearest"]
