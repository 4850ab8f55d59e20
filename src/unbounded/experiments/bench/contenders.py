"""What is timed against what: one forward and backward pass of each, as a function to call."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor, nn

from unbounded import kernels
from unbounded.experiments.bench.cases import Case, make_memory
from unbounded.layers import MemoryRNN

Pass = Callable[[], object]

#: What the scan in jax knows.
JAX_MEMORIES = ("stack", "queue", "deque")


def memory_layer(case: Case, backend: str) -> MemoryRNN:
    """Make the layer of a case, with the same weights for every backend."""
    torch.manual_seed(0)
    return MemoryRNN(
        case.input,
        case.hidden,
        make_memory(case),
        case.controller,
        output_size=case.output,
        backend=backend,
        dtype=getattr(torch, case.dtype),
    )


def sequence(case: Case, size: int) -> Tensor:
    """Make an input [T, B, size] that wants a gradient, as an embedding's output does."""
    generator = torch.Generator().manual_seed(1)
    dtype = getattr(torch, case.dtype)
    shape = (case.steps, case.batch, size)
    return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()


def forward_backward(layer: nn.Module, x: Tensor) -> Pass:
    """Return a function that runs `layer` on x and computes every gradient."""

    def run() -> object:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        output, _ = layer(x)
        output.sum().backward()
        return output

    return run


def torch_layer(case: Case) -> nn.Module:
    """Make PyTorch's layer of the same controller, whose input is as wide as input and reading."""
    kinds: dict[str, Callable[..., nn.Module]] = {"lstm": nn.LSTM, "gru": nn.GRU, "elman": nn.RNN}
    dtype = getattr(torch, case.dtype)
    return kinds[case.controller](case.input + case.read_vector, case.hidden, dtype=dtype)


def without_memory(run: Pass) -> Pass:
    """Return the same pass with the memory's part of every step left out of the kernel."""

    def bare() -> object:
        with kernels.without_memory():
            return run()

    return bare


def knows_jax(case: Case) -> bool:
    """Whether there is a jax.lax.scan of a case here."""
    known = case.controller == "lstm" and case.memory in JAX_MEMORIES
    return known and importlib.util.find_spec("jax") is not None


def contenders(case: Case) -> dict[str, Pass]:
    """Return what is timed for a case, by name.

    "fused" and "reference" are the same layer; "without_memory" is the fused pass with the memory's
    part of every step left out; "torch" is PyTorch's layer of the same controller and input size
    without a memory; "jax" is the same model as a jax.lax.scan, where jax is installed and knows
    the case.
    """
    x = sequence(case, case.input)
    layer = memory_layer(case, "cpu")
    fused = forward_backward(layer, x)
    found: dict[str, Pass] = {
        "fused": fused,
        "torch": forward_backward(torch_layer(case), sequence(case, case.input + case.read_vector)),
        "without_memory": without_memory(fused),
        "reference": forward_backward(memory_layer(case, "reference"), sequence(case, case.input)),
    }
    if knows_jax(case):
        from unbounded.experiments.bench.jax_scan import Scan

        found["jax"] = Scan(case, layer, x).forward_backward
    return found
