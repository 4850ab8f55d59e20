"""Greedy generation of a batch against a loop over single sequences without a state."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import unbounded as ub
from tests.memories.common import MEMORIES
from unbounded import kernels
from unbounded.errors import ConfigError, DeviceError, DTypeError, RoomWarning, ShapeError, say_once
from unbounded.models import MemoryModel, SequenceModel, generate, generation, with_room


def make(memory):
    torch.manual_seed(3)
    if memory == "none":
        layer, size = ub.DeepLSTM(6, 8, 2, batch_first=True), 8
    elif memory == "transformer":
        layer, size = ub.Transformer(6, 8, 2, batch_first=True), 8
    elif memory == "deltaproduct":
        layer, size = ub.DeltaProduct(6, 8, 2, batch_first=True), 8
    else:
        layer = ub.MemoryRNN(6, 8, MEMORIES[memory](4), output_size=5, batch_first=True)
        size = 5
    model = SequenceModel(9, 4, 6, layer, size)
    torch.nn.init.normal_(model.output.weight, 0, 3)
    if isinstance(layer, ub.MemoryRNN):
        torch.nn.init.normal_(layer.layers[0].heads.weight)
    return model


@pytest.mark.parametrize("memory", ["none", "transformer", "deltaproduct", *MEMORIES])
def test_generation_equals_a_loop_over_prefixes(memory):
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
    """Each equals its single generation, although a wide batch uses other kernels and threads."""
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


def test_invalid_arguments_of_generate():
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
def test_the_fused_stream_equals_the_reference(memory):
    prompt, lengths = torch.randint(9, (20, 6)), torch.randint(1, 7, (20,))
    tokens = []
    for backend in ("cpu", "reference"):
        model = make(memory).double()
        model.layer.backend = backend
        tokens.append(generate(model, prompt, lengths, torch.tensor([5, 6, 7, 8]), 3, 40))
    assert torch.equal(*tokens)


def test_feedback_tokens_are_on_the_prompts_device():
    """The task's tensor is on the CPU; indices on a GPU cannot select from it."""

    class Recorded(torch.Tensor):
        def to(self, device):
            places.append(device)
            return self.as_subclass(torch.Tensor)

    places = []
    prompt, fed = torch.randint(9, (2, 3)), torch.tensor([5, 6, 7, 8])
    want = generate(make("queue"), prompt, None, fed, 3, 4)
    assert torch.equal(generate(make("queue"), prompt, None, fed.as_subclass(Recorded), 3, 4), want)
    assert places == [prompt.device]


PROMPT, FED = torch.tensor([[0, 1, 2], [3, 4, 5]]), torch.tensor([5, 6, 7, 8])
SHAPE, KIND = ShapeError, DTypeError


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"end_token": 99}, SHAPE, r"end_token: expected a symbol of 0\.\.3, got 99\."),
        ({"end_token": -1}, SHAPE, r"end_token: expected a symbol of 0\.\.3, got -1\."),
        ({"end_token": None}, SHAPE, r"end_token: expected a symbol of 0\.\.3, got None\."),
        ({"end_token": True}, SHAPE, r"end_token: expected a symbol of 0\.\.3, got True\."),
        ({"end_token": "3"}, SHAPE, r"end_token: expected a symbol of 0\.\.3, got '3'\."),
        ({"end_token": 3.0}, SHAPE, r"end_token: expected a symbol of 0\.\.3, got 3\.0\."),
        ({"max_length": 0}, SHAPE, "max_length: expected an integer >= 1, got 0"),
        ({"max_length": None}, SHAPE, "max_length: expected an integer >= 1, got None"),
        ({"room": None}, KIND, "room: expected a bool, got None"),
        ({"prompt": None}, KIND, "prompt: expected a tensor, got NoneType"),
        ({"prompt": PROMPT.float()}, KIND, "prompt: expected int64 tokens"),
        ({"prompt": PROMPT + 5}, SHAPE, r"prompt: expected tokens in 0\.\.8"),
        ({"prompt": PROMPT.to("meta")}, DeviceError, "prompt: expected a tensor with values, got"),
        ({"prompt": PROMPT[:, :0]}, SHAPE, r"prompt: expected at least one step, got \[2, 0\]"),
        ({"lengths": "33"}, KIND, "lengths: expected integers"),
        ({"lengths": [3]}, SHAPE, r"lengths: expected shape \[2\]"),
        ({"output_to_input": None}, KIND, "output_to_input: expected a tensor, got NoneType"),
        ({"output_to_input": {}}, KIND, "output_to_input: expected a tensor, got dict"),
        ({"output_to_input": ["5"] * 4}, KIND, "output_to_input: expected integers"),
        ({"output_to_input": FED.float()}, KIND, "output_to_input: expected integers"),
        ({"output_to_input": FED[:3]}, SHAPE, r"output_to_input: expected shape \[4\], got \[3\]"),
        ({"output_to_input": FED + 1}, SHAPE, r"output_to_input: expected tokens in 0\.\.8, got"),
    ],
)
def test_every_argument_is_checked_by_name(changes, error, message):
    options = {
        "prompt": PROMPT, "lengths": None, "output_to_input": FED, "end_token": 3, "max_length": 4,
    }  # fmt: skip
    with pytest.raises(error, match=message):
        generate(make("stack"), **(options | changes))


