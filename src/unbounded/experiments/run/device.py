"""The device of a run."""

from __future__ import annotations

import torch

from unbounded.experiments.config.schema import RunConfig


def is_on_cpu(config: RunConfig) -> bool:
    """Whether a run must use the CPU; otherwise accelerate chooses the device."""
    return config.hardware.device == "cpu" or config.training.update == "per_symbol"


def device_of(config: RunConfig) -> torch.device:
    """The device of a run, as accelerate chooses it (build.py)."""
    if not is_on_cpu(config) and torch.cuda.is_available():
        return torch.device("cuda")
    if not is_on_cpu(config) and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
