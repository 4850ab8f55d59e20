"""A state dict each of whose tensors has a storage of its own, as files take them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def part_storages(
    module: nn.Module, state: dict[str, Any], prefix: str, local_metadata: dict[str, Any]
) -> None:
    """Copy each tensor of a state dict that is a part of a larger storage.

    On a GPU cuDNN has the weights of a torch.nn.LSTM in one storage. safetensors refuses to write
    such a tensor, and accelerate takes those of one storage for one tied weight under several
    names and writes the first of them alone. Tensors that are all of their storage, tied ones
    among them, stay what they are, and so do parameters (`state_dict(keep_vars=True)`).

    Args:
        module, local_metadata: not looked at; a hook of `register_state_dict_post_hook` has them.
        state: of the module and others; changed in place.
        prefix: of the names of the module's own tensors.
    """
    for name, tensor in state.items():
        is_own = name.startswith(prefix) and isinstance(tensor, Tensor)
        if not is_own or isinstance(tensor, nn.Parameter):
            continue
        if tensor.untyped_storage().nbytes() > tensor.nbytes:
            state[name] = tensor.clone()
