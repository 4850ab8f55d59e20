"""The fused recurrence of controller, heads and memory: its face in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from unbounded.errors import BackendError, ChoiceError, DTypeError, ShapeError
from unbounded.kernels._autograd import Recurrence
from unbounded.kernels._library import available
from unbounded.kernels._shapes import CONTROLLERS, PARTS, STRUCTURES

Results = tuple[Tensor, tuple[Tensor, ...], Tensor]


class ControllerWeights(NamedTuple):
    """The weights of a controller, G gates of H units each.

    Fields:
        weight_ih: [G * H, I + R]. weight_hh: [G * H, H] or None without recurrence.
        bias_ih, bias_hh: [G * H] or None.
    """

    weight_ih: Tensor
    weight_hh: Tensor | None
    bias_ih: Tensor | None
    bias_hh: Tensor | None


def why_not(*tensors: Tensor | None) -> str | None:
    """Why the fused kernels cannot serve a call with these tensors, or None if they can."""
    here = available()
    if not here.ok:
        return here.reason
    given = [tensor for tensor in tensors if tensor is not None]
    for tensor in given:
        if tensor.device.type != "cpu":
            return f"the kernels run on the CPU and a tensor is on {tensor.device}"
        if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
            return f"the kernels take float32 and float64 and a tensor is {tensor.dtype}"
        if tensor.is_complex():
            return "the kernels take real numbers and a tensor is complex"
    dtypes = {tensor.dtype for tensor in given if tensor.is_floating_point()}
    if len(dtypes) > 1:
        return f"the kernels take one dtype and were given {sorted(map(str, dtypes))}"
    if torch.compiler.is_compiling():
        return None
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "the kernels cannot be transformed by torch.func (vmap, jvp, grad)"
    if any(torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in given):
        return "the kernels cannot be transformed by torch.func (vmap, jvp, grad)"
    if forward_ad._current_level >= 0 and any(
        forward_ad.unpack_dual(tensor).tangent is not None
        for tensor in given
        if tensor.is_floating_point()
    ):
        return "the kernels have no forward-mode derivative"
    return None


def _expect(name: str, tensor: Tensor, shape: tuple[int, ...], like: Tensor) -> Tensor:
    if tuple(tensor.shape) != shape:
        raise ShapeError(f"{name} must have shape {list(shape)}, got {list(tensor.shape)}")
    if tensor.dtype != like.dtype:
        raise DTypeError(f"{name} must have the dtype of x, {like.dtype}, got {tensor.dtype}")
    return tensor.contiguous()


def _expect_if(
    name: str, tensor: Tensor | None, shape: tuple[int, ...], like: Tensor
) -> Tensor | None:
    return None if tensor is None else _expect(name, tensor, shape, like)


def recurrence(
    structure: str,
    controller: str,
    x: Tensor,
    lengths: Tensor | None,
    weights: ControllerWeights,
    head_weight: Tensor,
    head_bias: Tensor,
    initial: tuple[Tensor, ...],
    *,
    reference: Callable[..., Results] | None = None,
) -> Results:
    """Controller, heads and memory over a whole sequence, fused.

    Args:
        structure: "stack", "queue" or "deque".
        controller: "lstm", "gru", "elman_tanh", "elman_sigmoid" or "elman_relu".
        x: [T, B, I].
        lengths: int64 [B] in 0..T, or None; beyond its length a row keeps its state and puts out 0.
        weights: of the controller, whose input is concat(x_t, r_{t-1}).
        head_weight: [K, H]; rows in the order of the memory's instruction.
        head_bias: [K].
        initial: hidden [B, H], (cell [B, H]), reading [B, R], values [B, N, M], strengths [B, N];
            strengths are not negative.
        reference: the same function in plain torch, with the same arguments and results; used
            where gradients must themselves be differentiable.

    Returns:
        hidden [T, B, H], the final state laid out as `initial`, and its values
        [B, N + T, M] (deque: [B, N + 2T, M]).

    Raises:
        BackendError: the kernels cannot serve the call; the message says why.
        ShapeError: an axis disagrees; the message names the argument.
        DTypeError: a dtype disagrees.
    """
    if structure not in STRUCTURES:
        raise ChoiceError("structure", structure, STRUCTURES)
    if controller not in CONTROLLERS:
        raise ChoiceError("controller", controller, CONTROLLERS)
    reason = why_not(x, lengths, *weights, head_weight, head_bias, *initial)
    if reason is not None:
        raise BackendError(reason)
    expected = 5 if CONTROLLERS[controller].has_cell else 4
    if len(initial) != expected:
        raise ShapeError(f"initial must have {expected} tensors for {controller}")
    hidden0, *cell, reading0, values0, strengths0 = initial
    if x.dim() != 3:
        raise ShapeError(f"x must have shape [T, B, I], got {list(x.shape)}")
    if hidden0.dim() != 2:
        raise ShapeError(f"hidden must have shape [B, H], got {list(hidden0.shape)}")
    if values0.dim() != 3:
        raise ShapeError(f"values must have shape [B, N, M], got {list(values0.shape)}")
    _, batch, inputs = x.shape
    hidden, (_, rows, width) = hidden0.shape[1], values0.shape
    parts = PARTS[structure]
    reading, gates, heads = (
        parts * width,
        CONTROLLERS[controller].blocks * hidden,
        parts * (width + 2),
    )
    if hidden == 0 or width == 0:
        raise ShapeError("the hidden size and the width of the memory must be positive")
    if lengths is not None:
        if tuple(lengths.shape) != (batch,):
            raise ShapeError(f"lengths must have shape [{batch}], got {list(lengths.shape)}")
        if lengths.dtype != torch.int64:
            raise DTypeError(f"lengths must be int64, got {lengths.dtype}")
        lengths = lengths.contiguous()
    if weights.weight_hh is None and not controller.startswith("elman"):
        raise BackendError(f"weight_hh: a {controller} cannot do without it")
    tensors: list[Any] = [
        x.contiguous(),
        _expect("weight_ih", weights.weight_ih, (gates, inputs + reading), x),
        _expect_if("weight_hh", weights.weight_hh, (gates, hidden), x),
        _expect_if("bias_ih", weights.bias_ih, (gates,), x),
        _expect_if("bias_hh", weights.bias_hh, (gates,), x),
        _expect("head_weight", head_weight, (heads, hidden), x),
        _expect("head_bias", head_bias, (heads,), x),
        _expect("hidden", hidden0, (batch, hidden), x),
        _expect("cell", cell[0], (batch, hidden), x) if cell else x.new_empty(batch, 0),
        _expect("reading", reading0, (batch, reading), x),
        _expect("values", values0, (batch, rows, width), x),
        _expect("strengths", strengths0, (batch, rows), x),
    ]
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        results = Recurrence.apply(
            None if reference is None else _flat_reference(reference),
            structure,
            controller,
            lengths,
            *tensors,
        )
    else:
        x, weight_ih, weight_hh, bias_ih, bias_hh, *rest = tensors
        results = torch.ops.unbounded.recurrence(
            structure, controller, x, lengths, weight_ih, weight_hh, bias_ih, bias_hh, *rest, False
        )
    outputs, hidden_last, cell_last, reading_last, values, strengths = results[:6]
    cells = (cell_last,) if cell else ()
    return outputs, (hidden_last, *cells, reading_last, values, strengths), values


def _flat_reference(reference: Callable[..., Results]) -> Callable[..., tuple[Tensor, ...]]:
    def flat(
        structure: str, controller: str, lengths: Tensor | None, tensors: list[Tensor]
    ) -> tuple[Tensor, ...]:
        x, weight_ih, weight_hh, bias_ih, bias_hh, head_weight, head_bias, *initial = tensors
        if not CONTROLLERS[controller].has_cell:
            del initial[1]
        outputs, final, _ = reference(
            structure, controller, x, lengths,
            ControllerWeights(weight_ih, weight_hh, bias_ih, bias_hh),
            head_weight, head_bias, tuple(initial),
        )  # fmt: skip
        if CONTROLLERS[controller].has_cell:
            return (outputs, *final)
        return (outputs, final[0], x.new_empty(x.shape[1], 0), *final[1:])

    return flat
