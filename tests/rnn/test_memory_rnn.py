"""MemoryRNN: the habits of torch.nn.LSTM, padding, resuming, traces, copies."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from safetensors.torch import save_file

import unbounded as ub
from tests.memories.common import MEMORIES
from tests.rnn.layers import check_chunks, check_gradients, random
from tests.sweep import sweep
from tests.tolerances import assert_close
from unbounded.memories.core import state_tensors

CONTROLLERS = ["lstm", "gru", "elman"]
DOUBLE = torch.float64


def make(memory="stack", controller="lstm", **options):
    torch.manual_seed(0)
    return ub.MemoryRNN(3, 5, MEMORIES[memory](4), controller, dtype=DOUBLE, **options)


def drop_empty_rows(state):
    """Drop padding rows, whose strength stays 0, to compare states that act alike."""
    alive = state.memory.strengths[0] > 0
    return state.memory.values[0][alive], state.memory.strengths[0][alive]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_layouts_agree(memory, controller):
    layer = make(memory, controller, output_size=2)
    x = random(6, 2, 3)
    output, state = layer(x)
    assert output.shape == (6, 2, 2)
    first = make(memory, controller, output_size=2, batch_first=True)
    by_batch, _ = first(x.transpose(0, 1))
    assert_close(by_batch.transpose(0, 1), output, "batch first")
    alone, alone_state = layer(x[:, 1])
    assert_close(alone, output[:, 1], "unbatched")
    second = state_tensors(ub.index_state(state, [1]))
    for got, want in zip(state_tensors(alone_state), second, strict=True):
        assert_close(got, want.reshape(got.shape), "unbatched state")
    assert alone_state.hidden.shape == (1, 5)
    onward, _ = layer(x[:, 1], alone_state)
    assert_close(onward, layer(x, state)[0][:, 1], "unbatched, carried on")


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_padded_equals_unpadded(memory, controller):
    layer = make(memory, controller, output_size=2, learn_initial_state=True)
    x, lengths = random(7, 4, 3), torch.tensor([7, 0, 1, 4])
    x.requires_grad_()
    output, state = layer(x, lengths=lengths)
    weights = random(7, 4, 2, seed=2)
    (output * weights).sum().backward()
    got = {name: p.grad.clone() for name, p in layer.named_parameters()}
    got_x = x.grad.clone()
    layer.zero_grad()
    x.grad = None
    for b, length in enumerate(lengths.tolist()):
        assert output[length:, b].abs().sum() == 0
        if length == 0:
            continue
        alone, alone_state = layer(x[:length, b : b + 1])
        assert_close(output[:length, b], alone[:, 0], f"output of sequence {b}")
        (alone[:, 0] * weights[:length, b]).sum().backward()
        sequence_state = ub.index_state(state, [b])
        pairs = zip(state_tensors(sequence_state[:3]), state_tensors(alone_state[:3]), strict=True)
        rows = zip(drop_empty_rows(sequence_state), drop_empty_rows(alone_state), strict=True)
        for one, other in (*pairs, *rows):
            assert_close(one, other, f"state of sequence {b}")
        follow = random(2, 1, 3, seed=3)
        assert_close(layer(follow, sequence_state)[0], layer(follow, alone_state)[0], "carried on")
    for name, parameter in layer.named_parameters():
        assert_close(got[name], parameter.grad, f"gradient of {name}")
    assert_close(got_x, x.grad, "gradient of x")


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_state_is_resumed(memory, controller):
    check_chunks(make(memory, controller, batch_first=True), random(2, 8, 3), [3, 5])


@pytest.mark.parametrize(
    ("memory", "controller"),
    sweep(
        MEMORIES,
        CONTROLLERS,
        fast=lambda memory, controller: (
            (memory, controller) in (("stack", "gru"), ("stack", "elman"), ("queue", "lstm"))
        ),
    ),
)
def test_gradcheck(memory, controller):
    layer = make(memory, controller, output_size=2, learn_initial_state=True, backend="reference")
    check_gradients(layer, random(3, 2, 3))


def test_the_learned_initial_state_is_used_and_receives_gradients():
    layer = make(learn_initial_state=True)
    assert [p.shape for p in layer.layers[0].initial_controller] == [(5,), (5,)]
    output, _ = layer(random(2, 2, 3))
    output.sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in layer.layers[0].initial_controller)
    zero = make().initial_state(2)
    assert all(tensor.abs().sum() == 0 for tensor in (zero.hidden, zero.cell))


@pytest.mark.parametrize("memory", MEMORIES)
def test_heads_are_declared_by_the_memory(memory):
    layer = make(memory)
    for head in layer.memory.heads:
        rows = layer.layers[0].heads.rows(head.name)
        assert layer.layers[0].heads.weight[rows].shape == (head.size, 5)
        if "pop" in head.name:
            assert layer.layers[0].heads.bias[rows].tolist() == [-1.0]
        else:
            assert layer.layers[0].heads.bias[rows].abs().max() <= 1 / 5**0.5


def test_push_bias_makes_initial_pushes_strong():
    layer = ub.MemoryRNN(3, 5, ub.NeuralQueue(4, push_bias=3.0))
    assert layer.layers[0].heads.bias[layer.layers[0].heads.rows("push")].tolist() == [3.0]
    assert layer.layers[0].heads.bias[layer.layers[0].heads.rows("pop")].tolist() == [-1.0]


@pytest.mark.parametrize("variant", ["graves2014", "deleu2016"])
def test_shift_bias_makes_heads_move_initially(variant):
    tape = ub.TuringTape(
        9, 4, read_heads=2, write_heads=3, shift_range=2, variant=variant, shift_bias=2.0
    )
    layer = ub.MemoryRNN(3, 5, tape)
    for name, count in (("read_shift", 2), ("write_shift", 3)):
        biases = layer.layers[0].heads.bias[layer.layers[0].heads.rows(name)]
        assert biases.tolist() == [0.0, 0.0, 0.0, 0.0, 2.0] * count
    at_rest = ub.MemoryRNN(3, 5, ub.TuringTape(9, 4, variant=variant))
    biases = at_rest.layers[0].heads.bias[at_rest.layers[0].heads.rows("read_shift")]
    assert (biases == 0).all() if variant == "deleu2016" else (biases != 0).all()


def test_a_quiet_deque_has_weak_initial_pushes_at_the_bottom():
    quiet = ub.memories.MEMORIES["quiet_deque"](4, pop_bias=-2.0)
    layer = ub.MemoryRNN(3, 5, quiet)
    bias = {
        head.name: layer.layers[0].heads.bias[layer.layers[0].heads.rows(head.name)]
        for head in quiet.heads
    }
    assert bias["bottom_push"].tolist() == [-3.0]
    assert bias["top_pop"].tolist() == bias["bottom_pop"].tolist() == [-2.0]
    assert bias["top_push"].abs().item() <= 1 / 5**0.5


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_trace_has_instructions_states_and_read_vectors(memory, tmp_path):
    layer = make(memory, output_size=2)
    x, lengths = random(6, 2, 3), torch.tensor([6, 4])
    output, state = layer(x, lengths=lengths)
    traced, traced_state, trace = layer(x, lengths=lengths, return_trace=True)
    assert_close(traced, output, "output")
    assert_close(traced_state.read_vector, state.read_vector, "read_vector")
    rows = 12 if memory == "deque" else 6
    assert trace.arrays["strengths"].shape == (2, 6, rows)
    assert_close(trace.arrays["strengths"][:, -1], state.memory.strengths, "last strengths")
    fields = [trace.arrays[f"instruction.{head.name}"] for head in layer.memory.heads]
    read_vectors, _ = layer.memory.unroll(layer.memory.Instruction(*fields))
    assert_close(
        trace.arrays["read_vector"][0], read_vectors[0], "read vectors follow from instructions"
    )
    end = ".top" if memory == "deque" else ""
    weights = trace.arrays[f"read_weights{end}"][0]
    from_weights = weights @ state.memory.values[0]
    assert_close(
        from_weights, trace.arrays["read_vector"][0, :, :4], "read vectors follow from weights"
    )
    ub.save_trace(tmp_path / "t.safetensors", trace._replace(symbols=[["a"] * 6, ["b"] * 4]))
    loaded = ub.load_trace(tmp_path / "t.safetensors")
    assert loaded.memory == type(layer.memory).__name__
    assert loaded.symbols == [["a"] * 6, ["b"] * 4]
    assert torch.equal(loaded.lengths, lengths)
    for name, array in trace.arrays.items():
        assert torch.equal(loaded.arrays[name], array)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
def test_a_file_without_a_trace(tmp_path, content):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(content)
    with pytest.raises(ub.errors.CheckpointError, match=r"broken\.safetensors"):
        ub.load_trace(path)


@pytest.mark.parametrize("lacking", ["lengths", "memory", "symbols"])
def test_a_trace_that_lacks_a_part(tmp_path, lacking):
    path = tmp_path / "cut.safetensors"
    metadata = {"format": "unbounded-trace", "version": "2", "memory": "NeuralStack"}
    tensors = {"lengths": torch.ones(1)}
    if lacking == "symbols":
        metadata["symbols"] = "[["
    elif lacking == "memory":
        del metadata["memory"]
    else:
        tensors = {"read_vector": torch.ones(1)}
    save_file(tensors, str(path), metadata=metadata)
    with pytest.raises(ub.errors.CheckpointError, match=r"cut\.safetensors: .* incomplete"):
        ub.load_trace(path)


def test_an_indented_json_file_is_recognized(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text('{\n  "format": "another"\n}\n')
    with pytest.raises(ub.errors.CheckpointError, match="got 'another' version None"):
        ub.load_trace(path)


def test_autocast_keeps_strengths_in_float32():
    torch.manual_seed(0)
    layer = ub.MemoryRNN(3, 8, ub.NeuralQueue(4), output_size=2)
    x = torch.randn(5, 2, 3)
    want, _ = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, state = layer(x.bfloat16())
    assert state.memory.strengths.dtype == torch.float32
    assert torch.allclose(output.float(), want, atol=0.05)
    output.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in layer.parameters())


def test_distributed_data_parallel(tmp_path):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        layer = make(output_size=2, learn_initial_state=True)
        x = random(4, 2, 3)
        want, _ = layer(x)
        wrapped = DistributedDataParallel(copy.deepcopy(layer))
        output, _ = wrapped(x)
        assert torch.equal(output, want)
        output.sum().backward()
        assert all(p.grad is not None for p in wrapped.parameters())
        # Deleted before the group. Otherwise it waits for the group's threads while it holds the
        # GIL, which they may need: sometimes the test never ended.
        del wrapped, output
        gc.collect()
    finally:
        dist.destroy_process_group()
