"""A replaced method runs: no kernel computes the original in its place."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
from accelerate.hooks import ModelHook, add_hook_to_module

import unbounded as ub
from tests.memories.common import MEMORIES
from unbounded import kernels
from unbounded.errors import BackendError, BackendWarning, ConfigError, say_once
from unbounded.models import MemoryModel, generate
from unbounded.rnn import DeepLSTM
from unbounded.rnn.fused import is_called, why_called
from unbounded.rnn.static_buffers import static_buffer_layer
from unbounded.rnn.stream import open_stream
from unbounded.training.per_symbol_update import weights_of

needs_kernels = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)
CALLS = "calls"


def make(memory="stack", backend="auto"):
    torch.manual_seed(0)
    say_once.cache_clear()
    return ub.MemoryRNN(3, 5, MEMORIES[memory](4), backend=backend)


def counted(function, calls):
    """`function` with a record of its calls, under the original's name, as by a decorator."""

    @functools.wraps(function)
    def replacement(*args, **kwargs):
        calls.append(function)
        return function(*args, **kwargs)

    return replacement


def on_object(owner, name):
    def replace(layer, calls, monkeypatch):
        thing = owner(layer)
        monkeypatch.setattr(thing, name, counted(getattr(thing, name), calls), raising=False)

    return replace


def on_class(owner, name):
    def replace(layer, calls, monkeypatch):
        cls = type(owner(layer))
        monkeypatch.setattr(cls, name, counted(getattr(cls, name), calls))

    return replace


def memory_of(layer):
    return layer.memory


def controller_of(layer):
    return layer.layers[0].controller


def heads_of(layer):
    return layer.layers[0].heads


class Doubled(ModelHook):
    def __init__(self, calls):
        self.calls = calls

    def pre_forward(self, module, *args, **kwargs):
        self.calls.append(module)
        return args, kwargs


def hooked(owner):
    def replace(layer, calls, monkeypatch):
        add_hook_to_module(owner(layer), Doubled(calls))

    return replace


REPLACED = {
    "step of a memory": (on_object(memory_of, "step"), r"NeuralStack\.step is replaced"),
    "step of a class": (on_class(memory_of, "step"), r"NeuralStack\.step is replaced"),
    "idle of a class": (on_class(memory_of, "idle"), r"NeuralStack\.idle is replaced"),
    "forward of a controller": (
        on_object(controller_of, "forward"),
        "forward of the controller is replaced",
    ),
    "forward of a controller's class": (
        on_class(controller_of, "forward"),
        "forward of the controller is replaced",
    ),
    "forward of the heads": (on_object(heads_of, "forward"), "forward of the heads is replaced"),
    "forward of Heads": (on_class(heads_of, "forward"), "forward of the heads is replaced"),
    "accelerate on the controller": (
        hooked(controller_of),
        "forward of the controller is replaced",
    ),
    "accelerate on the heads": (hooked(heads_of), "forward of the heads is replaced"),
}


@needs_kernels
@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_method_is_called_with_one_warning(name, monkeypatch):
    replace, reason = REPLACED[name]
    layer, calls, x = make(), [], torch.randn(6, 2, 3)
    lengths = torch.tensor([6, 3])
    expected, _ = layer(x, None, lengths)
    replace(layer, calls, monkeypatch)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got, _ = layer(x, None, lengths)
        layer(x, None, lengths)
    assert len(calls) >= 6
    torch.testing.assert_close(got, expected)
    assert [warning.category for warning in caught] == [BackendWarning]
    assert caught[0].message.args[0].count("replaced") == 1
    layer.backend = "cpu"
    with pytest.raises(BackendError, match=rf"backend 'cpu' cannot serve this call: {reason}"):
        layer(x, None, lengths)


