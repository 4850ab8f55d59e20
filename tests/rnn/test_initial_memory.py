"""A layer with learned initial values of its memory: parameters, gradients, emptying, traces."""

from __future__ import annotations

import copy
import functools
import pickle

import pytest
import torch

import unbounded as ub
from tests.memories.toy import EVERY, LIBRARY, TOYS, Toy
from tests.rnn.layers import check_gradients, random
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded import kernels
from unbounded.errors import ShapeError
from unbounded.memories import Drawn
from unbounded.memories.core import state_tensors
from unbounded.models.initialization import draw_as_torch, draw_sums
from unbounded.rnn.stream import open_stream

DOUBLE = torch.float64
LEARNED = {
    "toy": {"cells": (3, 2), "centre": (2,), "read_vector": (2,)},
    "full_toy": {"cells": (3, 2), "centre": (2,), "read_vector": (2,)},
    "learned_stack": {"values": (2, 3), "strengths": (2,)},
    "learned_cells": {"cells": (2, 4), "read_vector": (4,)},
}
#: Memories with a kernel, which must propagate the gradient to the initial values.
WITH_KERNEL = ["learned_stack", "learned_cells"]
needs_kernels = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)


class Deterministic(Toy):
    """The toy with fixed noise, so that two runs can be compared."""

    @property
    def state_fields(self):
        *fields, noise = super().state_fields
        return (*fields, noise._replace(initializer=Drawn(fill_half)))


def fill_half(tensor):
    return tensor.fill_(0.5)


def make(name="toy", controller="elman", backend="reference", **options):
    torch.manual_seed(0)
    memory = Deterministic() if name == "toy" else EVERY[name]()
    return ub.MemoryRNN(3, 5, memory, controller, backend=backend, dtype=DOUBLE, **options)


def drawn(layer):
    return {
        name: p.detach().clone() for name, p in layer.layers[0].initial_memory.named_parameters()
    }


@pytest.mark.parametrize("name", [name for name in LIBRARY if "learned" not in name])
def test_memories_without_learned_fields_have_no_parameters(name):
    layer = make(name)
    assert layer.layers[0].initial_memory is None
    names = {
        f"layers.0.{name}"
        for name in ("controller.weight_ih", "controller.weight_hh", "heads.weight")
    }
    assert {n for n in layer.state_dict() if "bias" not in n} == names


@pytest.mark.parametrize("name", TOYS)
def test_a_learned_field_is_a_parameter_drawn_by_its_rule(name):
    torch.manual_seed(0)
    layer = ub.MemoryRNN(3, 5, TOYS[name]())
    first = drawn(layer)
    assert {key: tuple(value.shape) for key, value in first.items()} == LEARNED[name]
    assert {f"layers.0.initial_memory.{key}" for key in first} <= set(layer.state_dict())
    assert "strengths[2]" in repr(layer) or name != "learned_stack"
    for field in layer.memory.learned_fields:
        spread = 10 if field.initializer.rule.keywords.get("std") else 0.25
        assert (first[field.name] - 0.5).abs().max() <= spread
    layer.layers[0].initial_memory.reset_parameters()
    assert all((drawn(layer)[key] != value).all() for key, value in first.items())
    state = layer.initial_state(4)
    for field, tensor in zip(
        (*layer.memory.state_fields, layer.memory.read_vector_field),
        (*state.memory, state.read_vector),
        strict=True,
    ):
        if field.name in first:
            parameter = layer.layers[0].initial_memory.get_parameter(field.name)
            assert torch.equal(tensor, field.initializer.of(parameter, 4))


@pytest.mark.parametrize("draw", [draw_as_torch, functools.partial(draw_sums, bound=100.0)])
def test_a_papers_initialization_keeps_the_memorys_initial_values(draw):
    layer = make()
    first, weight = drawn(layer), layer.layers[0].controller.weight_ih.detach().clone()
    draw(layer)
    assert not torch.equal(layer.layers[0].controller.weight_ih, weight)
    assert all(torch.equal(drawn(layer)[key], value) for key, value in first.items())


def test_copies_and_state_dicts_keep_learned_initial_values():
    options = {"dtype": DOUBLE, "output_size": 2, "learn_initial_state": True}
    layer = ub.MemoryRNN(3, 5, EVERY["learned_stack"](), **options)
    x = random(4, 2, 3)
    other = ub.MemoryRNN(3, 5, EVERY["learned_stack"](), **options)
    assert not torch.equal(other(x)[0], layer(x)[0])
    other.load_state_dict(layer.state_dict())
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(same(x)[0], layer(x)[0])
    narrow = copy.deepcopy(layer).float()
    assert {tensor.dtype for tensor in state_tensors(narrow.initial_state(2))} == {torch.float32}


@pytest.mark.parametrize("name", ["toy", *WITH_KERNEL])
def test_gradcheck(name):
    check_gradients(make(name), random(3, 2, 3))


