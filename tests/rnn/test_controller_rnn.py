"""Controllers without a memory: kernels and torch's loop against the reference."""

from functools import partial

import pytest
import torch

import unbounded as ub
from unbounded.errors import ShapeError
from unbounded.kernels import available
from unbounded.rnn import DeepLSTM, ElmanController
from unbounded.rnn.baselines import _run_plain
from unbounded.rnn.fused import run_steps

# Second derivatives come from the reference implementation, with one warning.
pytestmark = pytest.mark.filterwarnings("ignore:backward with create_graph:RuntimeWarning")

STEPS, BATCH, INPUT, HIDDEN = 7, 4, 3, 5


def make(activation, bias=True):
    torch.manual_seed(2)
    controller = partial(ElmanController, activation=activation, bias=bias)
    return ub.ControllerRNN(INPUT, HIDDEN, controller, dtype=torch.float64)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


LENGTHS = pytest.mark.parametrize("lengths", [None, [7, 0, 1, 4], [7, 5, 5, 1], [3, 3, 0, 0]])


def results_of(run, layer, lengths):
    """A layer's results for fixed inputs, their gradients, and second derivatives."""
    torch.manual_seed(3)
    x = draw(STEPS, BATCH, INPUT)
    state = tuple(draw(BATCH, HIDDEN) for _ in range(layer.controller.state_size))
    counts = None if lengths is None else torch.tensor(lengths)
    outputs, final = run(x, state, counts)
    factors = torch.linspace(1, 2, STEPS).reshape(-1, 1, 1)
    loss = (outputs * factors).sum() + sum(3 * part.square().sum() for part in final)
    expected = [x, *state, *layer.parameters()]
    first = torch.autograd.grad(loss, expected, create_graph=True)
    second = torch.autograd.grad(sum(each.square().sum() for each in first), expected)
    return [outputs, *final, *first, *second]


def assert_same(results, others):
    for one, other in zip(results, others, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


@LENGTHS
@pytest.mark.parametrize("controller", ["lstm", "gru"])
def test_cells_with_gates_agree_with_the_reference(controller, lengths):
    torch.manual_seed(2)
    layer = ub.ControllerRNN(INPUT, HIDDEN, controller, dtype=torch.float64)
    reference = results_of(partial(run_steps, layer.controller), layer, lengths)
    assert_same(results_of(layer, layer, lengths), reference)


@LENGTHS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
def test_kernels_and_torchs_loop_agree_with_the_reference(activation, bias, lengths):
    layer = make(activation, bias)
    reference = results_of(partial(run_steps, layer.controller), layer, lengths)
    assert_same(results_of(layer, layer, lengths), reference)
    assert_same(results_of(partial(_run_plain_of, layer.controller), layer, lengths), reference)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("lengths", [[60, 0, 1, 4], [3, 60, 2, 1]])
def test_padding_of_an_unbounded_network_leaves_gradients_finite(bias, lengths):
    """Beyond a length h would overflow, and 0 times infinity is NaN."""
    layer = make("relu", bias)
    layer.backend = "reference"
    with torch.no_grad():
        for weight in layer.parameters():
            weight.abs_()
        layer.controller.weight_hh.mul_(1e8)
    x = torch.zeros(60, BATCH, INPUT, dtype=torch.float64)
    for b, steps in enumerate(lengths):
        x[: min(steps, 4), b] = 1e-30
    if bias:
        with torch.no_grad():
            layer.controller.bias_ih.fill_(1e-300)
    x.requires_grad_()
    counts = torch.tensor(lengths).clamp(max=4)
    output, (final,) = layer(x, None, counts)
    grads = torch.autograd.grad(output.sum() + final.sum(), [x, *layer.parameters()])
    assert all(each.isfinite().all() for each in (output, final, *grads))
    reference = run_steps(layer.controller, x, layer.initial_state(BATCH), counts)
    expected = torch.autograd.grad(
        reference[0].sum() + reference[1][0].sum(), [x, *layer.parameters()]
    )
    for one, other in zip(
        (output, final, *grads), (reference[0], *reference[1], *expected), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=0.0)


@LENGTHS
@pytest.mark.parametrize("bias", [True, False])
def test_torchs_packed_loop_agrees_with_the_reference(bias, lengths):
    layer = make("relu", bias)
    layer.backend = "reference"
    assert_same(
        results_of(layer, layer, lengths),
        results_of(partial(run_steps, layer.controller), layer, lengths),
    )


def _run_plain_of(controller, x, state, lengths):
    return _run_plain(controller, x, state[0], lengths)


@pytest.mark.skipif(not available().ok, reason="no compiled kernels")
@pytest.mark.parametrize(
    "layer",
    [
        ub.ControllerRNN(INPUT, HIDDEN, "gru"),
        ub.ControllerRNN(INPUT, HIDDEN, partial(ElmanController, activation="sigmoid")),
        DeepLSTM(INPUT, HIDDEN, 2),
    ],
    ids=["gru", "elman", "deep lstm"],
)
def test_the_kernels_run_sequences_with_lengths(layer):
    lengths = torch.tensor([7, 5, 5, 1])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        layer(torch.randn(STEPS, BATCH, INPUT), None, lengths)
    names = {event.key for event in profile.key_averages()}
    assert "unbounded::recurrence" in names
    assert not names & {"aten::lstm", "aten::gru", "aten::rnn_tanh"}


@LENGTHS
@pytest.mark.parametrize("layers", [1, 2])
def test_a_deep_lstm_agrees_with_torch_on_sequences_with_lengths(layers, lengths, monkeypatch):
    torch.manual_seed(2)
    layer = DeepLSTM(INPUT, HIDDEN, layers, dtype=torch.float64)
    expected = [each for each in layer.parameters() if each.requires_grad]
    x, counts = draw(STEPS, BATCH, INPUT), None if lengths is None else torch.tensor(lengths)
    results = []
    for is_fused in (True, False):
        if not is_fused:
            monkeypatch.setattr("unbounded.rnn.baselines.why_not_alone", lambda *_: "a test")
        outputs, state = layer(x, None, counts)
        parts = [outputs, *(part for pair in state for part in pair)]
        loss = sum((k + 1) * part.square().sum() for k, part in enumerate(parts))
        results.append([*parts, *torch.autograd.grad(loss, [x, *expected])])
    assert_same(*results)


def test_hooks_see_every_step():
    layer = make("sigmoid")
    steps = []
    layer.controller.register_forward_hook(lambda *call: steps.append(call))
    layer(draw(STEPS, BATCH, INPUT))
    assert len(steps) == STEPS


def test_an_empty_sequence_is_an_error():
    with pytest.raises(ShapeError):
        make("tanh")(draw(0, BATCH, INPUT))


@pytest.mark.parametrize("count", [0, 2])
def test_a_state_of_another_number_of_tensors(count):
    with pytest.raises(ShapeError, match=r"state: expected a tuple of 1 tensor\(s\), got"):
        make("tanh")(draw(STEPS, BATCH, INPUT), (draw(BATCH, HIDDEN),) * count)
