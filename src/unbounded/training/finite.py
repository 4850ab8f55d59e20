"""Find the first tensor with NaN or infinite values, in the order of a step's computation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.memories import Memory
from unbounded.rnn import MemoryAttention, MemoryLayer


def describe(tensor: Tensor) -> str | None:
    """The counts of values that are not finite; None if all are finite."""
    if not tensor.is_floating_point() or bool(torch.isfinite(tensor).all()):
        return None
    nans = int(torch.isnan(tensor).sum())
    infinite = int(torch.isinf(tensor).sum())
    return f"{nans} NaN and {infinite} infinite of {tensor.numel()} values"


def first_bad(named: Iterable[tuple[str, Tensor | None]]) -> str | None:
    """The name of the first tensor that is not finite, with its counts."""
    for name, tensor in named:
        error = None if tensor is None else describe(tensor.detach())
        if error is not None:
            return f"{name} ({error})"
    return None


def parameters(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield each parameter with the text `parameter NAME`."""
    for name, tensor in model.named_parameters():
        yield f"parameter {name}", tensor


def gradients(model: nn.Module) -> Iterator[tuple[str, Tensor | None]]:
    """Yield each gradient with the text `gradient of NAME`."""
    for name, tensor in model.named_parameters():
        yield f"gradient of {name}", tensor.grad


def first_bad_output(model: nn.Module, inputs: Tensor) -> str | None:
    """Run the model again and name the first module or memory whose output is not finite.

    Args:
        model: is called as model(inputs).
        inputs: tokens, int64 [B, T].
    Returns:
        `output of MODULE (...)`, modules in the order in which they finish (embedding, layer,
        logits), or `read vector of MEMORY in MODULE (...)`; None when all are finite.
    """
    errors: list[str] = []

    def hook(name: str) -> Any:
        def look(module: nn.Module, inputs: Any, output: Any) -> None:
            if not errors:
                named = ((f"output of {name}", tensor) for tensor in _tensors(output))
                error = first_bad(named)
                if error is not None:
                    errors.append(error)

        return look

    def read_hook(name: str, memory: Memory[Any, Any]) -> Any:
        what = f"read vector of {type(memory).__name__} in {name}"

        def look(module: nn.Module, inputs: Any) -> None:
            if not errors:
                error = first_bad([(what, inputs[0][..., -memory.read_vector_size :])])
                errors.extend([] if error is None else [error])

        return look

    # Hooks run only inside the reference implementation. With an explicit kernel backend, the call
    # would fail.
    chosen = [(module, module.backend) for module in model.modules() if hasattr(module, "backend")]
    for module, _ in chosen:
        setattr(module, "backend", "reference")  # noqa: B010, a plain attribute of some layers
    handles = [
        module.register_forward_hook(hook(name or "the model"))
        for name, module in model.named_modules()
    ]
    for name, module in model.named_modules():
        if isinstance(module, MemoryLayer | MemoryAttention):
            reader = module.controller if isinstance(module, MemoryLayer) else module.output
            handles.append(reader.register_forward_pre_hook(read_hook(name, module.memory)))
    try:
        with torch.no_grad():
            model(inputs)
    finally:
        for handle in handles:
            handle.remove()
        for module, backend in chosen:
            setattr(module, "backend", backend)  # noqa: B010
    return errors[0] if errors else None


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
