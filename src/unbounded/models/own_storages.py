"""A state dict each of whose tensors has a storage of its own, as files take them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def part_storages(
    module: nn.Module, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any]
) -> None:
    """Copy each tensor of a model's state dict that is a part of a larger storage.

    On a GPU cuDNN has the weights of a torch.nn.LSTM in one storage. safetensors refuses to write
    such a tensor, and accelerate takes those of one storage for one tied weight under several
    names and writes the first of them alone. Tensors that are all of their storage, tied ones
    among them, stay what they are, and so do the module's own (`state_dict(keep_vars=True)`). What
    is written into a copy does not reach the model: that is for `load_state_dict`.

    Args:
        module: the model. local_metadata: not looked at, as a hook of
            `register_state_dict_post_hook` has it.
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
