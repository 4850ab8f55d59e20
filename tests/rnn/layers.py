"""Numbers and checks for every layer: gradients, chunks with the carried state, and padding."""

from __future__ import annotations

import torch

import unbounded as ub
from tests.tolerances import assert_close
from unbounded.memories.core import state_tensors


def random(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


DELTA_LAYERS = {
    "deltanet": lambda **options: ub.DeltaNet(3, 8, 2, 2, **options),
    "without convolution": lambda **options: ub.DeltaNet(3, 8, 2, 2, conv_size=0, **options),
    "deltaproduct": lambda **options: ub.DeltaProduct(3, 8, 3, 2, 2, **options),
}


def delta_layer(kind, **options):
    torch.manual_seed(0)
    return DELTA_LAYERS[kind](**{"batch_first": True, "dtype": torch.float64, **options})


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


def check_padding(layer, x, after, lengths, begun=None):
    """Each sequence of x [B, T, ...] equals a single call, also in `after` and in gradients.

    States are compared where they do not grow; returns the output.
    """
    output, state = layer(x, begun, lengths)
    rest, _ = layer(after, state)
    weights = list(layer.parameters())

    def gradients(parts):
        loss = sum(part.square().sum() for part in parts)
        return torch.autograd.grad(loss, weights, retain_graph=True, materialize_grads=True)

    apart = []
    for row, length in enumerate(lengths.tolist()):
        assert output[row, length:].abs().sum() == 0
        own = None if begun is None else ub.index_state(begun, [row])
        if length:
            alone, own = layer(x[row : row + 1, :length], own)
            assert_close(output[row, :length], alone[0], "output")
            apart.append(alone)
        if own is not None:
            of_row = state_tensors(ub.index_state(state, [row]))
            for one, other in zip(of_row, state_tensors(own), strict=True):
                if one.shape == other.shape:
                    torch.testing.assert_close(one, other)
        later, _ = layer(after[row : row + 1], own)
        assert_close(rest[row], later[0], "later steps")
        apart.append(later)
    for one, other in zip(gradients([output, rest]), gradients(apart), strict=True):
        assert_close(one, other, "gradient")
    return output
