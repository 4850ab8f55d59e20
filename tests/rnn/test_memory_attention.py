"""MemoryAttention against the loop over a memory's steps, for every memory; blocks with one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import unbounded as ub
from tests.memories.toy import EVERY
from tests.rnn.layers import check_chunks, check_gradients, check_padding, random
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError
from unbounded.memories.core import state_tensors

DOUBLE = torch.float64
#: The read vector of a Toy depends on its empty rows, which no other memory's does.
MEMORIES = {name: kind() for name, kind in EVERY.items() if "toy" not in name}
EACH = pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES)


def make(memory, **options):
    torch.manual_seed(0)
    return ub.MemoryAttention(5, memory, batch_first=True, **{"dtype": DOUBLE, **options})


def steps_of(layer, x, state):
    """One sequence after the other, one step after the other."""
    outputs, states = [], []
    for row in range(len(x)):
        own, output = ub.index_state(state, [row]), []
        for step in x[row]:
            fields = layer.heads(step.unsqueeze(0))
            read_vector, own = layer.memory.step(own, layer.memory.Instruction(*fields))
            output.append(layer.output(read_vector)[0])
        outputs.append(torch.stack(output))
        states.append(own)
    return torch.stack(outputs), states


@EACH
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning")
def test_a_trace_has_the_steps_of_a_call(memory, batch_first):
    layer, x = make(memory), random(2, 4, 5)
    layer.batch_first = batch_first
    x = x if batch_first else x.transpose(0, 1)
    torch.manual_seed(1)  # some memories start with random cells
    trace = layer.trace(x)
    torch.manual_seed(1)
    output, _ = layer(x)
    read_vectors = trace.arrays["read_vector"]
    output = output if batch_first else output.transpose(0, 1)
    assert_close(output, layer.output(read_vectors), "output")
    assert trace.lengths.tolist() == [4, 4]
    for head in memory.heads:
        assert trace.arrays[f"instruction.{head.name}"].shape == (2, 4, *head.shape)


def test_a_trace_continues_from_a_state_and_has_one_length():
    layer, x = make(ub.NeuralStack(4)), random(2, 6, 5)
    _, state = layer(x[:, :2])
    rest = layer.trace(x[:, 2:], state).arrays["read_vector"]
    assert_close(rest, layer.trace(x).arrays["read_vector"][:, 2:], "read_vector")
    packed = nn.utils.rnn.pack_padded_sequence(x, [6, 4], batch_first=True)
    with pytest.raises(ShapeError, match=r"sequences of one length, got lengths \[6, 4\]"):
        layer.trace(packed)


@EACH
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning")
def test_equals_the_loop_over_steps(memory, backend):
    layer, x = make(memory, backend=backend), random(3, 6, 5)
    state = layer.initial_state(3, [6] * 3 if memory.uses_lengths else None)
    output, last = layer(x, state)
    expected, states = steps_of(layer, x, state)
    assert_close(output, expected, "output")
    for row, own in enumerate(states):
        for one, other in zip(last, own, strict=True):
            assert_close(one[row], other[0], "state")


@EACH
@pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning")
def test_padded_equals_unpadded_and_continues(memory):
    layer, lengths = make(memory), torch.tensor([7, 0, 3, 7])
    begun = layer.initial_state(4, [7] * 4 if memory.uses_lengths else None)
    check_padding(layer, random(4, 7, 5), random(4, 2, 5, seed=2), lengths, begun)


@EACH
@pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning")
def test_chunks_with_carried_state_equal_one_call(memory):
    layer = make(memory)
    begun = layer.initial_state(2, [7, 7] if memory.uses_lengths else None)
    check_chunks(layer, random(2, 7, 5), [1, 4, 2], begun)


@pytest.mark.parametrize(
    "name", sweep(MEMORIES, fast=lambda name: list(MEMORIES).index(name) % 3 == 0)
)
@pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning")
def test_gradcheck(name):
    check_gradients(make(MEMORIES[name]), random(2, 3, 5), None, [3, 2], fast_mode=True)


def test_a_kernel_serves_it():
    layer, x = make(ub.NeuralStack(4), backend="cpu"), random(3, 5, 5)
    assert_close(layer(x)[0], make(ub.NeuralStack(4), backend="reference")(x)[0])


def test_a_call_without_a_state_takes_its_lengths():
    layer, x = make(ub.RollingTape(7, 3)), random(2, 5, 5)
    output, state = layer(x, lengths=[5, 3])
    assert state.jump.tolist() == [5, 3]
    assert_close(layer(x, layer.initial_state(2, [5, 3]), [5, 3])[0], output)
    assert_close(layer(x)[0], layer(x, layer.initial_state(2, [5, 5]))[0])


def test_layouts_and_precision():
    layer = make(ub.NeuralQueue(4), dtype=torch.float32)
    steps_first = ub.MemoryAttention(5, ub.NeuralQueue(4))
    steps_first.load_state_dict(layer.state_dict())
    x = torch.randn(3, 6, 5)
    output, _ = layer(x)
    assert_close(steps_first(x.transpose(0, 1))[0].transpose(0, 1), output)
    assert_close(layer(x[0])[0], output[0])
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x)[0].dtype == torch.bfloat16
    half, state = layer.bfloat16()(x.bfloat16())
    torch.testing.assert_close(half.float(), output, atol=0.05, rtol=0.05)
    assert all(part.dtype == torch.bfloat16 for part in state)
    assert layer(torch.zeros(0, 4, 5, dtype=torch.bfloat16))[0].shape == (0, 4, 5)


@pytest.mark.parametrize("beside", [True, False])
@EACH
@pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning")
def test_a_transformer_with_a_memory(memory, beside):
    torch.manual_seed(0)
    options = {"memory": memory, "beside_attention": beside, "batch_first": True}
    if memory.uses_lengths:
        with pytest.raises(ConfigError, match="memory: RollingTape uses lengths"):
            ub.Transformer(3, 6, 3, 2, **options)
        return
    layer, x = ub.Transformer(3, 6, 3, 2, dtype=DOUBLE, **options), random(3, 6, 3)
    assert [len(block.mixers) for block in layer.blocks[1:]] == [1, 1 + beside, 1]
    begun = layer.initial_state(3)
    full, _ = layer(x, begun)
    first, state = layer(x[:, :2], begun)
    rest, end = layer(x[:, 2:], ub.detach_state(state))
    assert_close(torch.cat([first, rest], dim=1), full, "output")
    padded, _ = layer(x, begun, [6, 2, 4])
    assert_close(padded[2, :4], full[2, :4], "padded")
    layer(x, ub.index_state(end, [2, 0, 1]))
    assert len(state_tensors(end)) == 1 + 3 * (2 + beside) + len(memory.state_fields)


def test_it_learns_to_repeat_the_symbol_before():
    """One block with a stack in the place of attention: no other part sees an earlier step."""
    torch.manual_seed(2)
    layer = ub.Transformer(4, 16, 1, 1, positions="none", memory=ub.NeuralStack(8))
    readout = nn.Linear(16, 4)
    optimizer = torch.optim.Adam([*layer.parameters(), *readout.parameters()], lr=1e-2)
    symbols = torch.randint(0, 4, (9, 64))
    x = nn.functional.one_hot(symbols, 4).float()
    losses = []
    for _ in range(150):
        logits = readout(layer(x)[0])[1:]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), symbols[:-1].flatten())
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[0] > 1.3
    assert losses[-1] < 0.5


def test_bad_input():
    with pytest.raises(DTypeError, match="the class NeuralStack"):
        ub.MemoryAttention(4, ub.NeuralStack)
    with pytest.raises(ChoiceError, match="NeuralStack"):
        ub.MemoryAttention(4, "stack")
    with pytest.raises(ShapeError, match="d_model: expected an integer >= 1, got 0"):
        ub.MemoryAttention(0, ub.NeuralStack(2))
    layer, x = make(ub.NeuralStack(4)), random(2, 4, 5)
    with pytest.raises(ShapeError, match=r"x: expected shape \[B, T, 5\]"):
        layer(x[..., 1:])
    with pytest.raises(ShapeError, match="state: expected a StackState of NeuralStack, got Queue"):
        layer(x, ub.NeuralQueue(4).initial_state(2, dtype=DOUBLE))
    with pytest.raises(ShapeError, match=r"expected shape \[2, "):
        layer(x, layer.initial_state(3))
    stack = {"memory": ub.NeuralStack(4)}
    for options, message in (
        ({"memory_layers": [1]}, "memory_layers: has no effect without a memory"),
        ({"beside_attention": True}, "beside_attention: has no effect without a memory"),
        ({**stack, "memory_layers": [3]}, r"memory_layers: expected numbers of 1..2, got 3"),
        (
            {**stack, "memory_layers": [1, 1]},
            "memory_layers: expected each number once",
        ),
        ({**stack, "memory_layers": []}, "memory_layers: expected at least one block number"),
    ):
        with pytest.raises(ConfigError, match=message):
            ub.Transformer(3, 8, **options)
    with pytest.raises(DTypeError, match="memory_layers: expected"):
        ub.Transformer(3, 8, memory_layers=2, **stack)
    assert repr(layer).startswith("MemoryAttention(\n  5, memory=NeuralStack(")


@pytest.mark.parametrize(
    "memory",
    [
        ub.RandomAccessMemory(3, initial="learned"),
        ub.LieAccessMemory(3, initial="learned"),
    ],
)
def test_each_parameter_has_a_gradient(memory):
    layer = ub.MemoryAttention(4, memory)
    layer(torch.randn(5, 2, 4))[0].sum().backward()
    assert layer.initial_memory is not None
    assert [name for name, each in layer.named_parameters() if each.grad is None] == []
