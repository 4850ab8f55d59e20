"""Decisions that are sharpened for the time of a gradient."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from unbounded.errors import NonFiniteError
from unbounded.models import sharpen
from unbounded.models.memory_model import STACK_RNN, MemoryModel
from unbounded.tasks import Batch, LengthRange
from unbounded.training import PhaseOptions
from unbounded.training.objective import OBJECTIVES
from unbounded.training.random_sharpness import MOST, RandomSharpness, is_factor
from unbounded.training.steps import BatchTrainer

STACKS: dict[str, Any] = {**STACK_RNN, "memory": {"name": "superposition_stack", "count": 2}}
QUEUE: dict[str, Any] = {"memory": "queue", "controller": "lstm", "hidden_size": 8}


def model_of(options: dict[str, Any]) -> MemoryModel:
    torch.manual_seed(0)
    return MemoryModel(inputs=3, outputs=3, **options)


def began(model: MemoryModel, *, most: int, seed: int) -> RandomSharpness:
    sharpness = RandomSharpness(model, seed=seed)
    sharpness.most = most
    return sharpness


def trained(
    model: MemoryModel, batch: Batch, rate: float = 0.5, *, most: int = 1, **options: Any
) -> BatchTrainer:
    """A trainer behind one batch, the eighth, by plain SGD."""
    phase = PhaseOptions(
        seed=3, lengths=LengthRange(1, 2), batch_size=2, batches=1, clip=1e9, **options
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    sharpness = began(model, most=most, seed=3) if most > 1 else None
    trainer = BatchTrainer(
        model, optimizer, Accelerator(cpu=True), lambda nats: (float(nats.detach()), 0), phase,
        sharpness=sharpness,
    )  # fmt: skip
    for _ in trainer.train(batch, 7):
        pass
    return trainer


def batch_of(steps: int = 12) -> Batch:
    tokens = torch.randint(3, (2, steps + 1), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, steps, dtype=torch.bool)
    return Batch(tokens[:, :-1], tokens[:, 1:], mask, torch.full((2,), steps))


def test_factors_are_powers_of_two_and_follow_from_seed_and_place() -> None:
    sharpness = began(model_of(STACKS), most=8, seed=1)
    places = [(batch, piece) for batch in range(7, 207) for piece in range(4)]
    drawn = [sharpness.factor(*place) for place in places]
    assert drawn == [sharpness.factor(*place) for place in places]
    for factor in (1, 2, 4, 8):
        assert 150 < drawn.count(factor) < 250
    assert sum(map(drawn.count, (1.0, 2.0, 4.0, 8.0))) == len(drawn)
    assert {RandomSharpness(model_of(STACKS), seed=1).factor(*place) for place in places} == {1.0}
    assert {began(model_of(STACKS), most=2, seed=1).factor(*place) for place in places} == {1, 2}
    others = began(model_of(STACKS), most=8, seed=2)
    assert drawn != [others.factor(*place) for place in places]
    assert [sharpness.factor(9, piece) for piece in range(8)] != [sharpness.factor(9, 0)] * 8


@pytest.mark.parametrize("options", [STACKS, QUEUE], ids=["stacks", "queue"])
@pytest.mark.parametrize("pieces", [None, 12])
def test_a_step_is_that_of_the_sharper_model(options: dict[str, Any], pieces: int | None) -> None:
    """In pieces of one-hot symbols by the kernels alone, else by torch's graph."""
    model, batch = model_of(options), batch_of()
    factor = began(model, most=MOST, seed=3).factor(7, 0)
    assert factor > 1
    sharper = copy.deepcopy(model)
    sharpen(sharper, factor)
    loss = OBJECTIVES["cross_entropy"].loss(sharper(batch.inputs)[0], batch.targets, batch.mask)
    (loss / int(batch.mask.sum())).backward()
    before = copy.deepcopy(model)
    with torch.no_grad():
        for weight in sharper.parameters():
            assert weight.grad is not None
            weight -= 0.5 * weight.grad
    sharpen(sharper, 1 / factor)
    trained(model, batch, piece_steps=pieces, most=MOST)
    wanted = dict(sharper.named_parameters())
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight, wanted[name], atol=2e-6, rtol=1e-5, msg=name)
    plain = copy.deepcopy(before)
    trained(plain, batch, piece_steps=pieces)
    states = zip(plain.parameters(), model.parameters(), strict=True)
    assert not all(torch.allclose(*each, atol=1e-4) for each in states)


def test_pieces_have_factors_of_their_own_and_leave_the_weights() -> None:
    model, batch = model_of(STACKS), batch_of(40)
    before = copy.deepcopy(model.state_dict())
    trained(model, batch, rate=0.0, piece_steps=5, most=8)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_step_that_fails_leaves_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_of(QUEUE), batch_of()
    before = copy.deepcopy(model.state_dict())
    sound = OBJECTIVES["cross_entropy"]
    infinite = sound._replace(loss=lambda logits, *rest: logits.sum() * math.inf)
    monkeypatch.setitem(OBJECTIVES, "cross_entropy", infinite)
    with pytest.raises(NonFiniteError):
        trained(model, batch, most=MOST)

    def broken(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(BatchTrainer, "_through_graph", broken)
    with pytest.raises(KeyboardInterrupt):
        trained(model, batch, most=MOST)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("value", [1, 2, 8, MOST])
def test_powers_of_two_are_factors(value: int) -> None:
    assert is_factor(value)


@pytest.mark.parametrize("value", [0, -2, 3, 6, 2 * MOST, True, 2.0, "4", None])
def test_nothing_else_is_one(value: object) -> None:
    assert not is_factor(value)
