"""State dicts in which each tensor has its own storage, as file formats require."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def part_storages(
    module: nn.Module, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any]
) -> None:
    """Copy each tensor of a model's state dict that is part of a larger storage.

    On a GPU, cuDNN keeps the weights of a torch.nn.LSTM in one storage. safetensors refuses such
    tensors; accelerate takes those of one storage for a tied weight and writes only the first.
    Tensors that span their whole storage, tied ones included, stay as they are, and so do the
    module's own tensors (`state_dict(keep_vars=True)`). Changes to a copy do not reach the model;
    use `load_state_dict`.

    Args:
        module: the model. local_metadata: unused, part of the hook's signature for
            `register_state_dict_post_hook`.
        state: of the module and others; changed in place.
        prefix: of the names of the module's tensors.
    """
    kept = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    for name, tensor in state.items():
        if not name.startswith(prefix) or not isinstance(tensor, Tensor) or id(tensor) in kept:
            continue
        if tensor.layout is not torch.strided:
            continue
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            state[name] = tensor.clone()
