"""Code written for torch.nn.LSTM works the same with a MemoryRNN."""

from __future__ import annotations

import copy
import functools
import io

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

import unbounded as ub
from tests.rnn.layers import random
from tests.tolerances import assert_close
from unbounded import kernels
from unbounded.errors import DTypeError, ShapeError
from unbounded.memories import MEMORIES
from unbounded.memories.core import state_tensors

CONTROLLERS = ["lstm", "gru", "elman"]
needs_kernels = pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)


def make(memory="stack", controller="lstm", **options):
    torch.manual_seed(0)
    options = {"dtype": torch.float64} | options
    return ub.MemoryRNN(3, 5, MEMORIES[memory](4), controller, **options)


def reference(layer):
    """An nn.LSTM of the same sizes, for shapes."""
    return nn.LSTM(
        3, 5, num_layers=layer.num_layers, bidirectional=layer.bidirectional,
        batch_first=layer.batch_first, dtype=torch.float64,
    )  # fmt: skip


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("controller", CONTROLLERS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_last_hidden_state_has_the_place_of_an_lstms(memory, controller, batch_first):
    """h[-1] and hidden[0][-1] are the last hidden state, not the cell."""
    layer = make(memory, controller, batch_first=batch_first)
    x = random(2, 6, 3) if batch_first else random(6, 2, 3)
    output, hidden = layer(x)
    last = output[:, -1] if batch_first else output[-1]
    out, (h, *_) = layer(x)
    assert torch.equal(out, output)
    assert torch.equal(h[-1], last)
    assert torch.equal(hidden[0][-1], last)


def test_the_cell_is_the_second_field():
    """(h_n, c_n) of an LSTM, checked against its equations."""
    layer = make()
    x = random(1, 2, 3)
    _, (h_n, c_n, *_) = layer(x)
    zeros = torch.zeros(2, 5, dtype=torch.float64)
    inputs = torch.cat([x[0], torch.zeros(2, 4, dtype=torch.float64)], dim=-1)
    h, c = layer.layers[0].controller(inputs, (zeros, zeros))
    assert_close(h_n, h.unsqueeze(0), "h_n")
    assert_close(c_n, c.unsqueeze(0), "c_n")


@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("memory", ["queue", "superposition_stack"])
def test_shapes_are_those_of_lstm_for_layers_and_directions(num_layers, bidirectional, memory):
    """Several layers, both directions, packed or not."""
    layer = make(memory, num_layers=num_layers, bidirectional=bidirectional)
    lstm = reference(layer)
    x = random(6, 2, 3)
    want, (h_want, c_want) = lstm(x)
    output, (h_n, c_n, *_) = layer(x)
    assert (output.shape, h_n.shape, c_n.shape) == (want.shape, h_want.shape, c_want.shape)
    assert torch.equal(h_n[-2 if bidirectional else -1], output[-1, :, :5])
    if bidirectional:
        assert torch.equal(h_n[-1], output[0, :, 5:])
    packed = pack_sequence([random(n, 3, seed=n) for n in (2, 6, 4)], enforce_sorted=False)
    want, (h_want, _) = lstm(packed)
    output, (h_n, *_) = layer(packed)
    assert torch.equal(output.batch_sizes, want.batch_sizes)
    assert torch.equal(output.sorted_indices, want.sorted_indices)
    assert output.data.shape == want.data.shape
    assert h_n.shape == h_want.shape


@pytest.mark.parametrize("enforce_sorted", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences_equal_single_sequences(enforce_sorted, bidirectional):
    """PackedSequence as input and output."""
    layer = make("deque", num_layers=2, bidirectional=bidirectional, output_size=2)
    lengths = [6, 4, 2] if enforce_sorted else [2, 6, 4]
    sequences = [random(n, 3, seed=n) for n in lengths]
    output, (h_n, *_) = layer(pack_sequence(sequences, enforce_sorted=enforce_sorted))
    padded, its_lengths = pad_packed_sequence(output)
    assert its_lengths.tolist() == lengths
    for b, sequence in enumerate(sequences):
        alone, (h_alone, *_) = layer(sequence)
        assert_close(padded[: len(sequence), b], alone, f"sequence {b}")
        assert_close(h_n[:, b], h_alone, f"h_n of {b}")


def test_each_layer_takes_the_output_of_the_one_below():
    """Computed by hand, layer by layer, with the same weights."""
    layer = make("queue", num_layers=2, bidirectional=True)
    x = random(5, 2, 3)
    first, first_reverse, second, second_reverse = layer.all_layers()

    def both(forward, backward, inputs):
        onward, _ = forward(inputs, forward.initial_state(2))
        from_end, _ = backward(inputs.flip(0), backward.initial_state(2))
        return torch.cat([onward, from_end.flip(0)], dim=-1)

    want = both(second, second_reverse, both(first, first_reverse, x))
    assert_close(layer(x)[0], want, "output")


def test_a_state_of_several_layers_is_resumed():
    layer = make("stack", num_layers=2)
    x = random(6, 2, 3)
    want, last = layer(x)
    one, state = layer(x[:2])
    other, end = layer(x[2:], state)
    assert_close(torch.cat([one, other]), want, "output")
    assert_close(end.hidden, last.hidden, "h_n")
    picked = ub.index_state(state, [1])
    assert_close(layer(x[2:, 1:], picked)[0], other[:, 1:], "one of the batch")
    emptied = layer.empty_memory(state)
    assert torch.equal(emptied.hidden, state.hidden)
    assert [memory.values.shape[1] for memory in emptied.memory] == [0, 0]


def test_dropout_is_applied_between_layers_and_in_training_only():
    layer = make(num_layers=2, dropout=0.5)
    x = random(6, 2, 3)
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])
    layer.train()
    assert not torch.equal(layer(x)[0], layer(x)[0])


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_without_bias(controller):
    layer = make(controller=controller, bias=False)
    assert layer.layers[0].controller.bias_ih is None
    assert layer.layers[0].controller.bias_hh is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_layers": 0}, ShapeError, "num_layers: expected an integer >= 1, got 0"),
        ({"dropout": 1.0, "num_layers": 2}, ShapeError, r"dropout: expected a number in \[0, 1\)"),
        ({"dropout": 0.5}, ShapeError, "dropout: expected 0 with one layer"),
        ({"bidirectional": 1}, DTypeError, "bidirectional: expected a bool, got 1"),
        ({"controller": nn.LSTMCell}, DTypeError, "controller: expected a callable that makes"),
        (
            {"controller": functools.partial(nn.LSTMCell, bias=True), "bias": False},
            DTypeError,
            "bias: expected True with a custom controller",
        ),
    ],
)
def test_bad_choices(options, error, message):
    controller = options.pop("controller", "lstm")
    with pytest.raises(error, match=message):
        ub.MemoryRNN(3, 5, ub.NeuralStack(4), controller, **options)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("what", [float("nan"), float("inf")])
