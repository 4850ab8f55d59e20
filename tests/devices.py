"""The devices that tests run on: a mark of pytest that gives `device`."""

from __future__ import annotations

import pytest
import torch

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.cuda,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ],
    ),
]
on_every_device = pytest.mark.parametrize("device", DEVICES)
