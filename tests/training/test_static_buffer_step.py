"""Static-buffer steps: the same loss, gradients and states as with torch's graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

from unbounded import kernels
from unbounded.errors import MemoryOverflowError
from unbounded.kernels import available
from unbounded.memories import detach_state
from unbounded.models import MemoryModel
from unbounded.models.memory_model import STACK_RNN
from unbounded.tasks import Batch, LengthRange
from unbounded.training.objective import masked_cross_entropy
from unbounded.training.options import PhaseOptions
from unbounded.training.static_buffer_step import static_gradient

pytestmark = pytest.mark.skipif(not available().ok, reason="no compiled kernels")

OPTIONS = PhaseOptions(
    seed=0, lengths=LengthRange(1, 2), batch_size=2, batches=1, clip=1.0, chunk_steps=7
)
STACK = {"name": "superposition_stack", "count": 3, "capacity": 9, "overflow": "drop_bottom"}
LIST = {**STACK, "name": "superposition_list", "overflow": "drop_ends"}
ELMAN = {"name": "elman", "activation": "sigmoid", "recurrent": True, "bias": False}
MODELS: dict[str, dict[str, Any]] = {
    "stack-rnn": {**STACK_RNN, "memory": STACK},
    "stack-rnn, no-op, recurrent": {"memory": {**STACK, "noop": True}, "controller": ELMAN},
    "list-rnn": {"memory": LIST, "controller": ELMAN, "output_bias": False},
    "tape, gru": {"memory": {"name": "turing_tape", "slots": 6, "width": 4}, "controller": "gru"},
    "stack, lstm": {"memory": STACK, "controller": "lstm"},
    "rnn": {"memory": "none", "controller": ELMAN},
    "rnn, biases": {"memory": "none", "controller": {"name": "elman", "activation": "tanh"}},
    "gru": {"memory": "none", "controller": {"name": "gru"}},
    "lstm": {"memory": "none", "controller": "lstm"},
    "lstm, two layers": {
        "memory": "none",
        "controller": {"name": "lstm", "num_layers": 2, "skip_input": False},
    },
    "lstm, three layers that see the input": {
        "memory": "none",
        "controller": {"name": "lstm", "num_layers": 3, "second_bias": True},
    },
}


def model_of(name: str) -> MemoryModel:
    torch.manual_seed(0)
    options = {"hidden_size": 10, **MODELS[name], "embedding_size": None}
    return MemoryModel(inputs=5, outputs=4, **options).double()


def chunks_of(lengths: tuple[int, ...], batch_size: int = 2) -> list[Batch]:
    draw = torch.Generator().manual_seed(1)
    return [
        Batch(
            torch.randint(5, (batch_size, steps), generator=draw),
            torch.randint(4, (batch_size, steps), generator=draw),
            torch.rand(batch_size, steps, generator=draw) < 0.7,
            torch.full((batch_size,), steps),
        )
        for steps in lengths
    ]


@pytest.mark.parametrize("small", [True, False], ids=["one call", "torch's operators"])
@pytest.mark.parametrize("name", MODELS)
def test_a_static_buffer_step_equals_the_graph(
    name: str, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not small:  # as with a larger vocabulary
        monkeypatch.setattr(kernels, "most_symbols", lambda: 0)
    model = model_of(name)
    state: Any = None
    carried: Any = None
    bound = static_gradient(model, Accelerator(cpu=True), OPTIONS, "cross_entropy")
    assert bound is not None
    for place, chunk in enumerate(chunks_of((7, 7, 3, 7))):
        model.zero_grad()
        # The third chunk's state is in other tensors, as after a checkpoint.
        initial = state if place == 2 else carried
        logits, after = model(chunk.inputs, state)
        state = detach_state(after)
        loss = masked_cross_entropy(logits, chunk.targets, chunk.mask)
        (loss * 0.25).backward()
        expected = {k: each.grad for k, each in model.named_parameters() if each.requires_grad}
        model.zero_grad()
        nats, logits_found, carried = bound.step(chunk, initial, 0.25)
        torch.testing.assert_close(nats, loss, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(logits_found.transpose(0, 1), logits, rtol=1e-12, atol=1e-12)
        grads = {k: each.grad for k, each in model.named_parameters() if each.requires_grad}
        for key, gradient in expected.items():
            torch.testing.assert_close(grads[key], gradient, rtol=1e-9, atol=1e-12, msg=key)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(0.1 * parameter.grad)


OTHER_MODELS: dict[str, dict[str, Any]] = {
    "embeddings": {**MODELS["lstm"], "embedding_size": 3},
    "more symbols than rows": {**MODELS["rnn"], "hidden_size": 4},
    "dropout": {**MODELS["lstm"], "dropout": 0.5},
    "learned initial state": {**MODELS["lstm"], "learn_initial_state": True},
    "a memory that grows": {"memory": "queue"},
    "a readout": {**MODELS["stack, lstm"], "readout_size": 3},
    "the reference": {**MODELS["stack, lstm"], "backend": "reference"},
    "a controller without a kernel": {"memory": "none", "controller": "srcn"},
}


@pytest.mark.parametrize("name", OTHER_MODELS)
def test_other_models_use_the_graph(name: str) -> None:
    options = {"hidden_size": 10, "embedding_size": None, **OTHER_MODELS[name]}
    model = MemoryModel(inputs=5, outputs=4, **options)
    assert static_gradient(model, Accelerator(cpu=True), OPTIONS, "cross_entropy") is None


@pytest.mark.parametrize("changed", [{"chunk_steps": None}, {"label_smoothing": 0.1}])
def test_other_protocols_use_the_graph(changed: dict[str, Any]) -> None:
    options, model = dataclasses.replace(OPTIONS, **changed), model_of("lstm")
    assert static_gradient(model, Accelerator(cpu=True), options, "cross_entropy") is None
    assert static_gradient(model, Accelerator(cpu=True), OPTIONS, "binary") is None


PLACES = ["", "sequence", "sequence.output", "sequence.layer"]
DEEPER = {
    "lstm": "layers.0",
    "stack-rnn": "layers.0.controller",
    "rnn": "controller",
    "gru": "controller",
}


def is_bound(model: MemoryModel) -> bool:
    return static_gradient(model, Accelerator(cpu=True), OPTIONS, "cross_entropy") is not None


@pytest.mark.parametrize("name", DEEPER)
def test_hooked_modules_use_the_graph(name: str) -> None:
    for place in [*PLACES, f"sequence.layer.{DEEPER[name]}"]:
        model = model_of(name)
        assert is_bound(model)
        hook = model.get_submodule(place).register_forward_hook(lambda *_: None)
        assert not is_bound(model)
        hook.remove()
        assert is_bound(model)
    with torch.nn.modules.module.register_module_forward_hook(lambda *_: None):
        assert not is_bound(model_of(name))
    model = model_of(name)
    with next(model.parameters()).register_hook(lambda gradient: gradient):
        assert not is_bound(model)
    with next(model.parameters()).register_post_accumulate_grad_hook(lambda _: None):
        assert not is_bound(model)


class Halved(nn.Linear):
    """Half of a linear map."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 0.5


