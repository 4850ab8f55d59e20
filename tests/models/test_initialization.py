"""Initializations by name: their draws, and their place in a run's config."""

from __future__ import annotations

import pytest
import torch

from tests.constructions import stream_model
from unbounded.errors import ConfigError
from unbounded.models import MemoryModel
from unbounded.models.initialization import INITIALIZATIONS
from unbounded.training.optimizers import OPTIMIZERS, RMSPROP_EPSILON, make_optimizer


def model(memory: str = "stack", **options: str) -> MemoryModel:
    torch.manual_seed(3)
    without = memory == "none"
    return MemoryModel(
        inputs=40,
        outputs=30,
        memory=memory if without else {"name": memory, "width": 16},
        hidden_size=32,
        embedding_size=24,
        readout_size=None if without else 24,
        learn_initial_state=True,
        **options,
    )


@pytest.mark.parametrize("memory", ["stack", "deque", "none"])
def test_torch_draws_every_recurrent_weight_within_its_bound(memory: str) -> None:
    layer = model(memory, initialization="torch").sequence.layer
    bound = 32**-0.5
    for name, parameter in layer.named_parameters():
        if "initial" in name or name == "layers.0.heads.bias" or not parameter.requires_grad:
            continue
        assert parameter.abs().max() <= bound, name
        assert parameter.abs().max() > 0.8 * bound, name


def test_glorot_is_the_default_and_sets_the_forget_gate() -> None:
    controller = model().sequence.layer.layers[0].controller
    assert torch.equal(controller.bias_ih[32:64], torch.ones(32))
    torch_drawn = model(initialization="torch").sequence.layer
    assert not torch.equal(torch_drawn.layers[0].controller.bias_ih[32:64], torch.ones(32))
    # The memory's declared bias stays: the pop gate is initially nearly closed.
    assert torch.equal(
        torch_drawn.layers[0].heads.bias, model().sequence.layer.layers[0].heads.bias
    )


def test_output_embedding() -> None:
    assert 0.9 < model().sequence.output.weight.std() < 1.1
    assert model(output_initialization="torch").sequence.output.weight.abs().max() <= 24**-0.5


@pytest.mark.parametrize("name", ["initialization", "output_initialization"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'torch'"):
        model(**{name: "torhc"})


def test_epsilon() -> None:
    weights = [torch.nn.Parameter(torch.zeros(2))]
    optimizer = make_optimizer(weights, name="rmsprop", learning_rate=0.1)
    assert optimizer.param_groups[0]["eps"] == RMSPROP_EPSILON == 1e-4
    optimizer = make_optimizer(weights, name="rmsprop", learning_rate=0.1, options={"eps": 1e-8})
    assert optimizer.param_groups[0]["eps"] == 1e-8
    with pytest.raises(ConfigError, match="optimizer 'sgd' has no option 'eps'"):
        make_optimizer(weights, name="sgd", learning_rate=0.1, options={"eps": 1e-8})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_makes_a_step(name: str) -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.ones(2, 2)
    optimizer = make_optimizer([weight], name=name, learning_rate=0.1, options={"maximize": True})
    assert optimizer.param_groups[0]["maximize"] is True
    optimizer.step()
    assert bool((weight > 0).all())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "sgd",
            {"momentun": 0.9},
            "optimizer 'sgd' has no option 'momentun'. Did you mean 'momentum'",
        ),
        ("adam", {"lr": 1}, "optimizer 'adam' has no option 'lr'"),
        ("adamw", {"betas": [2, 0.9]}, "adamw refuses"),
        ("adam", {"betas": "x"}, "betas: expected a list such as [a, b], got 'x'"),
    ],
)
def test_options_of_an_optimizer_are_those_of_its_signature(
    name: str, options: dict[str, object], message: str
) -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(ConfigError) as caught:
        make_optimizer([weight], name=name, learning_rate=0.1, options=options)
    assert message in str(caught.value)


def test_adagrad_is_torch_s() -> None:
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([4.0, 0.0])
    make_optimizer([weight], name="adagrad", learning_rate=0.1).step()
    # Adagrad's first step has the length of the learning rate for any gradient.
    assert weight.tolist() == pytest.approx([-0.1, 0.0])


def test_symbols_of_a_stream_model_can_be_initialized_like_an_embedding() -> None:
    torch.manual_seed(0)
    built = stream_model(vocabulary=300, hidden_size=20, count=2, symbol_initialization="normal")
    columns, rest = built.sequence.layer.layers[0].controller.weight_ih.split([300, 4], dim=1)
    assert columns.std().item() == pytest.approx(1.0, abs=0.05)
    assert rest.abs().max() <= 0.3
    with pytest.raises(ConfigError, match="as_model"):
        stream_model(vocabulary=3, symbol_initialization="norm")


