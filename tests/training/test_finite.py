from __future__ import annotations

import pytest
import torch
from torch import nn

import unbounded as ub
from tests.experiments.tiny import planned, tiny
from unbounded.kernels import available
from unbounded.memories.register import Register
from unbounded.training import finite

NAN, INF = float("nan"), float("inf")


def test_values_that_are_not_finite_are_counted() -> None:
    assert finite.describe(torch.ones(3)) is None
    assert finite.describe(torch.tensor([1, 2])) is None
    bad = torch.tensor([1.0, NAN, INF, -INF])
    assert finite.describe(bad) == "1 NaN and 2 infinite of 4 values"


def test_the_first_in_order_is_named() -> None:
    named = [
        ("a", torch.ones(1)),
        ("b", None),
        ("c", torch.tensor([INF])),
        ("d", torch.tensor(NAN)),
    ]
    assert finite.first_bad(named) == "c (0 NaN and 1 infinite of 1 values)"
    assert finite.first_bad(named[:2]) is None


@pytest.mark.parametrize(
    ("parameter", "module"),
    [
        ("sequence.embedding.weight", "sequence.embedding"),
        ("sequence.layer.layers.0.controller.weight_ih", "sequence.layer"),
        ("sequence.layer.layers.0.heads.weight", "sequence.layer"),
        ("sequence.output.weight", "sequence.output"),
    ],
)
@pytest.mark.parametrize(
    "backend",
    [
        "auto",
        # Without a compiler there are no kernels; CI sets UNBOUNDED_REQUIRE_KERNELS and fails.
        pytest.param(
            "cpu", marks=pytest.mark.skipif(not available().ok, reason=available().reason)
        ),
    ],
)
def test_the_first_module_whose_output_is_bad(parameter: str, module: str, backend: str) -> None:
    config = tiny()
    config.hardware.backend = backend
    own = planned(config)
    model = own.model()
    batch = own.task.batch(1, "train", 0, 4)
    assert finite.first_bad_output(model, batch.inputs) is None
    with torch.no_grad():
        model.get_parameter(parameter).fill_(NAN)
    error = finite.first_bad_output(model, batch.inputs)
    assert error is not None
    assert error.startswith(f"output of {module}")
    assert model.sequence.layer.backend == backend
    assert finite.first_bad(finite.parameters(model)) is not None


def test_gradients_by_name() -> None:
    model = nn.Linear(2, 1)
    assert finite.first_bad(finite.gradients(model)) is None
    (model(torch.tensor([[INF, 1.0]])).sum()).backward()
    error = finite.first_bad(finite.gradients(model))
    assert error == "gradient of weight (0 NaN and 1 infinite of 2 values)"


class Spoiled(Register):
    """Its read vector is NaN."""

    def step(self, state, instruction):
        read_vector, state = super().step(state, instruction)
        return read_vector * NAN, state


@pytest.mark.parametrize(
    "layer", [ub.MemoryRNN(3, 4, Spoiled(2)), ub.MemoryAttention(3, Spoiled(2))]
)
def test_a_memory_whose_read_vector_is_bad(layer: nn.Module) -> None:
    model = nn.ModuleDict({"layer": layer})
    model.forward = layer.forward
    error = finite.first_bad_output(model, torch.ones(5, 2, 3))
    assert error is not None
    assert error.startswith("read vector of Spoiled in layer")
