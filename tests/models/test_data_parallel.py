"""nn.DataParallel without GPUs: replicas on the CPU with separate parameter tensors."""

from __future__ import annotations

import importlib
from functools import partial

import pytest
import torch

import unbounded as ub
from tests.memories.common import MEMORIES
from unbounded.models import MemoryModel, SequenceModel

# torch.nn.parallel has a function of that name.
replicate = importlib.import_module("torch.nn.parallel.replicate")


def replicas_of(model, monkeypatch):
    """Two replicas as in nn.DataParallel; the second has doubled copies of the weights."""

    def copies(tensors, devices, detach=False):
        return [[tensor * (k + 1) for tensor in tensors] for k in range(len(devices))]

    monkeypatch.setattr(replicate, "_broadcast_coalesced_reshape", copies)
    monkeypatch.setattr(replicate, "_get_device_index", lambda device, *_: device)
    return replicate.replicate(model, [0, 1])


def test_a_replica_with_tied_embeddings_uses_its_own_matrix(monkeypatch):
    torch.manual_seed(0)
    layer = ub.MemoryRNN(6, 8, ub.NeuralStack(4), output_size=6, batch_first=True)
    model = SequenceModel(9, 9, 6, layer, 6, tied_embeddings=True)
    tokens = torch.randint(9, (2, 5))
    first, second = replicas_of(model, monkeypatch)
    torch.testing.assert_close(first(tokens)[0], model(tokens)[0])
    loss = second(tokens)[0].square().sum()
    got = torch.autograd.grad(loss, model.embedding.weight)[0]
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    expected_loss = model(tokens)[0].square().sum()
    torch.testing.assert_close(loss, expected_loss)
    # The replica's matrix is twice the model's.
    expected = 2 * torch.autograd.grad(expected_loss, model.embedding.weight)[0]
    torch.testing.assert_close(got, expected)


LAYERS = {
    **{
        name: partial(lambda name: ub.MemoryRNN(3, 5, MEMORIES[name](4)), name) for name in MEMORIES
    },
    "learned": lambda: ub.MemoryRNN(3, 5, ub.NeuralStack(4), learn_initial_state=True),
    "learned cells": lambda: ub.MemoryRNN(3, 5, ub.TuringTape(5, 3, initial_cells="learned")),
    "written first": lambda: ub.MemoryRNN(3, 5, ub.TuringTape(5, 3, writes_first=True)),
    "deep": lambda: ub.MemoryRNN(3, 5, ub.NeuralStack(4), num_layers=2, bidirectional=True),
    "elman": lambda: ub.ControllerRNN(3, 5),
    "elman learned": lambda: ub.ControllerRNN(3, 5, learn_initial_state=True),
    "deep lstm": lambda: ub.DeepLSTM(3, 5, 2, learn_initial_state=True),
    "srcn": lambda: ub.SRCN(3, 5, learn_initial_state=True),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_replica_of_each_layer_is_the_layer(name, lengths, monkeypatch):
    torch.manual_seed(0)
    layer = LAYERS[name]()
    x = torch.randn(4, 2, 3)
    expected = layer(x, None, lengths)[0]
    first, _ = replicas_of(layer, monkeypatch)
    torch.testing.assert_close(first(x, None, lengths)[0], expected)


@pytest.mark.parametrize("memory", ["none", "stack", "lie_access"])
def test_a_replica_of_a_model_is_the_model(memory, monkeypatch):
    torch.manual_seed(0)
    model = MemoryModel(
        inputs=9, outputs=9, memory=memory, hidden_size=6, embedding_size=None,
        learn_initial_state=True,
    )  # fmt: skip
    tokens = torch.randint(9, (2, 5))
    first, _ = replicas_of(model, monkeypatch)
    torch.testing.assert_close(first(tokens)[0], model(tokens)[0])