@pytest.mark.parametrize("embedding_size", [None, 50])
def test_symbols_can_be_initialized_as_sums(embedding_size: int | None) -> None:
    torch.manual_seed(0)
    built = MemoryModel(
        inputs=300,
        outputs=3,
        hidden_size=20,
        memory={"name": "queue", "width": 4},
        embedding_size=embedding_size,
        symbol_initialization="sums",
    )
    if embedding_size is None:
        drawn, rest = built.sequence.layer.layers[0].controller.weight_ih.split([300, 4], dim=1)
        bound = (6 / (304 + 80)) ** 0.5  # as Glorot & Bengio draw it
        assert 0.8 * bound < rest.abs().max() <= bound
    else:
        drawn = built.sequence.embedding.weight
    assert 0.25 < drawn.abs().max() <= 0.3
    assert drawn.std().item() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("symbols", ["normal", "sums"])
def test_symbols_of_several_layers_cannot_be_initialized(symbols: str) -> None:
    deep = {"inputs": 3, "outputs": 3, "hidden_size": 4, "memory": "none", "embedding_size": None}
    with pytest.raises(ConfigError, match="symbol_initialization: the columns of this layer"):
        MemoryModel(
            **deep, controller={"name": "lstm", "num_layers": 2}, symbol_initialization=symbols
        )
    plain = {"name": "lstm", "num_layers": 2, "skip_input": False}
    MemoryModel(**deep, controller=plain, symbol_initialization=symbols)


def test_small_normal_is_the_draw_of_normal_times_0_3() -> None:
    """Nothing else of the model differs, so that one detail is compared."""
    models = {}
    for output in ("normal", "small_normal"):
        torch.manual_seed(0)
        models[output] = MemoryModel(
            inputs=9, outputs=200, memory={"name": "deque", "width": 4}, hidden_size=8,
            embedding_size=64, output_initialization=output,
        )  # fmt: skip
    normal, small = (dict(model.named_parameters()) for model in models.values())
    differing = [name for name in normal if not torch.equal(normal[name], small[name])]
    assert differing == ["sequence.output.weight"]
    weight = small["sequence.output.weight"].detach()
    assert torch.equal(weight, normal["sequence.output.weight"].detach() * 0.3)
    assert float(weight.std()) == pytest.approx(0.3, rel=0.02)


def _tape_model(**options: object) -> MemoryModel:
    torch.manual_seed(0)
    return MemoryModel(
        inputs=2,
        outputs=1,
        memory={"name": "turing_tape", "slots": 16, "width": 20, "variant": "deleu2016"},
        controller={"name": "elman", "activation": "relu", "second_bias": True, **options},
        hidden_size=100,
        embedding_size=None,
        input_bits=0,
        initialization="glorot_parts",
        output_initialization="glorot",
    )


@pytest.mark.parametrize("recurrent", [True, False])
def test_parts_are_drawn_each_within_its_own_bound_and_biases_are_zero(recurrent: bool) -> None:
    sequence = _tape_model(recurrent=recurrent).sequence
    layer = sequence.layer
    weights = layer.layers[0].controller.weights
    parts = [
        (weights.weight_ih[:, :1], 1),
        (weights.weight_ih[:, 1:], 20),
        (sequence.output.weight, 1),
        *(
            (layer.layers[0].heads.weight[layer.layers[0].heads.rows(h.name)], h.size)
            for h in layer.memory.heads
        ),
    ]
    if recurrent:
        parts.append((weights.weight_hh, 100))
    for part, size in parts:
        bound = (6 / (100 + size)) ** 0.5
        assert 0.9 * bound < part.abs().max() <= bound
    for bias in (
        weights.bias_ih,
        weights.bias_hh,
        layer.layers[0].heads.bias,
        sequence.output.bias,
    ):
        assert (bias == 0).all()


def test_parts_leave_controllers_with_gates_and_declared_biases_as_they_are() -> None:
    parts, plain = model(initialization="glorot_parts"), model()
    assert torch.equal(
        parts.sequence.layer.layers[0].controller.bias_ih,
        plain.sequence.layer.layers[0].controller.bias_ih,
    )
    heads = parts.sequence.layer.layers[0].heads
    assert (heads.bias[heads.rows("pop")] == -1).all()
    assert (heads.bias[heads.rows("value")] == 0).all()


@pytest.mark.parametrize("initialization", INITIALIZATIONS)
def test_shift_bias_holds_with_every_initialization(initialization: str) -> None:
    built = MemoryModel(
        inputs=2,
        outputs=1,
        memory={"name": "turing_tape", "slots": 16, "width": 20, "shift_bias": 2.0},
        controller="elman",
        initialization=initialization,
    )
    heads = built.sequence.layer.layers[0].heads
    for name in ("read_shift", "write_shift"):
        assert heads.bias[heads.rows(name)].tolist() == [0.0, 0.0, 2.0]
