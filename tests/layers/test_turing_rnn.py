"""The Neural Turing Machine as a layer: a paper's sizes, its controllers, kernel and reference."""

from __future__ import annotations

import functools

import pytest
import torch

import unbounded as ub
from tests.tolerances import assert_close

FEED_FORWARD = functools.partial(ub.ElmanController, activation="relu", recurrent=False)
DELEU = functools.partial(ub.TuringTape, shift="zero", variant="deleu2016")
CONTROLLERS = {
    "feed_forward": FEED_FORWARD,
    "two_biases": functools.partial(FEED_FORWARD, second_bias=True),
    "elman": functools.partial(ub.ElmanController, activation="relu", second_bias=True),
    "lstm": "lstm",
    "gru": "gru",
}


def test_the_layer_of_deleu_and_dureau_has_its_trainable_parameters():
    """2300 of the controller, 2626 of the read head, 6666 of the write head."""
    layer = ub.MemoryRNN(1, 100, DELEU(), functools.partial(FEED_FORWARD, second_bias=True))
    assert sum(p.numel() for p in layer.controller.parameters()) == 2300
    of_head = {"read": 0, "write": 0, "erase": 0, "add": 0}
    for head in layer.memory.heads:
        of_head[head.name.partition("_")[0]] += head.size * 101
    assert of_head["read"] == 2626
    assert of_head["write"] + of_head["erase"] + of_head["add"] == 6666
    assert sum(p.numel() for p in layer.parameters()) == 11_592
    assert (layer.heads.bias == 0).all()


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


@pytest.mark.parametrize("beginning", ["learned", "random"])
def test_beginnings_train(beginning):
    weights = "learned" if beginning == "learned" else "uniform"
    memory = ub.TuringTape(6, 3, initial_cells=beginning, initial_weights=weights)
    layer = ub.MemoryRNN(2, 5, memory)
    layer(torch.randn(4, 2, 2))[0].square().sum().backward()
    learned = list(layer.initial_memory.parameters()) if layer.initial_memory else []
    assert len(learned) == (3 if beginning == "learned" else 0)
    assert all(p.grad.isfinite().all() and p.grad.any() for p in learned)


def test_a_trace_has_cells_and_weights_of_every_step():
    layer = ub.MemoryRNN(2, 5, ub.TuringTape(6, 3, 2), batch_first=True)
    _, _, trace = layer(torch.randn(2, 4, 2), return_trace=True)
    assert trace.arrays["cells"].shape == (2, 4, 6, 3)
    assert trace.arrays["read_weights"].shape == (2, 4, 2, 6)
    assert trace.arrays["instruction.read_shift"].shape == (2, 4, 2, 3)
