"""When the fused kernels can serve, and why not otherwise."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unbounded.errors import BackendError
from unbounded.kernels._library import FAULT, WHY_NOT_LOADED
from unbounded.kernels._registry import DEVICES

_DTYPES = (torch.float32, torch.float64)


def check_wanted() -> None:
    """Raise BackendError where the environment asks for kernels that are not there.

    At the first use that could be served by them, and not at import: `unbounded doctor` says what
    is missing.
    """
    if FAULT:
        raise BackendError(FAULT)


def why_not(*tensors: Tensor | None) -> str | None:
    """Why the fused kernels cannot serve a call with these tensors, or None if they can."""
    if WHY_NOT_LOADED:
        return WHY_NOT_LOADED
    present = [tensor for tensor in tensors if tensor is not None]
    for tensor in present:
        if tensor.device.type not in DEVICES:
            names = ", ".join(DEVICES).upper()
            return f"the kernels run on the {names} and a tensor is on {tensor.device}"
        if tensor.is_floating_point() and tensor.dtype not in _DTYPES:
            return f"the kernels take float32 and float64 and a tensor is {tensor.dtype}"
        if tensor.is_complex():
            return "the kernels take real numbers and a tensor is complex"
    dtypes = {tensor.dtype for tensor in present if tensor.is_floating_point()}
    if len(dtypes) > 1:
        return f"the kernels take one dtype and were given {sorted(map(str, dtypes))}"
    if torch.compiler.is_compiling():
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "the kernels cannot be transformed by torch.func (vmap, jvp, grad)"
    if any(torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in present):
        return "the kernels cannot be transformed by torch.func (vmap, jvp, grad)"
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(tensor).tangent is not None
        for tensor in present
        if tensor.is_floating_point()
    ):
        return "the kernels have no forward-mode derivative"
    return None
