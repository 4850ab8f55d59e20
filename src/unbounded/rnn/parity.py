"""Check the fused kernels by running a small layer on a kernel and on the reference."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unbounded.memories import MEMORIES
from unbounded.memories.core import state_tensors
from unbounded.rnn.memory_rnn import MemoryRNN

#: Bound on the relative error in float64.
TOLERANCE = 1e-10

_SIZES = {"input": 3, "hidden": 9, "width": 5, "batch": 4, "steps": 12}


def kernel_error(memory: str, backend: str = "cpu") -> float:
    """Run a small layer forward and backward on a kernel and on the reference, in float64.

    Args:
        memory: name of the memory, as in `unbounded list`.
        backend: the kernels to compare, "cpu" or "cuda".
    Returns:
        the largest difference in an output, the final state or a gradient, relative to the largest
        value of its tensor.
    Raises:
        BackendError: the kernels cannot serve this layer; the message has the reason.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = _layer(memory, backend)
        reference = _layer(memory, "reference")
        reference.load_state_dict(layer.state_dict())
        inputs = torch.randn(_SIZES["batch"], _SIZES["steps"], _SIZES["input"], dtype=torch.float64)
    if backend == "cuda":
        layer, reference, inputs = layer.cuda(), reference.cuda(), inputs.cuda()
    lengths = torch.tensor([_SIZES["steps"], 7, 1, 0])
    pairs = zip(_run(layer, inputs, lengths), _run(reference, inputs, lengths), strict=True)
    return max(relative_error(got, expected) for got, expected in pairs)


def relative_error(got: Tensor, expected: Tensor) -> float:
    """Largest difference divided by the largest expected value. All-zero tensors must be equal.

    The error is infinite if a value on either side is not finite. However, -inf (the log of 0) may
    be at the same places in both tensors.
    """
    got, expected = got.detach(), expected.detach()
    counted = (got != -math.inf) | (expected != -math.inf)
    if not counted.any():
        return 0.0
    got, expected = got[counted], expected[counted]
    difference = float((got - expected).abs().max())
    scale = float(expected.abs().max())
    if not math.isfinite(difference) or not math.isfinite(scale):
        return math.inf
    if scale == 0:
        return 0.0 if difference == 0 else math.inf
    return difference / scale


def _layer(memory: str, backend: str) -> MemoryRNN:
    return MemoryRNN(
        _SIZES["input"],
        _SIZES["hidden"],
        MEMORIES[memory](_SIZES["width"]),
        batch_first=True,
        backend=backend,
        learn_initial_state=True,
        dtype=torch.float64,
    )


def _run(layer: MemoryRNN, inputs: Tensor, lengths: Tensor) -> list[Tensor]:
    """Compute output, final state and every gradient."""
    inputs = inputs.clone().requires_grad_()
    output, state = layer(inputs, lengths=lengths)
    results = [output, *state_tensors(state)]
    weights = [
        torch.linspace(-1, 1, tensor.numel(), dtype=tensor.dtype, device=tensor.device)
        for tensor in results
    ]
    loss = sum(
        (tensor.flatten() * weight).sum() for tensor, weight in zip(results, weights, strict=True)
    )
    gradients = torch.autograd.grad(loss, [inputs, *layer.parameters()])
    return [tensor.detach() for tensor in (*results, *gradients)]
