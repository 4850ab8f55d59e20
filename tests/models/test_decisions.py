"""Certainty of the gates of every memory, and hardening of the gates."""

from __future__ import annotations

import pytest
import torch

from unbounded.errors import ConfigError
from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel, certainties, discretized, sharpen
from unbounded.models.gates import controller_outputs
from unbounded.tasks import Batch

MEMORY = {"turing_tape": {"slots": 5, "width": 3}, "lie_access": {"width": 3}}


def model_of(memory, **options):
    torch.manual_seed(3)
    part = {"name": memory, **MEMORY.get(memory, {})}
    model = MemoryModel(
        inputs=4, outputs=4, memory=part, hidden_size=5, embedding_size=3, **options
    )
    return model.double().eval()


#: A nondeterministic stack has weights and no gates.
WITH_GATES = [name for name in MEMORIES if name != "nondeterministic_stack"]


def batch(lengths=(30, 12), steps=30):
    inputs = torch.randint(4, (len(lengths), steps), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(inputs, dtype=torch.bool)
    return Batch(inputs, inputs, mask, torch.tensor(lengths))


@pytest.mark.parametrize("memory", WITH_GATES)
@pytest.mark.parametrize("readout", [None, 6])
@pytest.mark.parametrize("chunk_steps", [7, 1000])
def test_certainties_agree_with_the_trace(memory, readout, chunk_steps):
    model, examples = model_of(memory, readout_size=readout), batch()
    sequence = model.sequence
    heads = {head.name: head for head in sequence.layer.memory.heads if head.can_harden}
    _, _, trace = sequence.layer(sequence.embed(examples.inputs), return_trace=True)
    measured = certainties(model, examples, saturated=0.75, chunk_steps=chunk_steps)
    assert measured.keys() == heads.keys()
    for name, head in heads.items():
        sure = head.certainty(trace.arrays[f"instruction.{name}"].detach())
        certainty = torch.cat([sure[0].flatten(), sure[1, :12].flatten()])
        assert measured[name].least == pytest.approx(float(certainty.min()), rel=1e-9)
        assert measured[name].unsaturated == int((certainty < 0.75).sum())
        assert measured[name].gates == len(certainty)


@pytest.mark.parametrize("memory", WITH_GATES)
def test_a_hardened_model_has_saturated_gates(memory):
    model, examples = model_of(memory), batch()
    hardened = discretized(model)
    assert all(each.least == 1 for each in certainties(hardened, examples).values())
    # Other heads are unchanged: equal hidden units give equal keys and values.
    hidden = torch.randn(6, 5, dtype=torch.float64)
    pairs = zip(
        model.sequence.layer.layers[0].heads(hidden),
        hardened.sequence.layer.layers[0].heads(hidden),
        strict=True,
    )
    for head, (soft, hard) in zip(model.sequence.layer.memory.heads, pairs, strict=True):
        assert torch.equal(soft, hard) != head.can_harden
        if head.can_harden and head.activation != "softmax":
            assert torch.equal(soft > 0.5, hard > 0.5)


@pytest.mark.parametrize("memory", WITH_GATES)
def test_a_larger_inverse_temperature_increases_certainty(memory):
    model = model_of(memory)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    soft = certainties(model, batch())
    sharpen(model, 4.0)
    hard = certainties(model, batch((30,)))
    assert sum(each.unsaturated for each in hard.values()) < sum(
        each.unsaturated for each in soft.values()
    )
    sharpen(model, 0.25)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_suppressed_writes_do_not_count():
    model = model_of("queue", read_only_token=3)
    inputs = torch.tensor([[0, 1, 2, 3, 3, 3], [1, 3, 3, 3, 3, 3]])
    lengths = torch.tensor([6, 4])
    examples = Batch(inputs, inputs, torch.ones_like(inputs, dtype=torch.bool), lengths)
    for chunk_steps in (2, 100):
        measured = certainties(model, examples, chunk_steps=chunk_steps)
        assert measured["push"].gates == 3 + 1
        assert measured["pop"].gates == 6 + 4


def test_controller_outputs_leave_the_model_unchanged():
    model = model_of("stack", readout_size=6)
    outputs, _ = controller_outputs(model.sequence, batch().inputs)
    assert outputs.shape == (2, 30, 5)
    assert model.sequence.layer.layers[0].readout is not None
    readout = torch.tanh(model.sequence.layer.layers[0].readout(outputs))
    torch.testing.assert_close(readout, model.sequence.hidden(batch().inputs)[0])


def test_several_layers_are_refused():
    model = model_of("stack")
    model.add_module("second", model_of("queue"))
    with pytest.raises(ConfigError, match="expected one layer with a memory, got 2"):
        certainties(model, batch())