@needs_kernels
@pytest.mark.parametrize("name", MEMORIES)
def test_unroll_calls_a_replaced_step(name, monkeypatch):
    memory, calls = MEMORIES[name](4), []
    fields = [torch.rand(2, 3, *head.shape) for head in memory.heads]
    memory.unroll(memory.Instruction(*fields))
    monkeypatch.setattr(type(memory), "step", counted(type(memory).step, calls))
    say_once.cache_clear()
    with pytest.warns(BackendWarning, match="step is replaced"):
        memory.unroll(memory.Instruction(*fields))
    assert len(calls) == 3
    with pytest.raises(BackendError, match="step is replaced"):
        memory.unroll(memory.Instruction(*fields), backend="cpu")


def test_unmodified_layers_have_no_replaced_methods():
    for name in MEMORIES:
        layer = make(name)
        assert not any(is_called(part) for part in layer.modules())


@needs_kernels
def test_the_layer_itself_is_called_by_a_stream():
    layer, calls = ub.MemoryRNN(3, 5, ub.NeuralStack(4), batch_first=True), []
    layer.forward = counted(layer.forward, calls)
    stream = open_stream(layer, 2, torch.zeros(2, 1, 3))
    stream.run(torch.randn(2, 1, 3))
    assert len(calls) == 1


@pytest.mark.parametrize("part", ["sequence", "layer", "output"])
def test_generate_calls_replaced_methods(part):
    model, calls = MemoryModel(inputs=9, outputs=4, hidden_size=4, embedding_size=6), []
    module = {"sequence": model.sequence, "layer": model.sequence.layer}.get(
        part, model.sequence.output
    )
    prompt, fed = torch.randint(9, (2, 3)), torch.tensor([5, 6, 7, 8])
    expected = generate(model, prompt, None, fed, 3, 4)
    module.forward = counted(module.forward, calls)
    assert torch.equal(generate(model, prompt, None, fed, 3, 4), expected)
    assert len(calls) == expected.shape[1]


@needs_kernels
@pytest.mark.parametrize("kind", ["lstm", "gru", "elman", "deep"])
@pytest.mark.parametrize("lengths", [None, [5, 2]])
def test_layers_without_a_memory(kind, lengths):
    deep = kind == "deep"
    layer, calls = DeepLSTM(3, 5, 2) if deep else ub.ControllerRNN(3, 5, kind), []
    x = torch.randn(5, 2, 3)
    expected, _ = layer(x, None, lengths)
    add_hook_to_module(layer.layers[1] if deep else layer.controller, Doubled(calls))
    got, _ = layer(x, None, lengths)
    assert len(calls) == (1 if deep else 5)
    torch.testing.assert_close(got, expected)
    layer.backend = "cpu"
    name = "layer" if deep else "controller"
    with pytest.raises(BackendError, match=f"forward of the {name} is replaced"):
        layer(x, None, lengths)


@needs_kernels
def test_static_buffers_and_per_symbol_updates():
    controller = functools.partial(ub.ElmanController, activation="sigmoid", bias=False)
    memory = ub.SuperpositionStack(2, 2, capacity=9, overflow="drop_bottom")
    layer = ub.MemoryRNN(4, 5, memory, controller, batch_first=True)
    output = torch.nn.Linear(5, 4, bias=False)
    assert static_buffer_layer(layer, 2) is not None
    weights_of(layer, output)
    layer.memory.step = counted(layer.memory.step, [])
    assert static_buffer_layer(layer, 2) is None
    with pytest.raises(ConfigError, match="without hooks or replaced methods"):
        weights_of(layer, output)


def test_why_called_names_replaced_methods():
    linear = torch.nn.Linear(2, 2)
    assert why_called(linear, "output") is None
    linear.forward = counted(linear.forward, [])
    assert why_called(linear, "output") == (
        "forward of the output is replaced, which only the reference implementation calls"
    )


def test_a_replaced_torch_method_is_detected(monkeypatch):
    linear = torch.nn.Linear(2, 2)
    monkeypatch.setattr(torch.nn.Linear, "forward", counted(torch.nn.Linear.forward, []))
    assert is_called(linear)
