"""Gradients from the reference in plain torch, where a kernel has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unbounded.checks import is_batched
from unbounded.errors import BackendError, say_once

#: Maps the tensors of a call to its results, in plain torch.
Reference = Callable[..., Sequence[Tensor]]


def contiguous(grads: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the gradients as contiguous tensors."""
    return [None if grad is None else grad.contiguous() for grad in grads]


def is_for_reference(grads: Sequence[Tensor | None]) -> bool:
    """Whether no kernel can compute this backward pass."""
    if torch.compiler.is_compiling():
        return False
    return torch.is_grad_enabled() or any(grad is not None and is_batched(grad) for grad in grads)


def through_reference(
    what: str,
    reference: Reference | None,
    call: Callable[[Reference], Sequence[Tensor]],
    tensors: Sequence[Tensor | None],
    needs: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Compute gradients from the reference in plain torch; if requested, they are differentiable.

    Args:
        what: the kernel's name for messages. reference: or None.
        call: calls the reference with the tensors of the call.
        tensors: the inputs. needs: which of them need a gradient.
        grads: gradients of the results, or None; batched under vmap.
    Raises:
        BackendError: there is no reference.
    """
    create_graph = torch.is_grad_enabled()
    request, limit = (
        ("with create_graph=True", "has no double backward")
        if create_graph
        else ("for many gradients at once (vmap, is_grads_batched)", "takes one")
    )
    if reference is None:
        raise BackendError(
            f"backward {request}: the fused {what} {limit} and has no reference to fall back on; "
            "use backend='reference'"
        )
    say_once(
        f"backward {request}: the fused {what} {limit}, so the gradients come from the reference "
        "path"
    )
    with torch.enable_grad():
        results = call(reference)
    pairs = [
        (result, grad) for result, grad in zip(results, grads, strict=True) if grad is not None
    ]
    expected = [t for t, need in zip(tensors, needs, strict=True) if need and t is not None]
    gradients = iter(
        torch.autograd.grad(
            [result for result, _ in pairs],
            expected,
            [grad for _, grad in pairs],
            create_graph=create_graph,
            allow_unused=True,
        )
    )
    return tuple(next(gradients) if need else None for need in needs)
