"""Stack RNN and List RNN: sizes, the explicit loop, chunks, emptying, traces."""

from __future__ import annotations

import functools

import pytest
import torch

import unbounded as ub
from tests.rnn.layers import random
from tests.tolerances import assert_close
from unbounded.errors import DTypeError, ShapeError
from unbounded.kernels._structures import BY_TYPE
from unbounded.memories.core import ACTIVATIONS
from unbounded.models import SequenceModel

DOUBLE = torch.float64
MEMORIES = {"stack": ub.SuperpositionStack, "list": ub.SuperpositionList}
CONTROLLER = functools.partial(
    ub.ElmanController, activation="sigmoid", recurrent=False, bias=False
)


def make(name="stack", controller=CONTROLLER, inputs=3, **options):
    torch.manual_seed(0)
    memory = MEMORIES[name](2, **options)
    return ub.MemoryRNN(inputs, 5, memory, controller, dtype=DOUBLE, backend="reference")


def test_the_papers_network_has_2160_weights():
    """m = 40, 10 stacks, k = 2, 2 symbols: U 80, V 80, A 800, D 400, P 800."""
    layer = ub.MemoryRNN(2, 40, ub.SuperpositionStack(10), CONTROLLER, batch_first=True)
    model = SequenceModel(2, 2, None, layer, 40, output_bias=False)
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    assert sizes == {
        "layer.layers.0.controller.weight_ih": 80 + 800,
        "layer.layers.0.heads.weight": 800 + 400,
        "output.weight": 80,
    }
    assert sum(sizes.values()) == 2160
    logits, state = model(torch.tensor([[0, 1, 1], [1, 0, 0]]))
    assert logits.shape == (2, 3, 2)
    assert state.memory.cells.shape == (2, 10, 3)


def test_the_loop_is_the_papers_equations_3_to_6():
    """h_t from s_{t-1}, then actions, then s_t: written out with U, P, A and D."""
    layer = make(noop=True, inputs=3)
    x = random(4, 1, 3)
    output, _ = layer(x)
    u, p = layer.layers[0].controller.weight_ih.split([3, 4], dim=1)
    a, d = layer.layers[0].heads.weight.split([6, 2])
    stacks = [[-1.0] * 6 for _ in range(2)]
    for t in range(4):
        tops = torch.tensor([c for stack in stacks for c in stack[:2]], dtype=DOUBLE)
        h = torch.sigmoid(u @ x[t, 0] + p @ tops)  # (6)
        assert_close(output[t, 0], h, f"h at step {t}")
        actions = torch.softmax((a @ h).view(2, 3), dim=-1).tolist()  # (3)
        values = torch.sigmoid(d @ h).tolist()
        stacks = [
            [
                push * (value if i == 0 else old[i - 1]) + pop * old[i + 1] + keep * old[i]
                for i in range(5)
            ]
            + [-1.0]
            for old, (push, pop, keep), value in zip(stacks, actions, values, strict=True)
        ]


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("controller", [CONTROLLER, "lstm"])
def test_chunked_backpropagation_is_exact_if_nothing_is_detached(name, controller):
    layer, x, weights = make(name, controller), random(9, 2, 3), random(9, 2, 5, seed=2)
    (layer(x)[0] * weights).sum().backward()
    want = {key: parameter.grad.clone() for key, parameter in layer.named_parameters()}
    layer.zero_grad()
    loss, state = 0.0, None
    for chunk, weight in zip(x.split(4), weights.split(4), strict=True):
        output, state = layer(chunk, state)
        loss = loss + (output * weight).sum()
    loss.backward()
    for key, parameter in layer.named_parameters():
        assert_close(parameter.grad, want[key], f"gradient of {key}")