def test_a_prompt_must_be_on_the_models_device():
    with pytest.raises(DeviceError, match="model: expected weights with values, got those on the"):
        generate(make("stack").to("meta"), PROMPT, None, FED, 3, 4)
    cuda = SimpleNamespace(weight=SimpleNamespace(device=torch.device("cuda:0")))
    model = SimpleNamespace(output=cuda, modules=list)
    with pytest.raises(DeviceError, match=r"expected device cuda:0 as the model .* got cpu. Move"):
        generation._check_device(model, PROMPT)
    model.modules = lambda: [hooked]
    hooked = torch.nn.Linear(1, 1)
    hooked.register_forward_pre_hook(lambda *_: None)
    generation._check_device(model, PROMPT)


def test_feedback_may_be_a_list_and_the_end_any_integer():
    expected = generate(make("stack"), PROMPT, None, FED, 3, 4)
    for end in (torch.tensor(3), FED.numpy()[0] - 2):
        assert torch.equal(generate(make("stack"), PROMPT, None, FED.tolist(), end, 4), expected)


def counter(capacity):
    torch.manual_seed(5)
    memory = {"name": "superposition_stack", "count": 2, "depth": 1, "capacity": capacity,
              "overflow": "drop_bottom"}  # fmt: skip
    controller = {"name": "elman", "activation": "sigmoid"}
    model = MemoryModel(inputs=4, outputs=4, memory=memory, controller=controller, hidden_size=6,
                        embedding_size=None)  # fmt: skip
    with torch.no_grad():
        for weight in model.sequence.layer.parameters():
            weight.mul_(4)
    return model.eval()


def test_a_capacity_does_not_affect_generation():
    prompt, fed = torch.randint(4, (3, 30)), torch.arange(4)
    roomy = counter(200)
    short = counter(5)
    short.load_state_dict(roomy.state_dict())
    expected = generate(roomy, prompt, None, fed, 3, 20)
    assert torch.equal(generate(short, prompt, None, fed, 3, 20), expected)
    assert short.sequence.layer.memory.capacity == 5
    say_once.cache_clear()
    with pytest.warns(
        RoomWarning, match=r"inputs: expected at most 5 steps, the capacity of Super"
    ):
        generate(short, prompt, None, fed, 3, 20, room=False)


@pytest.mark.parametrize("memory", ["superposition_stack", "superposition_list", "lie_access"])
def test_a_model_in_evaluation_mode_warns_of_drops(memory):
    options = {"name": memory, "capacity": 5}
    if memory != "lie_access":
        drops = {"superposition_stack": "drop_bottom", "superposition_list": "drop_ends"}
        options |= {"depth": 1, "overflow": drops[memory]}
    model = MemoryModel(inputs=4, outputs=4, memory=options, hidden_size=6, embedding_size=None)
    say_once.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RoomWarning)
        model(torch.randint(4, (2, 6)))  # training chooses the capacity
        model.eval()(torch.randint(4, (2, 5)))
    with pytest.warns(
        RoomWarning, match="inputs: expected at most 5 steps, .* got 6. Cells beyond"
    ):
        model(torch.randint(4, (2, 6)))
    if memory != "lie_access":
        with warnings.catch_warnings():
            warnings.simplefilter("error", RoomWarning)
            say_once.cache_clear()
            roomy, cells = with_room(model, 6)
            roomy(torch.randint(4, (2, 6)))
        assert cells == 6
        with pytest.raises(ShapeError, match="symbols: expected an integer >= 0, got None"):
            with_room(model, None)


def test_calls_that_warn_of_drops():
    """As in docs/not_learning.md: a layer and a part of a model warn, a carried state does not."""
    options = {"count": 2, "depth": 1, "capacity": 5, "overflow": "drop_bottom"}
    layer = ub.MemoryRNN(3, 4, ub.SuperpositionStack(**options), batch_first=True).eval()
    stack = {"name": "superposition_stack", **options}
    model = MemoryModel(inputs=4, outputs=4, memory=stack, hidden_size=6).eval()
    lie = {"name": "lie_access", "capacity": 5}
    silent = MemoryModel(inputs=4, outputs=4, memory=lie, hidden_size=6, read_only_token=2).eval()
    tokens = torch.randint(4, (2, 6))
    answer = torch.tensor([[0, 0, 0, 2, 2, 2]])
    x = torch.randn(2, 6, 3)
    packed = pack_padded_sequence(x, torch.tensor([6, 2]), batch_first=True)
    for call in (
        lambda: layer(x),
        lambda: layer(x[0]),
        lambda: layer(packed),
        lambda: model(tokens),
        lambda: model.sequence(tokens),
        lambda: silent.sequence(answer),
    ):
        say_once.cache_clear()
        with pytest.warns(RoomWarning, match="inputs: expected at most 5 steps, .* got 6"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning of torch about tracing
        warnings.simplefilter("error", RoomWarning)
        say_once.cache_clear()
        _, state = layer(x[:, :5])
        layer(x, state)
        _, state = model(tokens[:, :5])
        model(tokens, state)
        layer.train()(x)
        torch.jit.trace(layer.eval(), x, check_trace=False)
