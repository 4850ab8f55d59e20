"""Tests for every device; the CPU runs the same lines, so that they are always tested."""

from __future__ import annotations

import copy

import pytest
import torch

import unbounded as ub
from tests.constructions import model_of
from tests.devices import on_every_device
from tests.memories.common import MEMORIES, instructions, requires_grad
from tests.tolerances import assert_close
from unbounded.extraction import extract
from unbounded.memories.core import state_tensors
from unbounded.models import MemoryModel, generate
from unbounded.tasks import make_task
from unbounded.verification import VerifyOptions, findings_of

pytestmark = on_every_device


@pytest.mark.parametrize("kind", ["uniform", "eighths", "binary"])
@pytest.mark.parametrize("name", MEMORIES)
def test_unroll_and_its_gradients(name: str, kind: str, device: str) -> None:
    memory = MEMORIES[name](4)
    given = instructions(memory, 2, 6, kind=kind)
    here = requires_grad(given)
    there = requires_grad(type(given)(*(field.to(device) for field in given)))
    want, _ = memory.unroll(here, memory.initial_state(2, dtype=torch.float64), "reference")
    got, state = memory.unroll(there, memory.initial_state(2, dtype=torch.float64, device=device))
    assert got.device.type == device
    assert all(tensor.device.type == device for tensor in state_tensors(state))
    assert_close(got.cpu(), want, "read_vectors")
    (want * want.detach().cos()).sum().backward()
    (got * got.detach().cos()).sum().backward()
    for field, moved in zip(here, there, strict=True):
        assert_close(moved.grad.cpu(), field.grad, "gradient")


@pytest.mark.parametrize("memory", ["queue", "none"])
def test_sequence_model(memory: str, device: str) -> None:
    torch.manual_seed(2)
    model = MemoryModel(inputs=9, outputs=6, memory=memory, hidden_size=8, embedding_size=4)
    tokens = torch.randint(9, (5, 6))
    want, _ = model(tokens)
    # torch.nn.LSTM rounds to TF32 otherwise.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        got, _ = copy.deepcopy(model).to(device)(tokens.to(device))
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


def test_autocast_keeps_strengths_in_float32(device: str) -> None:
    layer = ub.MemoryRNN(3, 5, ub.NeuralStack(4)).to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        _, state = layer(torch.randn(4, 2, 3, device=device))
        with torch.no_grad():
            output, alone = layer(torch.randn(4, 2, 3, device=device))
    assert output.dtype == torch.bfloat16
    assert state.memory.strengths.dtype == alone.memory.strengths.dtype == torch.float32


@pytest.mark.parametrize("controller", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("name", ub.memories.MEMORIES)
def test_layer_with_lengths_moves_and_resumes(name: str, controller: str, device: str) -> None:
    torch.manual_seed(1)
    layer = ub.MemoryRNN(3, 5, ub.memories.MEMORIES[name](4), controller, dtype=torch.float64)
    moved = copy.deepcopy(layer).to(device)
    x, lengths = torch.randn(7, 3, 3, dtype=torch.float64), torch.tensor([7, 1, 4])
    want, state = layer(x, lengths=lengths)
    got, moved_state = moved(x.to(device), lengths=lengths.to(device))
    assert_close(got.cpu(), want, "output")
    for mine, other in zip(state_tensors(moved_state), state_tensors(state), strict=True):
        assert mine.device.type == device
        assert_close(mine.cpu().double(), other.double(), "state")
    # A state of the CPU can be used on the device.
    there = ub.move_state(state, device)
    assert_close(moved(x.to(device), there)[0].cpu(), layer(x, state)[0], "carried on")
    want.square().sum().backward()
    got.square().sum().backward()
    for parameter, other in zip(layer.parameters(), moved.parameters(), strict=True):
        assert_close(other.grad.cpu(), parameter.grad, "gradient")
    traced = moved(x.to(device), lengths=lengths.to(device), return_trace=True)[2].arrays
    for field, array in layer(x, lengths=lengths, return_trace=True)[2].arrays.items():
        assert_close(traced[field].cpu().double(), array.double(), field)


#: A backward pass of the tape's loop waits, in `unfold` or in another operation.
NOT_WAITING = [name for name in ub.memories.MEMORIES if name != "turing_tape"]


@pytest.mark.parametrize("name", NOT_WAITING)
def test_a_call_does_not_wait_for_the_device(name: str, device: str) -> None:
    layer = ub.MemoryRNN(3, 5, ub.memories.MEMORIES[name](4)).to(device)
    x = torch.randn(6, 2, 3, device=device)
    if device == "cpu":  # nothing to wait for; the call is the same
        layer(x)[0].sum().backward()
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        layer(x)[0].sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", NOT_WAITING)
def test_captured_in_a_graph(name: str, device: str) -> None:
    torch.manual_seed(1)
    layer = ub.MemoryRNN(3, 5, ub.memories.MEMORIES[name](4)).to(device)
    x = torch.randn(6, 2, 3, device=device)

    def called() -> list[torch.Tensor]:
        output, _ = layer(x)
        gradients = torch.autograd.grad(output.square().sum(), list(layer.parameters()))
        return [output.detach(), *gradients]

    if device == "cpu":  # there are no graphs; the call is the same
        called()
        return
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        want = [tensor.clone() for tensor in called()]
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            got = called()
        graph.replay()
        stream.synchronize()
    for mine, other in zip(got, want, strict=True):
        assert_close(mine, other)


@pytest.mark.parametrize("memory", ["none", "queue", "turing_tape"])
def test_gradients_in_evaluation_mode(memory: str, device: str) -> None:
    torch.manual_seed(0)
    model = MemoryModel(inputs=5, outputs=4, memory=memory, hidden_size=8, embedding_size=4)
    gradients = []
    for mode in (True, False):
        moved = copy.deepcopy(model).to(device).train(mode)
        logits, _ = moved(torch.ones(2, 6, dtype=torch.int64, device=device))
        logits.square().sum().backward()
        gradients.append([weight.grad for weight in moved.parameters()])
    for want, got in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want)


def test_generation(device: str) -> None:
    task = make_task("copy", symbols=3)
    model = model_of(task, memory="queue",
        hidden_size=8, embedding_size=4,
    ).to(device)  # fmt: skip
    prompt = torch.ones(2, 5, dtype=torch.int64, device=device)
    output = generate(model, prompt, None, task.output_to_input, task.end_token, 6)
    assert output.device.type == device


def test_verified_and_extracted(device: str) -> None:
    task = make_task("copy", symbols=2)
    model = ub.constructions.CONSTRUCTIONS["copy"](symbols=2).to(device)
    options = VerifyOptions(symbols_each=100, times=(0.125,), count=5)
    found = list(findings_of(model, task, options))
    assert found
    assert all(each.correct == each.count for each in found)
    assert extract(model, task, budget=300).listed.first is None
