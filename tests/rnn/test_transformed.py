"""Layers under torch.func, and backward passes for many gradients at once."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.tolerances import assert_close
from unbounded import kernels
from unbounded.errors import MemoryOverflowError, NonFiniteError, say_once

MEMORIES = {
    "stack": ub.NeuralStack(3),
    "queue": ub.NeuralQueue(3),
    "deque": ub.NeuralDeque(3),
    "superposition_stack": ub.SuperpositionStack(2),
    # Full after the second of three steps, where lost cells are checked.
    "superposition_list": ub.SuperpositionList(2, capacity=3, overflow="error"),
    "turing_tape": ub.TuringTape(5, 3),
    "lie_access": ub.LieAccessMemory(3),
    "lie_access_growing": ub.LieAccessMemory(3, "scaling_rotation", "softmax", "free"),
}
needs_kernels = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)
pytestmark = [
    # The reference implementation is intended here.
    pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning"),
    pytest.mark.filterwarnings("ignore:backward .* the gradients come from the reference path"),
    # A warning of torch's unfold.
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]


def draw(*shape, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(memory, **options):
    torch.manual_seed(0)
    return ub.MemoryRNN(4, 5, MEMORIES[memory], batch_first=True, dtype=torch.float64, **options)


def gradients_per_sample(layer, *inputs):
    """Gradients of each sample's loss, by vmap and in a loop."""
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


def test_keys_beyond_bounds_are_an_error_under_grad_and_nan_under_vmap():
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
    assert bool(keys.isnan().any(dim=-1).all())


@pytest.mark.parametrize("kind", [ub.SuperpositionStack, ub.SuperpositionList])
def test_only_lost_cells_are_nan_under_vmap(kind):
    memory = kind(2, depth=1, noop=False, capacity=3)
    push = 0 if kind is ub.SuperpositionStack else 2

    def last(actions):
        state = memory.initial_state(1, dtype=torch.float64)
        for action in actions:
            instruction = memory.Instruction(action, torch.full((1, 2), 0.5, dtype=torch.float64))
            _, state = memory.step(state, instruction)
        return state.cells

    full = torch.eye(len(memory.actions), dtype=torch.float64)
    often = full[torch.full((1, 2), push)]
    never = full[torch.tensor([[push, 1]])]
    # In the second sample both structures lose a cell, in the first only the first one.
    many = torch.stack([torch.stack([never] * 5), torch.stack([often] * 5)])
    spoiled = torch.func.vmap(last)(many).isnan().all(dim=-1).squeeze(1)
    assert spoiled.tolist() == [[True, False], [True, True]]
    with pytest.raises(MemoryOverflowError):
        last(many[1])


def many_gradients(run, x):
    """Gradients of x for many output gradients: batched in two ways, and in a loop."""
    x = x.clone().requires_grad_()
    outputs = run(x)
    many = draw(4, *outputs.shape, seed=2)

    def of(grad_outputs):
        return torch.autograd.grad(outputs, x, grad_outputs, retain_graph=True)[0]

    (batched,) = torch.autograd.grad(outputs, x, many, retain_graph=True, is_grads_batched=True)
    mapped = torch.func.vmap(of)(many)
    return batched, mapped, torch.stack([of(each) for each in many])


@needs_kernels
@pytest.mark.parametrize("memory", [name for name in MEMORIES if name != "superposition_list"])
@pytest.mark.parametrize("controller", ["lstm", "gru", "elman"])
def test_a_backward_pass_for_many_gradients(memory, controller):
    layer = make(memory, controller=controller, backend="cpu")
    plain = make(memory, controller=controller, backend="reference")
    x, lengths = draw(2, 3, 4), torch.tensor([3, 2])
    batched, mapped, singly = many_gradients(lambda x: layer(x, None, lengths)[0], x)
    _, _, of_plain = many_gradients(lambda x: plain(x, None, lengths)[0], x)
    for got in (batched, mapped, singly):
        assert_close(got, of_plain, "gradient")