@pytest.mark.parametrize("name", MEMORIES)
def test_truncated_backpropagation_is_exact_if_no_memory_crosses_the_cut(name):
    """R = 0 and memories emptied at the cut: no gradient can cross it."""
    layer, x, weights = make(name), random(8, 2, 3), random(8, 2, 5, seed=2)
    gradients = []
    for cut in (lambda state: state, ub.detach_state):
        layer.zero_grad()
        losses, state = [], None
        for chunk, weight in zip(x.split(4), weights.split(4), strict=True):
            output, state = layer(chunk, state)
            state = layer.empty_memory(cut(state))
            losses.append((output * weight).sum())
        sum(losses).backward()
        gradients.append([parameter.grad.clone() for parameter in layer.parameters()])
    for full, truncated in zip(*gradients, strict=True):
        assert_close(truncated, full, "gradient")


@pytest.mark.parametrize("name", MEMORIES)
def test_memories_can_be_emptied_between_two_calls(name):
    layer = make(name, "elman")
    x, follow = random(5, 3, 3), random(2, 3, 3, seed=2)
    _, state = layer(x)
    some = layer.empty_memory(state, torch.tensor([True, False, True]))
    every = layer.empty_memory(state)
    assert every.memory.cells.shape == layer.initial_state(3).memory.cells.shape
    fresh = layer.initial_state(3)._replace(hidden=state.hidden, cell=state.cell)
    restarted, kept = layer(follow, fresh)[0], layer(follow, state)[0]
    assert torch.equal(layer(follow, every)[0], restarted)
    mixed = layer(follow, some)[0]
    assert_close(mixed[:, [0, 2]], restarted[:, [0, 2]], "emptied")
    assert_close(mixed[:, 1], kept[:, 1], "not emptied")
    with pytest.raises(ShapeError, match=r"sequences: expected shape \[3\]"):
        layer.empty_memory(state, torch.tensor([True]))
    with pytest.raises(DTypeError, match="sequences: expected dtype bool"):
        layer.empty_memory(state, torch.tensor([1, 0, 1]))


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("capacity", [None, 6])
def test_the_trace_shows_cells_and_actions(name, capacity, tmp_path):
    layer = make(name, capacity=capacity)
    x, lengths = random(6, 2, 3), torch.tensor([6, 4])
    _, state, trace = layer(x, lengths=lengths, return_trace=True)
    cells, actions = trace.arrays["cells"], trace.arrays["instruction.action"]
    width = {"stack": 6, "list": 13 if capacity is None else 11}[name]
    assert cells.shape == (2, 6, 2, width)
    assert actions.shape == (2, 6, 2, len(layer.memory.actions))
    assert_close(cells[:, -1], state.memory.cells, "last cells")
    tops = layer.memory.read(cells[0])
    assert_close(tops, trace.arrays["read_vector"][0], "read vectors follow from cells")
    assert_close(cells[1, 4:], cells[1, 3].expand(2, -1, -1), "beyond its length nothing happens")
    untouched = cells[0, 0, :, 1:] if name == "stack" else cells[0, 0, :, : width // 2 - 1]
    assert torch.equal(untouched, torch.full_like(untouched, -1.0))
    ub.save_trace(tmp_path / "t.safetensors", trace)
    assert torch.equal(ub.load_trace(tmp_path / "t.safetensors").arrays["cells"], cells)


@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name != "softmax"])
@pytest.mark.parametrize("head", ["action", "value"])
def test_custom_activations_run_on_the_reference(monkeypatch, head, activation):
    class Other(ub.SuperpositionStack):
        @property
        def heads(self):
            return tuple(
                each._replace(activation=activation, gate=False) if each.name == head else each
                for each in super().heads
            )

    monkeypatch.setitem(BY_TYPE, Other, BY_TYPE[ub.SuperpositionStack])
    torch.manual_seed(2)
    layer = ub.MemoryRNN(3, 5, Other(3), backend="cpu", dtype=torch.float64)
    reference = ub.MemoryRNN(3, 5, Other(3), backend="reference", dtype=torch.float64)
    reference.load_state_dict(layer.state_dict())
    inputs = torch.randn(6, 2, 3, dtype=torch.float64)
    for one, other in zip(results(layer, inputs), results(reference, inputs), strict=True):
        torch.testing.assert_close(one, other)


def results(layer, inputs):
    """Outputs and gradients."""
    outputs, _ = layer(inputs)
    return outputs.detach(), *torch.autograd.grad(outputs.square().sum(), list(layer.parameters()))
