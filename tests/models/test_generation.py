"""Greedy generation of a whole batch against a loop over single sequences without a state."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.memories.common import MEMORIES
from unbounded import kernels
from unbounded.errors import ConfigError, DTypeError, ShapeError
from unbounded.models import MemoryModel, SequenceModel, generate


def make(memory):
    torch.manual_seed(3)
    if memory == "none":
        layer, size = ub.DeepLSTM(6, 8, 2, batch_first=True), 8
    else:
        layer = ub.MemoryRNN(6, 8, MEMORIES[memory](4), output_size=5, batch_first=True)
        size = 5
    model = SequenceModel(9, 4, 6, layer, size)
    torch.nn.init.normal_(model.output.weight, 0, 3)
    torch.nn.init.normal_(model.layer.heads.weight if memory != "none" else model.output.weight)
    return model


@pytest.mark.parametrize("memory", ["none", *MEMORIES])
def test_generates_what_a_loop_over_prefixes_generates(memory):
    model = make(memory)
    prompt, lengths = torch.randint(9, (6, 5)), torch.tensor([5, 3, 1, 4, 5, 2])
    output_to_input = torch.tensor([5, 6, 7, 8])
    got = generate(model, prompt, lengths, output_to_input, end_token=3, max_length=7)
    for b in range(6):
        tokens = prompt[b, : lengths[b]].tolist()
        want = []
        while len(want) < got.shape[1] and 3 not in want:
            logits, _ = model(torch.tensor([tokens]))
            want.append(int(logits[0, -1].argmax()))
            tokens.append(int(output_to_input[want[-1]]))
        want += [3] * (got.shape[1] - len(want))
        assert got[b].tolist() == want


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_thousand_sequences_at_once(memory):
    """Each of them as if it were alone, whatever kernels and threads make of so wide a batch."""
    model = make(memory)
    prompt, lengths = torch.randint(9, (1000, 6)), torch.randint(1, 7, (1000,))
    output_to_input = torch.tensor([5, 6, 7, 8])
    got = generate(model, prompt, lengths, output_to_input, end_token=3, max_length=8)
    assert len(got) == 1000
    assert len(got.unique(dim=0)) > 1
    for b in range(0, 1000, 37):
        alone = generate(model, prompt[b : b + 1], lengths[b : b + 1], output_to_input, 3, 8)[0]
        assert got[b, : len(alone)].tolist() == alone.tolist()
        assert (got[b, len(alone) :] == 3).all()


def test_stops_when_every_sequence_has_ended():
    model = make("stack")
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.tensor([0.0, 0.0, 0.0, 1.0]))
    got = generate(model, torch.zeros(2, 3).long(), torch.tensor([3, 1]), torch.arange(4), 3, 50)
    assert got.tolist() == [[3], [3]]


def test_what_generate_takes():
    model = MemoryModel(inputs=9, outputs=4, hidden_size=4, embedding_size=6)
    prompt, fed = torch.randint(9, (2, 3)), torch.tensor([5, 6, 7, 8])
    want = generate(model.sequence, prompt, torch.tensor([3, 3]), fed, 3, 4)
    assert torch.equal(generate(model, prompt, [3, 3], fed, 3, 4), want)
    assert torch.equal(generate(model, prompt, None, fed, 3, 4), want)
    with pytest.raises(ShapeError, match="lengths: expected prompts of at least one step, got 0"):
        generate(model, prompt, [3, 0], fed, 3, 4)
    with pytest.raises(ShapeError, match=r"lengths: expected 0..3 .* got \[4, 1\]"):
        generate(model, prompt, [4, 1], fed, 3, 4)
    with pytest.raises(ConfigError, match="model: expected a SequenceModel in it, got Linear"):
        generate(torch.nn.Linear(2, 2), prompt, [3, 3], fed, 3, 4)


def test_bad_tokens():
    model = make("stack")
    with pytest.raises(DTypeError, match="inputs: expected int64 tokens"):
        model(torch.zeros(2, 3))
    with pytest.raises(ShapeError, match="inputs: expected int64 tokens"):
        model(torch.zeros(3).long())
    with pytest.raises(ShapeError, match="batch_first=True"):
        SequenceModel(9, 4, 6, ub.MemoryRNN(6, 8, ub.NeuralStack(4)), 8)


@pytest.mark.skipif(not kernels.available().ok, reason=kernels.available().reason)
@pytest.mark.parametrize("memory", MEMORIES)
def test_the_fused_stream_generates_what_the_reference_generates(memory):
    prompt, lengths = torch.randint(9, (20, 6)), torch.randint(1, 7, (20,))
    tokens = []
    for backend in ("cpu", "reference"):
        model = make(memory).double()
        model.layer.backend = backend
        tokens.append(generate(model, prompt, lengths, torch.tensor([5, 6, 7, 8]), 3, 40))
    assert torch.equal(*tokens)


def test_what_is_fed_back_goes_where_the_prompt_is():
    """The task's own lies on the CPU; a GPU's numbers cannot choose from it."""

    class Recorded(torch.Tensor):
        def to(self, device):
            places.append(device)
            return self.as_subclass(torch.Tensor)

    places = []
    prompt, fed = torch.randint(9, (2, 3)), torch.tensor([5, 6, 7, 8])
    want = generate(make("queue"), prompt, None, fed, 3, 4)
    assert torch.equal(generate(make("queue"), prompt, None, fed.as_subclass(Recorded), 3, 4), want)
    assert places == [prompt.device]
