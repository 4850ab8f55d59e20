"""Checks for every layer: gradients, chunks with the carried state, and padding."""

from __future__ import annotations

import torch

import unbounded as ub
from tests.tolerances import assert_close
from unbounded.memories.core import state_tensors


def check_gradients(layer, x, *rest, **options):
    """float64 gradcheck of outputs and state in the input and all parameters."""
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *parameters):
        own = dict(zip(names, parameters, strict=True))
        torch.manual_seed(0)  # a memory may draw its initial state
        output, state = torch.func.functional_call(layer, own, (x, *rest), tie_weights=False)
        parts = [part for part in state_tensors(state) if part.is_floating_point() and part.numel()]
        # Logs of 0 have no finite difference.
        return output, *(part.masked_fill(part == -torch.inf, 0.0) for part in parts)

    parameters = [each.detach().clone().requires_grad_() for each in layer.parameters()]
    assert torch.autograd.gradcheck(run, (x.requires_grad_(), *parameters), **options)


def check_chunks(layer, x, sizes, state=None):
    """Chunks of x [B, T, ...] equal one call, with equal states; returns the last state."""
    full, end = layer(x, state)
    outputs = []
    for part in x.split(sizes, dim=1):
        output, state = layer(part, state if state is None else ub.detach_state(state))
        outputs.append(output)
    assert_close(torch.cat(outputs, dim=1), full, "output")
    for one, other in zip(state_tensors(state), state_tensors(end), strict=True):
        torch.testing.assert_close(one, other)
    return state


def check_padding(layer, x, after, lengths):
    """Each sequence of x [B, T, ...] equals a single call, continued or not; returns the output."""
    output, state = layer(x, lengths=lengths)
    for row, length in enumerate(lengths.tolist()):
        assert output[row, length:].abs().sum() == 0
        alone, _ = layer(torch.cat([x[row : row + 1, :length], after[row : row + 1]], dim=1))
        assert_close(output[row, :length], alone[0, :length], "output")
        own = ub.index_state(state, [row])
        assert_close(layer(after[row : row + 1], own)[0][0], alone[0, length:], "later steps")
    return output