@pytest.mark.parametrize("name", DEEPER)
def test_modified_modules_use_the_graph(name: str) -> None:
    model = model_of(name)
    model.sequence.output = Halved(10, 4).double()
    assert not is_bound(model)
    model = model_of(name)
    torch.nn.utils.parametrizations.weight_norm(model.sequence.output)
    assert not is_bound(model)
    model = model_of(name)
    weight = "weight_ih_l0" if name == "lstm" else "weight_ih"
    torch.nn.utils.parametrizations.weight_norm(
        model.get_submodule(f"sequence.layer.{DEEPER[name]}"), weight
    )
    assert not is_bound(model)


@pytest.mark.parametrize("name", ["lstm, two layers", "stack-rnn"])
def test_buffers_of_two_lengths_are_kept(name: str) -> None:
    model = model_of(name)
    bound: Any = static_gradient(model, Accelerator(cpu=True), OPTIONS, "cross_entropy")
    state = None
    for chunk in chunks_of((7, 3, 7, 2, 7, 1, 7)):
        state = bound.step(chunk, state, 1.0)[2]
    runs = getattr(bound._layer, "_runs", None) or [bound._layer._run]
    assert all(set(run._by_steps) == {1, 7} for run in runs)


def test_a_transposed_output_weight_uses_torchs_operators() -> None:
    model = model_of("lstm")
    output: Any = model.sequence.output
    output.weight = torch.nn.Parameter(output.weight.detach().t().contiguous().t())
    assert not output.weight.is_contiguous()
    bound = static_gradient(model, Accelerator(cpu=True), OPTIONS, "cross_entropy")
    assert bound is not None
    (chunk,) = chunks_of((7,))
    nats = bound.step(chunk, None, 1.0)[0]
    gradient = output.weight.grad.clone()
    model.zero_grad()
    loss = masked_cross_entropy(model(chunk.inputs)[0], chunk.targets, chunk.mask)
    loss.backward()
    torch.testing.assert_close(nats, loss)
    torch.testing.assert_close(gradient, output.weight.grad)


def test_a_chunk_of_fewer_sequences_does_not_fit() -> None:
    bound = static_gradient(model_of("lstm"), Accelerator(cpu=True), OPTIONS, "cross_entropy")
    assert bound is not None
    assert [bound.fits(chunk) for size in (1, 2) for chunk in chunks_of((3,), size)] == [
        False,
        True,
    ]


def test_a_frozen_weight_gets_no_gradient() -> None:
    model = model_of("stack, lstm")
    layer: Any = model.sequence.layer
    layer.layers[0].heads.weight.requires_grad_(False)
    bound = static_gradient(model, Accelerator(cpu=True), OPTIONS, "cross_entropy")
    assert bound is not None
    bound.step(chunks_of((5,))[0], None, 1.0)
    assert layer.layers[0].heads.weight.grad is None
    assert layer.layers[0].controller.weight_ih.grad is not None


def test_a_strict_memory_raises_on_overflow() -> None:
    strict = {**MODELS["stack-rnn"], "memory": {**STACK, "overflow": "error"}, "hidden_size": 10}
    model = MemoryModel(inputs=5, outputs=4, **strict)
    bound = static_gradient(model, Accelerator(cpu=True), OPTIONS, "cross_entropy")
    assert bound is not None
    with pytest.raises(MemoryOverflowError):
        bound.step(chunks_of((30,))[0], None, 1.0)
