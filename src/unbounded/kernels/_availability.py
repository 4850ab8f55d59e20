"""Whether the fused kernels can compute a call, with the reason if they cannot."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unbounded.checks import FLOATING, is_traced
from unbounded.errors import BackendError
from unbounded.kernels import gpu
from unbounded.kernels._library import ERROR, WHY_NOT_LOADED
from unbounded.kernels._registry import DEVICES, IMPLEMENTED
from unbounded.kernels._structures import BY_TYPE
from unbounded.memories import Memory
from unbounded.memories.core.structure import Structure
from unbounded.replaced import replaced_method


def check_expected() -> None:
    """Raise BackendError if kernels that the environment requires are missing.

    The error is raised at the first use, not at import, so that `unbounded doctor` can report what
    is missing.
    """
    if ERROR:
        raise BackendError(ERROR)


def why_not(operator: str, structure: Structure[Any] | None, *tensors: Tensor | None) -> str | None:
    """The reason why the fused kernels cannot compute a call with these tensors; None if they can.

    Args:
        operator: its name in the registry.
        structure: the memory; None if irrelevant.
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
        if tensor.is_floating_point() and tensor.dtype not in FLOATING:
            return f"the kernels take float32 and float64, but a tensor is {tensor.dtype}"
        if tensor.is_complex():
            return "the kernels take real numbers, but a tensor is complex"
    dtypes = {tensor.dtype for tensor in present if tensor.is_floating_point()}
    if len(dtypes) > 1:
        return f"the tensors of a call must have one dtype, got {sorted(map(str, dtypes))}"
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
    """The reason why a captured graph cannot contain the operators; None if there is no reason."""
    if not torch.compiler.is_compiling() and is_traced():
        return (
            "torch.jit.trace keeps no names of activations; torch.export.export keeps them, and "
            "the kernels"
        )
    # This module is imported only by programs that export to ONNX.
    if torch.compiler.is_dynamo_compiling() or "torch.onnx" not in sys.modules:
        return None
    if torch.onnx.is_in_onnx_export():
        return (
            "ONNX has no operator for them; the reference implementation can be exported, for one "
            "fixed T"
        )
    return None


def _why_not_on(
    device: torch.device, operator: str, structure: Structure[Any] | None
) -> str | None:
    """The reason why a device has no kernel for an operator; None if it has one."""
    kind = device.type
    if kind not in DEVICES:
        names = " and ".join(DEVICES).upper()
        return f"the kernels run on {names}, but a tensor is on {kind}"
    if kind == "cpu" and WHY_NOT_LOADED:
        return WHY_NOT_LOADED
    if (operator, kind) not in IMPLEMENTED:
        what = "the delta rule" if operator == "delta_rule" else "a memory without its controller"
        return f"no kernel for {kind.upper()} runs {what}"
    return gpu.why_not(structure, device.index) if kind == "cuda" else None


def why_no_kernel(memory: Memory[Any, Any]) -> str | None:
    """The reason why no kernel supports a memory; None if a kernel does."""
    kind = BY_TYPE.get(type(memory))
    if kind is None:
        return f"no kernel supports the memory {type(memory).__name__}"
    name = replaced_method(memory)
    replaced = f"{type(memory).__name__}.{name} is replaced, which only the reference calls"
    return kind.why_not(memory) or (None if name is None else replaced)


def negative_field(structure: Structure[Any], *groups: Any) -> str | None:
    """Return the first field with a negative number, which the kernel does not accept, or None.

    Args:
        groups: instructions and states. Nothing is checked while a graph is being captured.
    """
    if torch.compiler.is_compiling():
        return None
    for name in structure.nonnegative:
        for group in groups:
            field = getattr(group, name, None)
            # An empty field is skipped, because it needs no check, and a check synchronizes the
            # device.
            if field is not None and field.numel() and bool((field < 0).any()):
                return f"the kernels take a {name} of at least 0"
    return None
