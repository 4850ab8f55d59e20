"""When the fused kernels can serve, and why not otherwise."""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unbounded.checks import is_traced
from unbounded.errors import BackendError
from unbounded.kernels import gpu
from unbounded.kernels._library import FAULT, WHY_NOT_LOADED
from unbounded.kernels._registry import DEVICES, IMPLEMENTED
from unbounded.kernels.structures import Structure

_DTYPES = (torch.float32, torch.float64)


def check_wanted() -> None:
    """Raise BackendError where the environment asks for kernels that are not there.

    At the first use that could be served by them, and not at import: `unbounded doctor` says what
    is missing.
    """
    if FAULT:
        raise BackendError(FAULT)


def why_not(operator: str, structure: Structure | None, *tensors: Tensor | None) -> str | None:
    """Why the fused kernels cannot serve a call with these tensors, or None if they can.

    Args:
        operator: its name in the registry.
        structure: the memory; None where it does not matter.
    """
    reason = _why_not_in_graph()
    if reason is not None:
        return reason
    present = [tensor for tensor in tensors if tensor is not None]
    for device in dict.fromkeys(tensor.device for tensor in present):
        reason = _why_not_on(device, operator, structure)
        if reason is not None:
            return reason
    for tensor in present:
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


def _why_not_in_graph() -> str | None:
    """Why the graph that is being made cannot hold the operators, or None if it can or is none."""
    if not torch.compiler.is_compiling() and is_traced():
        return (
            "torch.jit.trace keeps no names of activations; torch.export.export keeps them, and "
            "the kernels"
        )
    # It is not imported where nobody exports to ONNX.
    if torch.compiler.is_dynamo_compiling() or "torch.onnx" not in sys.modules:
        return None
    if torch.onnx.is_in_onnx_export():
        return "ONNX has no operator for them; the readable loop can be exported, for one fixed T"
    return None


def _why_not_on(device: torch.device, operator: str, structure: Structure | None) -> str | None:
    """Why a device has no kernel for an operator, or None if it has."""
    kind = device.type
    if kind not in DEVICES:
        names = " and ".join(DEVICES).upper()
        return f"the kernels run on {names} and a tensor is on {kind}"
    if kind == "cpu" and WHY_NOT_LOADED:
        return WHY_NOT_LOADED
    if (operator, kind) not in IMPLEMENTED:
        return f"no kernel for {kind.upper()} runs a memory without its controller"
    return gpu.why_not(structure, device.index) if kind == "cuda" else None
