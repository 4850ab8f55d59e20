"""Layers under torch.func."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.tolerances import assert_close
from unbounded import kernels
from unbounded.errors import NonFiniteError, say_once

MEMORIES = {
    "stack": ub.NeuralStack(3),
    "queue": ub.NeuralQueue(3),
    "deque": ub.NeuralDeque(3),
    "superposition_stack": ub.SuperpositionStack(2),
    # Full after the second of three steps, where it is looked whether something is lost.
    "superposition_list": ub.SuperpositionList(2, capacity=3, overflow="error"),
    "turing_tape": ub.TuringTape(5, 3),
    "lie_access": ub.LieAccessMemory(3),
    "lie_access_growing": ub.LieAccessMemory(3, "scaling_rotation", "softmax", "free"),
}
needs_kernels = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)
pytestmark = [
    # That the readable loop runs is what is wanted here.
    pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning"),
    pytest.mark.filterwarnings("ignore:backward .* the gradients come from the reference path"),
    # Of torch's own unfold.
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]


def draw(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(memory, **options):
    torch.manual_seed(0)
    return ub.MemoryRNN(4, 5, MEMORIES[memory], batch_first=True, dtype=torch.float64, **options)


def gradients_per_sample(layer, *inputs):
    """Gradients of each sample's loss by vmap, and one after the other."""
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def loss(weights, *sample):
        return torch.func.functional_call(layer, weights, sample)[0].square().sum()

    together = torch.func.vmap(torch.func.grad(loss), (None, *(0 for _ in inputs)))(
        weights, *inputs
    )
    alone = [
        torch.autograd.grad(layer(*sample)[0].square().sum(), list(layer.parameters()))
        for sample in zip(*inputs, strict=True)
    ]
    return list(together.values()), [torch.stack(parts) for parts in zip(*alone, strict=True)]


@pytest.mark.parametrize("memory", MEMORIES)
def test_gradients_of_each_sample_by_vmap(memory):
    layer = make(memory)
    for got, want in zip(*gradients_per_sample(layer, draw(2, 1, 3, 4)), strict=True):
        assert_close(got, want, "gradient of a sample")


def test_lengths_of_each_sample_by_vmap():
    layer, lengths = make("stack"), torch.tensor([[2], [3]])

    def outputs(x, lengths):
        return layer(x, None, lengths)[0]

    x = draw(2, 1, 3, 4)
    got = torch.func.vmap(outputs)(x, lengths)
    want = torch.stack([outputs(*sample) for sample in zip(x, lengths, strict=True)])
    assert_close(got, want, "outputs")


def test_a_long_state_of_each_sample_by_vmap():
    layer = make("stack")
    with torch.no_grad():
        _, state = layer(draw(2, 65, 4))
        got = torch.func.vmap(
            lambda x, values, strengths: layer(
                x, layer.initial_state(1)._replace(memory=ub.memories.StackState(values, strengths))
            )[0]
        )(draw(2, 1, 3, 4), state.memory.values.unsqueeze(1), state.memory.strengths.unsqueeze(1))
        want, _ = layer(
            draw(2, 1, 3, 4)[:, 0], layer.initial_state(2)._replace(memory=state.memory)
        )
    assert_close(got[:, 0], want, "outputs")


def test_keys_beyond_bounds_are_an_error_under_grad_and_not_looked_for_under_vmap():
    memory = MEMORIES["lie_access_growing"]
    state = memory.initial_state(2, dtype=torch.float64)
    state = state._replace(write_key=torch.full_like(state.write_key, 1e19))
    ones = memory.Instruction(
        *(torch.ones(2, *head.shape, dtype=torch.float64) for head in memory.heads)
    )
    ones = ones._replace(write_key_gate=torch.zeros(2, dtype=torch.float64))

    def read(value):
        return memory.step(state, ones._replace(value=value))[0].sum()

    with pytest.raises(NonFiniteError, match="write_key"):
        torch.func.grad(read)(ones.value)

    def key(write_key):
        return memory.step(state._replace(write_key=write_key), ones)[1].write_key

    keys = torch.func.vmap(key)(torch.stack([state.write_key, state.write_key]))
    assert bool((keys.abs().amax(dim=-1) > 1e18).all())
