"""A layer without writes while it answers, against a plain loop, in values and gradients."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from unbounded.errors import ConfigError, ShapeError
from unbounded.models import MemoryModel
from unbounded.models.generation import generate
from unbounded.rnn.read_only import check_read_only, run_phases, trace_phases
from unbounded.rnn.recurrence import run_recurrence

MEMORIES = {
    "stack": ub.NeuralStack(width=3),
    "queue": ub.NeuralQueue(width=3),
    "deque": ub.NeuralDeque(width=3),
    "lie_access": ub.LieAccessMemory(width=3, initial="learned"),
    "softmax": ub.LieAccessMemory(width=3, weighting="softmax"),
}


def layer_of(name, **options):
    torch.manual_seed(1)
    return ub.MemoryRNN(4, 5, MEMORIES[name], batch_first=True, **options).double()


def read_only(**options):
    torch.manual_seed(3)
    memory = {"name": "stack", "width": 4}
    return MemoryModel(
        inputs=6, outputs=6, memory=memory, hidden_size=8, read_only_token=5, **options
    )


def by_hand(layer, x, first):
    """Run each sequence alone, step by step, with write strengths set to 0 in the answer."""
    outputs = []
    for row, start in zip(x, first, strict=True):
        state = layer.layers[0].initial_state(1)
        own = []
        for step, vector in enumerate(row):

            def heads(hidden, step=step, start=start):
                instruction = list(layer.layers[0].heads(hidden))
                for place, head in enumerate(layer.layers[0].heads.heads):
                    if head.name in layer.memory.write_strengths and step >= start:
                        instruction[place] = torch.zeros_like(instruction[place])
                return tuple(instruction)

            output, _, state = run_recurrence(
                layer.layers[0].controller, heads, layer.memory, vector.view(1, 1, -1), state
            )
            own.append(output[0, 0])
        outputs.append(torch.stack(own))
    return torch.stack(outputs)


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("first", [[2, 4, 0], [3, 3, 3], [0, 0, 0], [6, 2, 6], [6, 6, 6]])
def test_nothing_is_written_while_answering(name, first):
    layer = layer_of(name, learn_initial_state=True)
    x = torch.randn(3, 6, 4, dtype=torch.float64, requires_grad=True)
    answers = torch.arange(6) >= torch.tensor(first).unsqueeze(1)
    output, _ = run_phases(layer, x, answers)
    expected = by_hand(layer, x, first)
    torch.testing.assert_close(output, expected)
    weights = [x, *layer.parameters()]
    gradients = torch.autograd.grad(output.square().sum(), weights, allow_unused=True)
    expected_gradients = torch.autograd.grad(expected.square().sum(), weights, allow_unused=True)
    for got, want in zip(gradients, expected_gradients, strict=True):
        if want is None:
            assert got is None or not got.any()
        else:
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("name", MEMORIES)
def test_lengths_and_carried_state(name):
    layer = layer_of(name)
    x = torch.randn(3, 6, 4, dtype=torch.float64)
    answers = torch.arange(6) >= torch.tensor([2, 4, 5]).unsqueeze(1)
    lengths = torch.tensor([5, 6, 3])
    output, state = run_phases(layer, x, answers, None, lengths)
    for row, steps in enumerate(lengths.tolist()):
        alone, own = run_phases(layer, x[row : row + 1, :steps], answers[row : row + 1, :steps])
        torch.testing.assert_close(output[row, :steps], alone[0])
        assert not output[row, steps:].any()
        torch.testing.assert_close(state.layer.hidden[:, row], own.layer.hidden[:, 0])
    assert state.answering.tolist() == [True, True, False]
    one = run_phases(layer, x[:, :5], answers[:, :5])[1]
    last, _ = run_phases(layer, x[:, 5:], answers[:, 5:], one)
    torch.testing.assert_close(last, run_phases(layer, x, answers)[0][:, 5:])


@pytest.mark.parametrize("name", MEMORIES)
def test_the_trace_has_no_write_in_the_answer(name):
    layer = layer_of(name)
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    answers = (torch.arange(6) >= 4).expand(2, 6)
    output, trace = trace_phases(layer, x, answers)
    torch.testing.assert_close(output, run_phases(layer, x, answers)[0])
    for head in layer.memory.write_strengths:
        pushed = trace.arrays[f"instruction.{head}"]
        assert pushed.shape == (2, 6)
        assert bool((pushed[:, :4] > 0).all())
        assert not pushed[:, 4:].any()
    full = layer(x, return_trace=True)[2]
    for array, like in zip(trace.arrays.values(), full.arrays.values(), strict=True):
        assert array.shape == like.shape
        torch.testing.assert_close(array[:, :4], like[:, :4])
    with pytest.raises(ConfigError, match=r"answers: expected the same first step .* \[4, 5\]"):
        trace_phases(layer, x, torch.arange(6) >= torch.tensor([[4], [5]]))


def test_a_model_answers_like_its_generation():
    torch.manual_seed(2)
    options = {"inputs": 6, "outputs": 5, "memory": {"name": "queue", "width": 4}}
    model = MemoryModel(**options, hidden_size=7, embedding_size=3, read_only_token=1)
    writing = MemoryModel(**options, hidden_size=7, embedding_size=3)
    writing.load_state_dict(model.state_dict())
    prompt, lengths = torch.tensor([[0, 2, 3, 1], [0, 4, 1, 0]]), torch.tensor([4, 3])
    fed = torch.tensor([0, 1, 1, 1, 1])
    generated = generate(model.sequence, prompt, lengths, fed, end_token=0, max_length=6)
    for row, steps in enumerate(lengths.tolist()):
        inputs = torch.cat([prompt[row, :steps], torch.ones(5).long()]).unsqueeze(0)
        taught = model(inputs)[0].argmax(dim=-1)[0, steps - 1 :]
        is_end = generated[row] == 0
        count = min(6, int(is_end.nonzero()[0]) + 1 if is_end.any() else 6)
        assert generated[row, :count].tolist() == taught[:count].tolist()
    inputs = torch.tensor([[0, 2, 3, 1, 1, 1]])
    assert torch.equal(model(inputs)[0][:, :3], writing(inputs)[0][:, :3])
    assert not torch.allclose(model(inputs)[0][:, 4:], writing(inputs)[0][:, 4:])


@pytest.mark.parametrize("cut", range(1, 6))
def test_an_answering_sequence_continues_in_the_next_call(cut):
    """Even if the token is not fed again: the state carries the flag."""
    model = read_only(embedding_size=None)
    inputs = torch.tensor([[0, 2, 5, 3, 4, 2], [2, 3, 4, 5, 2, 0], [1, 2, 3, 4, 0, 1]])
    full, _ = model(inputs)
    first, state = model(inputs[:, :cut])
    assert state.answering.tolist() == (inputs[:, :cut] == 5).any(dim=1).tolist()
    plain = (tuple(state.layer), state.answering)
    for carried in (state, plain, ub.detach_state(state), ub.move_state(state, "cpu")):
        second, _ = model(inputs[:, cut:], carried)
        torch.testing.assert_close(torch.cat([first, second], dim=1), full)
    rows = [2, 0]
    picked, _ = model(inputs[rows, cut:], ub.index_state(state, rows))
    torch.testing.assert_close(picked, full[rows, cut:])
    with pytest.raises(ShapeError, match=r"state.answering: expected shape \[1\], got \[3\]"):
        model(inputs[:1, cut:], state)


def test_a_half_precision_state_keeps_the_answering_flags():
    state = read_only(embedding_size=None)(torch.tensor([[0, 5]]))[1]
    moved = ub.move_state(state, dtype=torch.float64)
    assert moved.layer.hidden.dtype == torch.float64
    assert moved.answering.dtype == torch.bool


def test_lengths_and_batches_as_of_every_layer():
    model = read_only(embedding_size=None)
    inputs = torch.tensor([[0, 1, 5, 2]])
    torch.testing.assert_close(model(inputs, None, [3])[0][:, :3], model(inputs)[0][:, :3])
    for lengths, message in (([9], "expected 0..4"), ([2, 2], r"expected shape \[1\], got \[2\]")):
        with pytest.raises(ShapeError, match=f"lengths: {message}"):
            model(inputs, None, torch.tensor(lengths))
    assert model(inputs[:0])[0].shape == (0, 4, 6)


@pytest.mark.parametrize("memory", ["superposition_stack", "turing_tape", "none"])
def test_a_memory_that_always_writes(memory):
    options = {"memory": {"name": memory, "slots": 4} if memory == "turing_tape" else memory}
    with pytest.raises(ConfigError, match=r"read_only_token: .* cannot be kept from writing"):
        MemoryModel(inputs=4, outputs=3, **options, read_only_token=1)


def test_an_invalid_read_only_token():
    with pytest.raises(ShapeError, match=r"read_only_token: expected a symbol of 0\.\.3, got 4"):
        MemoryModel(inputs=4, outputs=3, memory="stack", read_only_token=4)
    check_read_only(layer_of("stack"))