def test_padding_beyond_the_lengths_is_ignored(memory, backend, what):
    """NaN and infinity in the padding give no NaN gradients."""
    layer = make(memory, backend=backend, output_size=2)
    lengths = torch.tensor([4, 0, 2])
    clean = random(4, 3, 3)
    gradients = []
    for filler in (0.0, what):
        x = clean.clone()
        x[2:, 2], x[:, 1] = filler, filler
        x.requires_grad_()
        output, state = layer(x, lengths=lengths)
        grads = torch.autograd.grad(output.square().sum(), [x, *layer.parameters()])
        gradients.append([output, *state_tensors(state), *grads])
    for number, (with_zeros, with_filler) in enumerate(zip(*gradients, strict=True)):
        assert torch.equal(with_zeros, with_filler), number


@pytest.mark.parametrize("other", [ub.ControllerRNN(3, 5), ub.SRCN(3, 5, 2), ub.DeepLSTM(3, 5, 2)])
def test_padding_is_ignored_by_layers_without_a_memory(other):
    x = torch.randn(4, 2, 3)
    x[2:, 0] = float("nan")
    output, _ = other(x, lengths=torch.tensor([2, 4]))
    learned = [p for p in other.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(output.sum(), learned, allow_unused=True)
    assert all(g is None or bool(g.isfinite().all()) for g in gradients)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_reset_parameters_initializes_a_layer_from_the_meta_device(memory, controller):
    """No parameter stays uninitialised."""
    layer = make(
        memory, controller, device="meta", learn_initial_state=True, output_size=2, num_layers=2
    )
    layer = layer.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(1e20)
    layer.reset_parameters()
    for name, parameter in layer.named_parameters():
        assert bool((parameter.abs() <= 10).all()), name  # -10 is a declared bias
    x = random(4, 2, 3)
    assert layer(x)[0].isfinite().all()


def test_reset_parameters_has_the_distributions_of_a_new_layer():
    """The same distributions, identified by their bounds and the declared biases."""
    layer = make(output_size=2, learn_initial_state=True)
    layer.reset_parameters()
    rows = layer.layers[0].heads.rows("pop")
    assert layer.layers[0].heads.bias[rows].tolist() == [-1.0]
    assert layer.layers[0].controller.bias_ih[5:10].tolist() == [1.0] * 5
    assert all(p.abs().max() <= 5**-0.5 for p in layer.layers[0].initial_controller)


def test_a_forward_pass_on_the_meta_device():
    """The meta device gives shapes without numbers."""
    for memory in MEMORIES:
        layer = make(memory, device="meta", backend="reference")
        output, (h_n, *_) = layer(torch.empty(4, 2, 3, device="meta", dtype=torch.float64))
        assert output.is_meta
        assert h_n.shape == (1, 2, 5)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_an_empty_batch(memory, backend):
    layer = make(memory, backend=backend)
    output, (h_n, *_) = layer(random(4, 0, 3))
    assert output.shape == (4, 0, 5)
    assert h_n.shape == (1, 0, 5)
    output.sum().backward()


def test_flatten_parameters_can_be_called():
    layer = make()
    before = layer(random(4, 2, 3))[0]
    assert layer.flatten_parameters() is None
    assert torch.equal(layer(random(4, 2, 3))[0], before)


def test_an_unbatched_state_cannot_be_indexed():
    layer = make()
    _, state = layer(random(4, 3))
    for function in (lambda: ub.index_state(state, [0]), lambda: layer.empty_memory(state)):
        with pytest.raises(ShapeError, match=r"hidden \[1, 5\] of a call without a batch"):
            function()


@pytest.mark.parametrize("state", [torch.zeros(4, 5), "four", 4])
def test_invalid_states(state):
    with pytest.raises(ShapeError, match="state: expected a MemoryRNNState"):
        make()(random(4, 3), state)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_state_can_be_saved_and_loaded_with_weights_only(memory):
    _, state = make(memory)(random(4, 2, 3))
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    again = torch.load(file, weights_only=True)
    assert type(again) is type(state)
    assert type(again.memory) is type(state.memory)
    pairs = zip(state_tensors(again), state_tensors(state), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(memory, dtype):
    """.bfloat16() and .half() run as for nn.LSTM; the memory is float32."""
    layer = make(memory, dtype=torch.float32, output_size=2)
    x = random(4, 2, 3).float()
    want, _ = layer(x)
    layer.to(dtype)
    output, state = layer(x.to(dtype))
    assert output.dtype == state.hidden.dtype == state.cell.dtype == dtype
    assert {tensor.dtype for tensor in state.memory} == {torch.float32}
    assert torch.allclose(output.float(), want, atol=0.05)
    onward, _ = layer(x.to(dtype), state)
    onward.float().sum().backward()
    assert all(p.grad is not None and p.grad.dtype == dtype for p in layer.parameters())
    begun, _ = layer(x.to(dtype), layer.initial_state(2))
    assert torch.equal(begun, output)
    for other in (x, pack_sequence([x[:, 0]])):
        with pytest.raises(DTypeError, match=f"x: expected dtype {dtype}"):
            layer(other)


def test_half_precision_with_learned_initial_values():
    memory = ub.TuringTape(7, 5, initial_cells="learned")
    layer = ub.MemoryRNN(3, 5, memory).bfloat16()
    layer(random(4, 2, 3).bfloat16())[0].float().sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


@pytest.mark.filterwarnings("ignore::unbounded.errors.BackendWarning")
@pytest.mark.parametrize("build", [make, lambda **options: ub.ControllerRNN(3, 5, **options)])
def test_half_precision_with_a_parametrization_that_has_buffers(build):
    layer, x = build(dtype=torch.float32), random(4, 2, 3).float()
    controller = layer.controller if build is not make else layer.layers[0].controller
    spectral_norm(controller, "weight_ih", n_power_iterations=3)
    with torch.no_grad():
        controller.parametrizations.weight_ih.original.normal_()
    half = copy.deepcopy(layer).bfloat16()
    drawn = [held.clone() for held in half.buffers()]
    for _ in range(2):
        expected, (output, _) = layer(x)[0], half(x.bfloat16())
    output.float().sum().backward()
    assert torch.allclose(output.float(), expected, atol=0.03)
    trained = [held.clone() for held in half.buffers()]
    for held, other, before in zip(half.buffers(), layer.buffers(), drawn, strict=True):
        assert held.dtype == torch.bfloat16
        assert torch.allclose(held.float(), other, atol=0.02)
        assert not torch.equal(held, before)
    half.eval()(x.bfloat16())
    assert all(torch.equal(*pair) for pair in zip(half.buffers(), trained, strict=True))
    for held, before in zip(half.buffers(), drawn, strict=True):
        held.copy_(before)
    with torch.inference_mode():
        half.train()(x.bfloat16())
    assert not any(torch.equal(*pair) for pair in zip(half.buffers(), drawn, strict=True))


def test_hooks_of_a_layer_in_half_precision_run_once():
    layer, calls = make(dtype=torch.bfloat16), []
    layer.register_forward_hook(lambda *_: calls.append(1))
    layer(random(4, 2, 3).bfloat16())
    assert calls == [1]


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_under_autocast_the_output_has_its_dtype(backend):
    """The output dtype equals that of nn.LSTM."""
    layer, x = make(dtype=torch.float32, backend=backend), random(4, 2, 3).float()
    lstm = nn.LSTM(3, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x)[0].dtype == torch.bfloat16
        # torch's LSTM runs in bfloat16 on some processors only, and raises on the others.
        if torch.ops.mkldnn._is_mkldnn_bf16_supported():
            assert lstm(x)[0].dtype == torch.bfloat16


@pytest.mark.parametrize("memory", ["stack", "deque", "superposition_stack", "superposition_list"])
def test_export_with_a_dynamic_batch_and_a_state(memory):
    """torch.export accepts both, and the saved program can be loaded."""
    layer = make(memory, batch_first=True).eval()
    x = random(3, 4, 3)
    dynamic = {"x": {0: torch.export.Dim("B", min=2)}}
    program = torch.export.export(layer, (x,), dynamic_shapes=dynamic)
    larger = random(6, 4, 3)
    assert_close(program.module()(larger)[0], layer(larger)[0], "dynamic batch")
    state = ub.detach_state(layer(x)[1])
    with_state = torch.export.export(layer, (x, state))
    file = io.BytesIO()
    torch.export.save(with_state, file)
    file.seek(0)
    loaded = torch.export.load(file).module()
    assert_close(loaded(x, state)[0], layer(x, state)[0], "loaded")


def test_a_state_can_be_detached_as_in_word_language_model():
    """The idiom of PyTorch's example, and `detach_state`."""

    def repackage_hidden(h):
        return h.detach() if isinstance(h, torch.Tensor) else tuple(map(repackage_hidden, h))

    layer, x = make("superposition_stack"), random(4, 2, 3)
    _, state = layer(x)
    detached = ub.detach_state(state)
    assert not any(tensor.requires_grad for tensor in state_tensors(detached))
    want, _ = layer(x, detached)
    assert torch.equal(layer(x, repackage_hidden(state))[0], want)
    other = make("superposition_stack", "gru", num_layers=2)
    _, of_two = other(x)
    assert torch.equal(other(x, repackage_hidden(of_two))[0], other(x, of_two)[0])
    with pytest.raises(ShapeError, match=r"pair \(h0, c0\), which has no memory"):
        layer(x, repackage_hidden(state)[:2])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_several_layers_are_traced_by_traces(dtype):
    layer = make("queue", num_layers=2, bidirectional=True, batch_first=True, dtype=dtype)
    x, lengths = random(2, 5, 3).to(dtype), [5, 3]
    with pytest.raises(ShapeError, match=r"got 4\. Call layer\.traces\(x, state, lengths\), which"):
        layer(x, return_trace=True)
    _, state = layer(x, lengths=lengths)
    traces = layer.traces(x, state, lengths)
    assert len(traces) == len(layer.all_layers())
    _, last = layer(x, state, lengths)
    for trace, read_vector, memory in zip(traces, last.read_vector, last.memory, strict=True):
        assert trace.memory == "NeuralQueue"
        assert trace.lengths.tolist() == lengths
        assert_close(trace.arrays["read_vector"][0, -1], read_vector[0], "read_vector")
        assert_close(trace.arrays["strengths"][0, -1], memory.strengths[0], "strengths")


def test_the_trace_of_one_layer_is_that_of_its_call():
    layer, x = make("stack"), random(4, 2, 3)
    (trace,), (_, _, same) = layer.traces(x), layer(x, return_trace=True)
    assert trace.arrays.keys() == same.arrays.keys()
    assert all(torch.equal(trace.arrays[name], same.arrays[name]) for name in trace.arrays)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_state_cloned_before_an_in_place_change(backend):
    layer, x = make(backend=backend), random(4, 2, 3)
    output, (h_n, c_n, *_) = layer(x)
    h_n, c_n = h_n.clone(), c_n.clone()
    h_n[:, 0], c_n[:, 0] = 0, 0
    (output.sum() + h_n.sum() + c_n.sum()).backward()
    output, state = layer(x)
    output.sum().backward()
    state = ub.detach_state(state)
    state.hidden[:, 0] = 0
    layer(x, state)[0].sum().backward()


@needs_kernels
def test_a_kernels_state_changed_before_the_backward_pass_is_an_error():
    layer, x = make(backend="cpu"), random(4, 2, 3)
    for cut in (lambda state: state, ub.detach_state):
        output, state = layer(x)
        with torch.no_grad():
            cut(state).hidden[:, 0] = 0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            output.sum().backward()
