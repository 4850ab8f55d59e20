"""Random offsets on the logits of gates during a gradient step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from accelerate import Accelerator

from unbounded.errors import ConfigError
from unbounded.models.discrete import gate_biases
from unbounded.models.memory_model import STACK_RNN, MemoryModel
from unbounded.tasks import Batch, LengthRange
from unbounded.training import PhaseOptions
from unbounded.training.chunk_update import ChunkUpdate
from unbounded.training.hooks.logit_noise import LogitNoise

QUEUE: dict[str, Any] = {"memory": "queue", "controller": "lstm", "hidden_size": 8}


def model_of(options: dict[str, Any]) -> MemoryModel:
    torch.manual_seed(0)
    return MemoryModel(inputs=3, outputs=3, **options)


def noise_of(model: MemoryModel, *, most: float = 0.5, now: float = 5.0) -> LogitNoise:
    return LogitNoise(model, 3, most=most, inverse_temperature=lambda: now)


def biases_inside(noise: LogitNoise, model: MemoryModel, batch: int) -> torch.Tensor:
    context = noise.around_step(batch, 0)
    assert context is not None
    with context:
        return torch.cat(gate_biases(model)).clone()


def test_offsets_have_the_size_of_the_sharpening_and_depend_on_the_batch() -> None:
    model = model_of(QUEUE)
    before = torch.cat(gate_biases(model)).clone()
    noise = noise_of(model)
    offsets = torch.stack([biases_inside(noise, model, batch) for batch in range(500)]) - before
    assert offsets.shape == (500, 2)  # push and pop
    torch.testing.assert_close(offsets.abs(), torch.full_like(offsets, 2.0))
    assert abs(float(offsets.mean())) < 0.2
    assert abs(float(torch.corrcoef(offsets.t())[0, 1])) < 0.15
    again, other = (biases_inside(noise_of(model), model, batch) for batch in (7, 8))
    assert torch.equal(biases_inside(noise, model, 7), again)
    assert not torch.equal(again, other)
    torch.testing.assert_close(torch.cat(gate_biases(model)), before)


def test_only_gates_change_and_are_restored_after_an_error() -> None:
    model = model_of(QUEUE)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    context = noise_of(model).around_step(1, 0)
    assert context is not None
    moved = set()

    def step() -> None:
        with context:
            state = model.state_dict().items()
            moved.update(name for name, weight in state if not torch.equal(weight, before[name]))
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        step()
    assert moved == {"sequence.layer.layers.0.heads.bias"}
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(weight, before[name])


def test_soft_gates_have_no_noise() -> None:
    assert noise_of(model_of(QUEUE), now=1.0).around_step(1, 0) is None


def test_heads_without_biases_have_none_and_a_model_needs_gates() -> None:
    stacks = {**STACK_RNN, "memory": {"name": "superposition_stack", "count": 2}}
    assert gate_biases(model_of(stacks)) == []
    with pytest.raises(ConfigError, match="expected a memory with gates"):
        gate_biases(model_of({"memory": "none", "controller": "lstm", "hidden_size": 4}))


def test_the_gradient_is_that_of_the_shifted_network() -> None:
    tokens = torch.randint(3, (2, 13), generator=torch.Generator().manual_seed(1))
    batch = Batch(
        tokens[:, :-1], tokens[:, 1:], torch.ones(2, 12, dtype=torch.bool), torch.full((2,), 12)
    )

    def step(model: MemoryModel, hooks: list[LogitNoise]) -> None:
        phase = PhaseOptions(seed=3, lengths=LengthRange(1, 2), batch_size=2, batches=1, clip=1e9)
        update = ChunkUpdate(
            model, torch.optim.SGD(model.parameters(), lr=0.5), Accelerator(cpu=True),
            lambda nats: (float(nats.detach()), 0), phase, hooks=hooks,
        )  # fmt: skip
        for _ in update.train(batch, 7):
            pass

    noisy, shifted = model_of(QUEUE), model_of(QUEUE)
    offset = biases_inside(noise_of(noisy), noisy, 7) - torch.cat(gate_biases(shifted))
    step(noisy, [noise_of(noisy)])
    for view, own in zip(gate_biases(shifted), offset.split(1), strict=True):
        view += own
    step(shifted, [])
    for view, own in zip(gate_biases(shifted), offset.split(1), strict=True):
        view -= own
    for (name, one), other in zip(noisy.named_parameters(), shifted.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=name)
