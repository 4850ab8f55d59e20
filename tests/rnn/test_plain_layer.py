"""Layers without a memory accept and refuse the same arguments as MemoryRNN."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

import unbounded as ub
from tests.sweep import sweep
from unbounded.errors import DTypeError, ShapeError

# Warnings of torch itself, about forward mode, linearize and uncompiled parts.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]

INPUT, HIDDEN, STEPS = 3, 5, 6
MAKERS = {
    "deep_lstm": lambda **options: ub.DeepLSTM(INPUT, HIDDEN, 2, **options),
    "elman": lambda **options: ub.ControllerRNN(INPUT, HIDDEN, **options),
    "gru": lambda **options: ub.ControllerRNN(INPUT, HIDDEN, "gru", **options),
    "srcn": lambda **options: ub.SRCN(INPUT, HIDDEN, 2, **options),
    "transformer": lambda **options: ub.Transformer(INPUT, HIDDEN, num_heads=1, **options),
    "deltaproduct": lambda **options: ub.DeltaProduct(INPUT, HIDDEN, num_heads=1, **options),
}
EACH = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
#: In bfloat16 a small DeltaProduct is off by more, and torch has no linearization of its norm.
CLOSE = {name: MAKERS[name] for name in MAKERS if name != "deltaproduct"}
#: Those whose state is tensors [B, H].
CELLS = {name: MAKERS[name] for name in ("deep_lstm", "elman", "gru", "srcn")}


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(4)


def tensors(state):
    return ub.memories.core.state_tensors(state)


@EACH
def test_a_sequence_without_a_batch_is_a_batch_of_one(make):
    layer, x = make(), torch.randn(STEPS, INPUT)
    output, state = layer(x[:4])
    rest, last = layer(x[4:], state)
    full, end = layer(x.unsqueeze(1))
    torch.testing.assert_close(torch.cat([output, rest]), full.squeeze(1))
    for one, other in zip(tensors(last), tensors(end), strict=True):
        torch.testing.assert_close(one, other.squeeze(0))


@EACH
def test_lengths_in_a_list_and_a_packed_sequence(make):
    layer, sequences = make(), [torch.randn(n, INPUT) for n in (4, STEPS)]
    packed, last = layer(pack_sequence(sequences, enforce_sorted=False))
    output, lengths = pad_packed_sequence(packed)
    assert lengths.tolist() == [4, STEPS]
    padded = torch.nn.utils.rnn.pad_sequence(sequences)
    again, end = layer(padded, lengths=[4, STEPS])
    torch.testing.assert_close(output, again)
    for one, other in zip(tensors(last), tensors(end), strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(layer(sequences[0])[0], output[:4, 0])


@EACH
def test_an_empty_batch_of_a_plain_layer(make):
    output, state = make(batch_first=True)(torch.zeros(0, STEPS, INPUT))
    assert output.shape[:2] == (0, STEPS)
    assert all(part.shape[0] == 0 for part in tensors(state))


@pytest.mark.parametrize(
    "make", [*MAKERS.values(), lambda: ub.ControllerRNN(INPUT, HIDDEN, "lstm")]
)
def test_an_initial_state_has_separate_tensors(make):
    parts = tensors(make().initial_state(2))
    parts[0][0] = 1.0
    assert not any(bool(part.any()) for part in parts[1:])


@EACH
def test_a_change_of_the_output_leaves_the_state(make):
    with torch.no_grad():
        output, state = make()(torch.randn(STEPS, 2, INPUT))
        before = [tensor.clone() for tensor in tensors(state)]
        output.zero_()
    assert all(map(torch.equal, tensors(state), before))


@pytest.mark.parametrize("make", CLOSE.values(), ids=CLOSE)
def test_half_precision_and_autocast(make):
    layer, x = make(), torch.randn(STEPS, 2, INPUT)
    expected, state = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        output, cast = layer(x)
        again, _ = layer(x, cast)
    assert output.dtype == again.dtype == torch.bfloat16
    assert all(part.dtype in (torch.float32, torch.int64) for part in tensors(cast))
    torch.testing.assert_close(output.float(), expected, atol=0.03, rtol=0.03)
    half = layer.bfloat16()
    output, state = half(x.bfloat16())
    assert output.dtype == torch.bfloat16
    assert all(part.dtype in (torch.bfloat16, torch.int64) for part in tensors(state))
    torch.testing.assert_close(output.float(), expected, atol=0.03, rtol=0.03)
    with pytest.raises(DTypeError, match=r"x: expected dtype torch.bfloat16 as the layer"):
        half(x)


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_a_state_of_another_batch_width_or_dtype_is_refused(make):
    layer, x = make(), torch.randn(STEPS, 2, INPUT)
    _, state = layer(x)
    with pytest.raises(ShapeError, match=r"state\S+: expected shape \[1, "):
        layer(x[:, :1], state)
    with pytest.raises(ShapeError, match=r"state\S+: expected shape \[2, "):
        layer(x, ub.index_state(state, [0]))
    with pytest.raises(ShapeError, match=r"state\S+: expected shape \[2, "):
        layer(x, ub.memories.core.map_state(lambda part: part[:, :-1], state))
    with pytest.raises(ShapeError, match=r"state\S+: expected shape \[5\], got \[2, 5\]"):
        layer(x[:, 0], state)
    with pytest.raises(DTypeError, match=r"state\S+: expected dtype torch.float32"):
        layer(x, ub.move_state(state, dtype=torch.float64))
    for other in ("a", (*state, *state), [], (), 3):
        with pytest.raises(ShapeError, match="state: expected"):
            layer(x, other)


def test_states_with_a_missing_tensor():
    layer, x = ub.DeepLSTM(INPUT, HIDDEN, 2), torch.randn(STEPS, 2, INPUT)
    _, (first, second) = layer(x)
    with pytest.raises(ShapeError, match=r"of each of 2 layer\(s\), got tuple of 2, with 2, 1 in"):
        layer(x, (first, second[:1]))
    with pytest.raises(DTypeError, match=r"state\[1\].c: expected a tensor, got str"):
        layer(x, (first, (second[0], "c")))


@EACH
def test_per_sample_gradients_and_forward_mode(make):
    layer, x = make().double(), torch.randn(2, STEPS, INPUT, dtype=torch.float64)
    weights = {name: each.detach() for name, each in layer.named_parameters()}

    def loss(own, sample):
        return torch.func.functional_call(layer, own, (sample,))[0].square().sum()

    together = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    trained = [(name, each) for name, each in layer.named_parameters() if each.requires_grad]
    for k, sample in enumerate(x):
        value = layer(sample)[0].square().sum()
        alone = torch.autograd.grad(value, [each for _, each in trained])
        for (name, _), gradient in zip(trained, alone, strict=True):
            torch.testing.assert_close(together[name][k], gradient)
    way = torch.randn_like(x[0])
    _, slope = torch.func.jvp(lambda sample: loss(weights, sample), (x[0],), (way,))
    gradient = torch.func.grad(lambda sample: loss(weights, sample))(x[0])
    torch.testing.assert_close(slope, (gradient * way).sum())


@EACH
def test_a_state_in_lists_is_one(make):
    layer, x = make(), torch.randn(STEPS, 2, INPUT)
    _, state = layer(x)
    as_lists = [list(part) if isinstance(part, tuple) else part for part in state]
    torch.testing.assert_close(layer(x, as_lists)[0], layer(x, state)[0])


# GRU and Elman share a layer class, and the deep LSTM takes the most time.
@pytest.mark.parametrize("name", sweep(CLOSE, fast=lambda name: name not in ("gru", "deep_lstm")))
def test_forward_mode_and_the_meta_device(name):
    layer, x = CLOSE[name]().double(), torch.randn(STEPS, 2, INPUT, dtype=torch.float64)
    expected = torch.autograd.functional.jacobian(lambda q: layer(q)[0].sum((0, 1)), x)
    forward = torch.autograd.functional.jacobian(
        lambda q: layer(q)[0].sum((0, 1)), x, vectorize=True, strategy="forward-mode"
    )
    torch.testing.assert_close(forward, expected)
    _, push = torch.func.linearize(lambda q: layer(q)[0], x)
    assert push(x).shape == layer(x)[0].shape
    output, _ = layer.to("meta")(x.to("meta"), lengths=torch.tensor([STEPS, 2], device="meta"))
    assert output.device.type == "meta"


@EACH
def test_lengths_out_of_range_under_vmap_are_clamped(make):
    layer, x = make(), torch.randn(STEPS, 3, INPUT)
    lengths = torch.tensor([[STEPS + 2, 0, 3], [-2, 2, 3]])
    outputs, states = torch.func.vmap(lambda own: layer(x, lengths=own))(lengths)
    for k, own in enumerate(lengths.clamp(0, STEPS)):
        output, state = layer(x, lengths=own)
        torch.testing.assert_close(outputs[k], output)
        for one, other in zip(tensors(states), tensors(state), strict=True):
            torch.testing.assert_close(one[k], other)


def test_a_compiled_deep_lstm_leaves_other_layers_to_be_compiled():
    torch.compiler.reset()
    x = torch.randn(STEPS, 2, INPUT)
    torch.compile(ub.DeepLSTM(INPUT, HIDDEN), backend="eager")(x)
    for layer in (ub.SRCN(INPUT, HIDDEN, 2), ub.ControllerRNN(INPUT, HIDDEN)):
        state = ub.detach_state(layer(x)[1])
        compiled = torch.compile(layer, backend="eager", fullgraph=True)
        torch.testing.assert_close(compiled(x, state)[0], layer(x, state)[0])
    torch.compiler.reset()
