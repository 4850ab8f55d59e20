"""The Neural Turing Machine as a layer: published sizes, controllers, kernel and reference."""

from __future__ import annotations

import functools

import pytest
import torch

import unbounded as ub
from tests.tolerances import assert_close
from unbounded.rnn.controllers import LSTMController

FEED_FORWARD = functools.partial(ub.ElmanController, activation="relu", recurrent=False)
DELEU = functools.partial(ub.TuringTape, shift="zero", variant="deleu2016")
CONTROLLERS = {
    "feed_forward": FEED_FORWARD,
    "two_biases": functools.partial(FEED_FORWARD, second_bias=True),
    "elman": functools.partial(ub.ElmanController, activation="relu", second_bias=True),
    "lstm": "lstm",
    "lstm_two_biases": functools.partial(LSTMController, second_bias=True),
    "gru": "gru",
}


def test_the_layer_of_deleu_and_dureau_has_its_trainable_parameters():
    """2300 in the controller, 2626 in the read head, 6666 in the write head."""
    layer = ub.MemoryRNN(1, 100, DELEU(), functools.partial(FEED_FORWARD, second_bias=True))
    assert sum(p.numel() for p in layer.layers[0].controller.parameters()) == 2300
    of_head = {"read": 0, "write": 0, "erase": 0, "add": 0}
    for head in layer.memory.heads:
        of_head[head.name.partition("_")[0]] += head.size * 101
    assert of_head["read"] == 2626
    assert of_head["write"] + of_head["erase"] + of_head["add"] == 6666
    assert sum(p.numel() for p in layer.parameters()) == 11_592
    assert (layer.layers[0].heads.bias == 0).all()


@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("make", [ub.TuringTape, DELEU], ids=["graves2014", "deleu2016"])
def test_kernel_and_reference_agree(controller, make):
    torch.manual_seed(0)
    layers = [
        ub.MemoryRNN(2, 6, make(9, 4, 2, 2), CONTROLLERS[controller], 3, backend=b).double()
        for b in ("auto", "reference")
    ]
    layers[1].load_state_dict(layers[0].state_dict())
    x, lengths = torch.randn(8, 3, 2, dtype=torch.float64), torch.tensor([8, 3, 0])
    results = []
    for layer in layers:
        output, state = layer(x, lengths=lengths)
        loss = output.square().sum() + state.memory.cells.square().sum()
        results.append([output, *state.memory, *torch.autograd.grad(loss, layer.parameters())])
    for got, want in zip(*results, strict=True):
        assert_close(got, want)


@pytest.mark.parametrize("initializer", ["learned", "random"])
def test_initializers_train(initializer):
    weights = "learned" if initializer == "learned" else "uniform"
    memory = ub.TuringTape(6, 3, initial_cells=initializer, initial_weights=weights)
    layer = ub.MemoryRNN(2, 5, memory)
    layer(torch.randn(4, 2, 2))[0].square().sum().backward()
    learned = (
        list(layer.layers[0].initial_memory.parameters()) if layer.layers[0].initial_memory else []
    )
    assert len(learned) == (3 if initializer == "learned" else 0)
    assert all(p.grad.isfinite().all() and p.grad.any() for p in learned)


def _in_the_order_of_the_program(layer, output, x):
    """The step of Deleu & Dureau's program: write and read by the previous instruction."""
    state = ub.TuringTape.initial_state(layer.memory, len(x), dtype=x.dtype)
    cells, read_weights, write_weights = state
    hidden = layer.layers[0].first_write.hidden.expand(len(x), -1)
    logits = []
    for step in x.unbind(1):
        instruction = layer.memory.Instruction(*layer.layers[0].heads(hidden))
        erase, add = instruction.erase[:, 0], instruction.add[:, 0]
        at = write_weights[:, 0].unsqueeze(-1)
        cells = cells * (1 - at * erase.unsqueeze(1)) + at * add.unsqueeze(1)
        read_vector = (read_weights[:, 0].unsqueeze(-1) * cells).sum(1)
        (hidden,) = layer.layers[0].controller(torch.cat([step, read_vector], -1), (hidden,))
        instruction = layer.memory.Instruction(*layer.layers[0].heads(hidden))
        _, (_, read_weights, write_weights) = layer.memory.step(
            ub.TuringTape.State(cells, read_weights, write_weights), instruction
        )
        logits.append(output(hidden))
    return torch.stack(logits, 1)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_writes_first_has_the_order_of_the_papers_program(backend):
    torch.manual_seed(1)
    memory = DELEU(9, 4, writes_first=True)
    controller = functools.partial(FEED_FORWARD, second_bias=True)
    layer = ub.MemoryRNN(1, 6, memory, controller, batch_first=True, backend=backend).double()
    output = torch.nn.Linear(6, 1).double()
    parameters = [*layer.parameters(), *output.parameters()]
    x = torch.randint(2, (3, 7, 1)).double()
    results = [
        [logits, *torch.autograd.grad(logits.square().sum(), parameters)]
        for logits in (output(layer(x)[0]), _in_the_order_of_the_program(layer, output, x))
    ]
    for got, want in zip(*results, strict=True):
        assert_close(got, want)


def test_the_first_writes_hidden_state_is_fixed_and_its_weights_learn():
    torch.manual_seed(0)
    layer = ub.MemoryRNN(2, 5, ub.TuringTape(6, 3, writes_first=True))
    assert "layers.0.first_write.hidden" in layer.state_dict()
    assert layer.layers[0].first_write.hidden.abs().max() <= 1
    assert all("first_write" not in name for name, _ in layer.named_parameters())
    state = layer.initial_state(4)
    assert not torch.equal(state.memory.cells[0, 0], state.memory.cells[0, 1])
    assert torch.equal(state.read_vector, state.memory.cells[:, 0])
    assert torch.equal(state.memory.cells[:, 1:], torch.full((4, 5, 3), 1e-6))
    state.read_vector.sum().backward()
    rows = layer.layers[0].heads.rows("add")
    assert (layer.layers[0].heads.weight.grad[rows] != 0).all()
    before = layer.layers[0].first_write.hidden.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.layers[0].first_write.hidden, before)


def test_by_default_a_memory_has_no_first_write():
    assert ub.MemoryRNN(2, 5, ub.TuringTape(6, 3)).layers[0].first_write is None
    stack = ub.NeuralStack(width=3)
    instruction = stack.Instruction(torch.ones(2, 3), torch.ones(2), torch.zeros(2))
    state = stack.initial_state(2)
    read_vector, same = stack.first_write(state, instruction)
    assert same is state
    assert read_vector.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_writing_first_works_in_half_precision(dtype):
    layer = ub.MemoryRNN(2, 5, ub.TuringTape(6, 3, writes_first=True)).to(dtype)
    output, state = layer(torch.ones(3, 2, 2, dtype=dtype))
    assert output.dtype == dtype
    assert state.memory.cells.dtype == layer.initial_state(2).memory.cells.dtype == torch.float32
