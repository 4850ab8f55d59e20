"""Inverse temperature, hardening, and certainty of actions."""

from __future__ import annotations

import copy

import pytest
import torch

import unbounded as ub
from tests.constructions import counter, stream_model
from tests.tolerances import assert_close
from unbounded.errors import ConfigError
from unbounded.evaluation import score_lengths
from unbounded.kernels import available
from unbounded.models import MemoryModel, discretized, least_saturated, sharpen
from unbounded.tasks import Batch, LengthRange, make_task

OPTIONS = [
    {},
    {"noop": True},
    {"memory": "superposition_list", "noop": True},
    {"controller": "lstm"},
    {"controller": "gru"},
]


def make(dtype=torch.float32, **options):
    torch.manual_seed(0)
    return stream_model(vocabulary=3, backend="reference", **options).to(dtype)


def tokens(steps=40, rows=3):
    return torch.randint(3, (rows, steps), generator=torch.Generator().manual_seed(1))


def batch_of(inputs, lengths=None):
    full = torch.full((len(inputs),), inputs.shape[1])
    return Batch(
        inputs,
        inputs,
        torch.ones_like(inputs, dtype=torch.bool),
        full if lengths is None else lengths,
    )


def trace_of(model, inputs):
    sequence = model.sequence
    return sequence.layer(sequence.embed(inputs), return_trace=True)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hardened_model_takes_one_action_with_weight_1(options, dtype):
    model = make(dtype, **options)
    before = copy.deepcopy(model.state_dict())
    hardened = discretized(model)
    hidden, _, trace = trace_of(hardened, tokens())
    actions = trace.arrays["instruction.action"]
    assert torch.equal(actions.amax(-1), torch.ones_like(actions[..., 0]))
    assert torch.equal(actions.sum(-1), torch.ones_like(actions[..., 0]))
    # On the hardened model's hidden units, the model's heads prefer the same action.
    own = torch.stack([model.sequence.layer.layers[0].heads(row)[0] for row in hidden])
    assert torch.equal(own.argmax(-1), actions.argmax(-1))
    assert least_saturated(hardened, batch_of(tokens())) == 1.0
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name]), name
    assert not any(parameter.requires_grad for parameter in hardened.parameters())


@pytest.mark.skipif(not available().ok, reason="no compiled kernels")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernels_carry_out_saturated_actions(options, dtype):
    """After 200 steps the cells are still the pushed values, not mixtures."""
    hardened = discretized(make(dtype, **options))
    inputs = tokens(200)
    want, final = hardened(inputs)
    layer = hardened.sequence.layer
    layer.backend = "cpu"
    got, state = hardened(inputs)
    assert_close(got, want, "logits")
    assert_close(state.memory.cells, final.memory.cells, "cells")
    assert torch.equal(state.memory.cells == -1, final.memory.cells == -1)
    assert least_saturated(hardened, batch_of(inputs)) == 1.0


@pytest.mark.skipif(not available().ok, reason="no compiled kernels")
def test_a_hardened_counter_does_not_drift_on_the_kernels():
    hardened = discretized(counter(3, 1))
    hardened.sequence.layer.backend = "cpu"
    inputs = torch.tensor([[0] * 3000 + [1] * 2000])
    _, state = hardened(inputs)
    cells = state.memory.cells[0, 1]
    assert cells[:1000].tolist() == [0.5] * 1000
    assert cells[1000:].eq(-1).all()


def test_hardening_is_idempotent():
    model = make()
    once = discretized(model).state_dict()
    twice = discretized(discretized(model)).state_dict()
    assert all(torch.equal(once[name], twice[name]) for name in once)
    sharpen(model, 2.0**20)
    assert all(torch.equal(once[name], w) for name, w in discretized(model).state_dict().items())


def test_a_tie_is_not_saturated():
    model = make(count=2)
    with torch.no_grad():
        model.sequence.layer.layers[0].heads.weight[:2] = 0.25
    assert least_saturated(discretized(model), batch_of(tokens())) == 0.5


def test_a_saved_hardened_model_stays_hardened(tmp_path):
    hardened = discretized(make())
    hardened.save_pretrained(tmp_path)
    loaded = MemoryModel.from_pretrained(tmp_path)
    assert least_saturated(loaded, batch_of(tokens())) == 1.0
    assert torch.equal(loaded(tokens())[0], hardened(tokens())[0])


def test_scaling_multiplies_only_the_logits_of_gates():
    model = make(torch.float64, count=2)
    other = copy.deepcopy(model)
    sharpen(other, 3.0)
    h = torch.rand(5, 40, dtype=torch.float64)
    (action, value), (sharper, same) = (m.sequence.layer.layers[0].heads(h) for m in (model, other))
    odds, sharper_odds = (torch.log(a[..., 0] / a[..., 1]) for a in (action, sharper))
    assert torch.allclose(sharper_odds, 3 * odds)
    assert torch.equal(value, same)
    for factor in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ConfigError, match="factor: expected a finite number above 0"):
            sharpen(model, factor)


@pytest.mark.parametrize("chunk_steps", [7, 1000])
def test_the_least_saturated_action_agrees_with_the_trace(chunk_steps):
    model = make(noop=True)
    lengths = torch.tensor([40, 11, 3])
    _, _, trace = trace_of(model, tokens())
    largest = trace.arrays["instruction.action"].detach().amax(-1)
    want = min(float(largest[row, :length].min()) for row, length in enumerate(lengths))
    got = least_saturated(model, batch_of(tokens(), lengths), chunk_steps=chunk_steps)
    assert got == pytest.approx(want, rel=1e-6)
    assert least_saturated(model, batch_of(tokens()[:1])) == pytest.approx(float(largest[0].min()))


@pytest.mark.parametrize(
    "lengths", [(2, 60), pytest.param(LengthRange(2, 60), marks=pytest.mark.slow)], ids=str
)
def test_hardening_removes_drift(lengths):
    """Actions with a certainty of only 0.99 miscount long runs; one-hot actions never do."""
    model, task = counter(), make_task("anbn", sequences=4)
    sharpen(model, 0.5)
    soft = score_lengths(model, task, lengths, seed=0)
    hard = score_lengths(discretized(model), task, lengths, seed=0)
    assert all(score.accuracy == 1 for score in hard)
    assert soft[0].accuracy == 1
    assert soft[-1].accuracy < 1


def test_models_without_gates_are_refused():
    plain = stream_model(vocabulary=2, memory="none", controller="gru")
    with pytest.raises(ConfigError, match=r"gates .*, got a model without a memory"):
        discretized(plain)
    controller = {"name": "transformer", "memory": "stack"}
    model = MemoryModel(inputs=3, outputs=2, memory="none", controller=controller, hidden_size=8)
    with pytest.raises(ConfigError, match="got the memory of a Transformer, whose gates cannot"):
        discretized(model)
    layer = ub.MemoryRNN(2, 3, ub.SuperpositionStack(2), batch_first=True)
    with pytest.raises(ConfigError, match="expected a SequenceModel in it, got MemoryRNN"):
        least_saturated(layer, batch_of(torch.zeros(1, 2, dtype=torch.int64)))
