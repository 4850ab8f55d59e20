"""The devices of the tests: a mark that parametrizes `device`, and GPU behaviour on a CPU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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


def one_storage(lstm: nn.RNNBase) -> None:
    """Make the weights parts of one storage, as `flatten_parameters` does on a GPU for cuDNN.

    A second bias that is a buffer is one of them.
    """
    weights = [*lstm.parameters(recurse=False), *lstm.buffers(recurse=False)]
    if any(weight.is_meta for weight in weights):
        return
    flat = torch.cat([weight.detach().flatten() for weight in weights])
    parts = flat.split([weight.numel() for weight in weights])
    for weight, part in zip(weights, parts, strict=True):
        weight.data = part.view_as(weight)