@needs_kernels
@pytest.mark.parametrize("name", WITH_KERNEL)
@pytest.mark.parametrize("controller", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("lengths", [None, [6, 2, 0]])
def test_kernels_agree_and_propagate_the_gradient(name, controller, lengths):
    results = []
    for backend in ("cpu", "reference"):
        layer = make(name, controller, backend, output_size=2)
        x = random(6, 3, 3).requires_grad_()
        output, state = layer(x, lengths=None if lengths is None else torch.tensor(lengths))
        state = layer.empty_memory(state, torch.tensor([True, False, False]))
        more, state = layer(x, state)
        parts = [output, more, *state_tensors(state)]
        loss = sum(part.sin().sum() for part in parts)
        results.append([*parts, *torch.autograd.grad(loss, [x, *layer.parameters()])])
    for position, (fused, reference) in enumerate(zip(*results, strict=True)):
        assert_close(fused, reference, f"tensor {position}")


@needs_kernels
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself, while tracing
@pytest.mark.parametrize("name", sweep(WITH_KERNEL, fast=lambda name: name == "learned_cells"))
def test_torch_compile_and_a_stream(name):
    layer = make(name, "lstm", "cpu", batch_first=True)
    x = random(2, 5, 3)
    want, _ = layer(x)
    compiled = torch.compile(lambda x: layer(x)[0], backend="aot_eager", fullgraph=True)
    assert_close(compiled(x), want, "compiled")
    stream = open_stream(layer, 2, x)
    chunks = [stream.run(chunk) for chunk in x.split(2, dim=1)]
    assert_close(torch.cat(chunks, dim=1), want, "stream")


@pytest.mark.parametrize("name", LEARNED)
def test_emptying_resets_each_field_and_keeps_the_gradient(name):
    layer = make(name)
    _, state = layer(random(4, 3, 3))
    sequences = torch.tensor([True, False, True])
    emptied = layer.empty_memory(ub.detach_state(state), sequences)
    begun = layer.initial_state(3)
    pairs = zip(layer.memory.state_fields, emptied.memory, state.memory, begun.memory, strict=True)
    for field, got, before, fresh in pairs:
        assert torch.equal(got[1], before[1])
        if field.name != "noise" or name == "toy":
            assert torch.equal(got[sequences], field.padded(fresh, 4)[sequences])
    assert torch.equal(emptied.read_vector[sequences], begun.read_vector[sequences])
    assert torch.equal(emptied.hidden, state.hidden)
    if "toy" in name:
        assert (emptied.memory.head[0] == torch.eye(5)[0]).all()
        assert not (emptied.memory.head[1] == torch.eye(5)[0]).all()
    sum(tensor.sum() for tensor in (*emptied.memory, emptied.read_vector)).backward()
    for key, parameter in layer.layers[0].initial_memory.named_parameters():
        assert parameter.grad.abs().sum() > 0, key
    every = layer.empty_memory(state)
    assert [t.shape for t in every.memory] == [t.shape for t in begun.memory]


@pytest.mark.parametrize("name", ["toy", *WITH_KERNEL])
def test_padded_equals_unpadded_and_chunks_equal_one_call(name):
    layer = make(name)
    x, lengths = random(6, 3, 3), torch.tensor([6, 0, 3])
    output, state = layer(x, lengths=lengths)
    for b in (0, 2):
        alone, alone_state = layer(x[: lengths[b], b : b + 1])
        assert_close(output[: lengths[b], b], alone[:, 0], f"output of sequence {b}")
        sequence_state = ub.index_state(state, [b])
        assert_close(sequence_state.read_vector, alone_state.read_vector, "read_vector")
        missing = 6 - int(lengths[b])
        for field, got, want in zip(
            layer.memory.state_fields, sequence_state.memory, alone_state.memory, strict=True
        ):
            assert_close(got, field.padded(want, missing), field.name)
    assert torch.equal(state.read_vector[1], layer.initial_state(3).read_vector[1])
    first, middle = layer(x[:2])
    second, _ = layer(x[2:], middle)
    assert_close(torch.cat([first, second]), layer(x)[0], "chunks")


def test_a_trace_pads_each_array_by_its_own_declaration():
    layer = make()
    _, state, trace = layer(random(4, 2, 3), return_trace=True)
    marks, sums, head = (trace.arrays[name] for name in ("marks", "sums", "head"))
    assert (marks.shape, sums.shape, head.shape) == ((2, 4, 5), (2, 4, 11), (2, 4, 2, 5))
    assert (marks[:, 0, 2:] == 0.5).all()
    assert torch.equal(marks[:, -1], state.memory.marks)
    assert torch.equal(sums[:, -1], state.memory.cells.sum(-1))
    for t in range(4):
        outside = torch.cat([sums[:, t, : 3 - t], sums[:, t, 11 - 3 + t :]], dim=1)
        assert (outside == -1).all()
    assert torch.equal(head[:, -1], state.memory.head)


class Silent(Deterministic):
    def observe(self, state):
        return {"head": state.head}


def test_a_trace_of_undeclared_fields():
    layer = ub.MemoryRNN(3, 5, Silent(), dtype=DOUBLE)
    expected = r"Silent.observe: expected the observed_fields, marks, sums, head, got hea"
    with pytest.raises(ShapeError, match=expected):
        layer(random(2, 2, 3), return_trace=True)