@needs_kernels
def test_a_backward_pass_for_many_gradients_warns():
    say_once.cache_clear()
    layer = make("stack", backend="cpu")
    with pytest.warns(RuntimeWarning, match="is_grads_batched.*come from the reference"):
        many_gradients(lambda x: layer(x)[0], draw(2, 3, 4))


@needs_kernels
def test_many_gradients_of_weights_and_states():
    layer = make("queue", num_layers=2)
    weights = list(layer.parameters())
    output, state = layer(draw(2, 3, 4))
    results = [output, *state.memory[0], state.hidden]
    many = [draw(3, *result.shape, seed=k) for k, result in enumerate(results)]
    batched = torch.autograd.grad(results, weights, many, retain_graph=True, is_grads_batched=True)
    singly = [
        torch.autograd.grad(results, weights, [grads[k] for grads in many], retain_graph=True)
        for k in range(3)
    ]
    for got, want in zip(batched, zip(*singly, strict=True), strict=True):
        assert_close(got, torch.stack(want), "gradient")


@needs_kernels
def test_vectorized_jacobian_and_hessian():
    layer, plain = make("stack", backend="cpu"), make("stack", backend="reference")
    x = draw(1, 3, 4)
    functional = torch.autograd.functional
    got = functional.jacobian(lambda x: layer(x)[0], x, vectorize=True)
    assert_close(got, functional.jacobian(lambda x: plain(x)[0], x), "jacobian")
    got = functional.hessian(lambda x: layer(x)[0].square().sum(), x, vectorize=True)
    want = functional.hessian(lambda x: plain(x)[0].square().sum(), x)
    assert_close(got, want, "hessian")


@needs_kernels
@pytest.mark.parametrize("memory", ["stack", "queue", "deque", "lie_access", "turing_tape"])
def test_unroll_with_many_gradients(memory):
    structure = MEMORIES[memory]
    heads = structure.heads
    shapes = [(2, 3, *head.shape) for head in heads]

    def run(x, backend="cpu"):
        parts = x.split([head.size for head in heads], dim=-1)
        fields = [
            torch.softmax(part.reshape(shape), -1)
            if head.activation == "softmax"
            else torch.sigmoid(part.reshape(shape))
            for part, shape, head in zip(parts, shapes, heads, strict=True)
        ]
        return structure.unroll(structure.Instruction(*fields), backend=backend)[0]

    x = draw(2, 3, sum(head.size for head in heads))
    *_, of_plain = many_gradients(lambda x: run(x, "reference"), x)
    for got in many_gradients(run, x):
        assert_close(got, of_plain, "gradient")


@pytest.mark.parametrize("controller", ["lstm", "gru", "elman"])
def test_a_controller_without_a_memory_with_many_gradients(controller):
    layer = ub.ControllerRNN(4, 5, controller, batch_first=True, dtype=torch.float64)
    batched, mapped, singly = many_gradients(lambda x: layer(x)[0], draw(2, 3, 4))
    assert_close(batched, singly, "is_grads_batched")
    assert_close(mapped, singly, "vmap")


@pytest.mark.parametrize("kind", [ub.SuperpositionStack, ub.SuperpositionList])
def test_steps_beyond_a_length_lose_nothing(kind):
    torch.manual_seed(0)
    memory = kind(2, depth=1, capacity=3)
    layer = ub.MemoryRNN(4, 5, memory, batch_first=True, dtype=torch.float64, backend="reference")
    x, lengths = draw(2, 1, 6, 4), torch.tensor([[2], [2]])

    class WithLengths(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, lengths):
            return self.layer(x, None, lengths)

    together, alone = gradients_per_sample(WithLengths(), x, lengths)
    for got, want in zip(together, alone, strict=True):
        assert_close(got, want, "gradient of a sample")
