"""Gates and units that are sharpened during a gradient step."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from unbounded.errors import ConfigError, NonFiniteError
from unbounded.models import sharpen, sharpen_units
from unbounded.models.memory_model import STACK_RNN, MemoryModel
from unbounded.tasks import Batch, LengthRange
from unbounded.training import LoopState, PhaseOptions
from unbounded.training.chunk_update import ChunkUpdate
from unbounded.training.hooks.temperature_noise import MOST, TemperatureNoise, is_factor
from unbounded.training.objective import OBJECTIVES

STACKS: dict[str, Any] = {**STACK_RNN, "memory": {"name": "superposition_stack", "count": 2}}
#: Fewer units than symbols: the columns are row-sparse.
FEW: dict[str, Any] = {**STACKS, "hidden_size": 2}
QUEUE: dict[str, Any] = {"memory": "queue", "controller": "lstm", "hidden_size": 8}


def model_of(options: dict[str, Any]) -> MemoryModel:
    torch.manual_seed(0)
    return MemoryModel(inputs=3, outputs=3, **options)


def began(model: MemoryModel, *, most: int, seed: int, units: int = MOST) -> TemperatureNoise:
    noise = TemperatureNoise(model, seed, limit=MOST, units=units)
    noise.most = most
    return noise


def trained(
    model: MemoryModel, batch: Batch, rate: float = 0.5, *, most: int = 1, **options: Any
) -> ChunkUpdate:
    """A trainer after one batch, the eighth, by plain SGD."""
    full = {"clip": 1e9, **options}
    phase = PhaseOptions(seed=3, lengths=LengthRange(1, 2), batch_size=2, batches=1, **full)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    noise = began(model, most=most, seed=3) if most > 1 else None
    trainer = ChunkUpdate(
        model, optimizer, Accelerator(cpu=True), lambda nats: (float(nats.detach()), 0), phase,
        hooks=[] if noise is None else [noise],
    )  # fmt: skip
    for _ in trainer.train(batch, 7):
        pass
    return trainer


def batch_of(steps: int = 12) -> Batch:
    tokens = torch.randint(3, (2, steps + 1), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, steps, dtype=torch.bool)
    return Batch(tokens[:, :-1], tokens[:, 1:], mask, torch.full((2,), steps))


def test_factors_are_powers_of_two_and_follow_from_seed_and_place() -> None:
    noise = began(model_of(STACKS), most=8, seed=1)
    places = [(batch, chunk) for batch in range(7, 207) for chunk in range(4)]
    drawn = [noise.factors(*place) for place in places]
    assert drawn == [noise.factors(*place) for place in places]
    for factors in zip(*drawn, strict=True):
        for factor in (1, 2, 4, 8):
            assert 150 < factors.count(factor) < 250
        assert sum(map(factors.count, (1.0, 2.0, 4.0, 8.0))) == len(places)
    # The 16 pairs are about equally likely.
    assert len(set(drawn)) == 16
    assert all(25 < drawn.count(pair) < 80 for pair in set(drawn))
    unused = TemperatureNoise(model_of(STACKS), 1, limit=MOST)
    assert {unused.factors(*place) for place in places} == {(1.0, 1.0)}
    of_twos = began(model_of(STACKS), most=2, seed=1)
    twos = {of_twos.factors(*place) for place in places}
    assert twos == {(1, 1), (1, 2), (2, 1), (2, 2)}
    # Units have a limit of their own; without one they are unchanged.
    of_less = began(model_of(STACKS), most=8, seed=1, units=2)
    less = [of_less.factors(*place) for place in places]
    assert {units for _, units in less} == {1, 2}
    assert {gates for gates, _ in less} == {1, 2, 4, 8}
    plain = TemperatureNoise(model_of(STACKS), 1, limit=MOST)
    plain.most = 8
    assert {plain.factors(*place)[1] for place in places} == {1}
    others = began(model_of(STACKS), most=8, seed=2)
    assert drawn != [others.factors(*place) for place in places]
    chunks = [noise.factors(9, chunk) for chunk in range(8)]
    assert chunks != [noise.factors(9, 0)] * 8


@pytest.mark.parametrize(
    ("before", "loss", "after"),
    [(1, 9e-4, 2), (2, 9e-4, 4), (4, 0.0, 8), (8, 0.0, 8), (4, 1e-3, 4), (4, 9.9e-3, 4),
     (4, 1e-2, 2), (2, 1.0, 1), (1, 1.0, 1), (8, math.inf, 4)],
)  # fmt: skip
def test_the_greatest_factor_doubles_at_low_loss_and_halves_at_high_loss(
    before: int, loss: float, after: int
) -> None:
    noise = TemperatureNoise(model_of(STACKS), 1, limit=8)
    noise.most = before
    state = LoopState(window_tokens=5)
    assert noise.on_report(state, loss) == {"greatest_factor": before}
    assert noise.most == after
    state.stage = 4  # before a curriculum's full range it stays
    noise.on_report(state, loss)
    assert noise.most == after


def test_only_controller_weights_and_biases_are_multiplied() -> None:
    for options in (STACKS, QUEUE):
        model = model_of(options)
        before = copy.deepcopy(model.state_dict())
        sharpen_units(model, 4.0)
        names = [name for name in before if ".controller." in name]
        assert any("bias" in name for name in names) == (options is QUEUE)
        for name, value in model.state_dict().items():
            assert torch.equal(value, (4 if name in names else 1) * before[name]), name
    # Two layers with one controller: it is sharpened once.
    layers = [model_of(STACKS).sequence.layer.layers[0] for _ in range(2)]
    layers[1].controller = layers[0].controller
    weight = copy.deepcopy(layers[0].controller.weight_ih)
    sharpen_units(torch.nn.ModuleList(layers), 2.0)
    assert torch.equal(layers[0].controller.weight_ih, 2 * weight)
    for units in (0, 6, -1, True):
        with pytest.raises(ConfigError, match="units: expected a power of two from 1 to 1024"):
            TemperatureNoise(model_of(STACKS), 1, limit=MOST, units=units)
    for factor in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError, match="factor: expected a finite number above 0"):
            sharpen_units(model, factor)
    with pytest.raises(ConfigError, match="expected a memory with gates"):
        sharpen_units(model_of({"memory": "none", "controller": "lstm", "hidden_size": 8}), 2.0)


@pytest.mark.parametrize("clip_by", ["norm", "value"])
@pytest.mark.parametrize("chunks", [None, 12])
@pytest.mark.parametrize("options", [STACKS, FEW, QUEUE], ids=["stacks", "few", "queue"])
def test_a_step_equals_the_sharper_models(
    options: dict[str, Any], chunks: int | None, clip_by: str
) -> None:
    """Static-buffer and row-sparse steps for chunks of one-hot symbols, else torch's graph."""
    model, batch = model_of(options), batch_of()
    gates, units = began(model, most=MOST, seed=3).factors(7, 0)
    assert gates > 1
    assert units > 1
    assert gates != units
    sharper = copy.deepcopy(model)
    sharpen(sharper, gates)
    with torch.no_grad():
        for name, weight in sharper.named_parameters():
            weight *= units if ".controller." in name else 1
    loss = OBJECTIVES["cross_entropy"].loss(sharper(batch.inputs)[0], batch.targets, batch.mask)
    (loss / int(batch.mask.sum())).backward()
    before = copy.deepcopy(model)
    with torch.no_grad():
        for weight in sharper.parameters():
            assert weight.grad is not None
            weight -= 0.5 * weight.grad
    sharpen(sharper, 1 / gates)
    with torch.no_grad():
        for name, weight in sharper.named_parameters():
            weight /= units if ".controller." in name else 1
    trainer = trained(model, batch, chunk_steps=chunks, most=MOST, clip_by=clip_by)
    assert (trainer._row_sparse is not None) == (clip_by == "value" and options is FEW)
    expected = dict(sharper.named_parameters())
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight, expected[name], atol=2e-6, rtol=1e-5, msg=name)
    plain = copy.deepcopy(before)
    trained(plain, batch, chunk_steps=chunks)
    states = zip(plain.parameters(), model.parameters(), strict=True)
    assert not all(torch.allclose(*each, atol=1e-4) for each in states)


@pytest.mark.parametrize("clip_by", ["norm", "value"])
def test_the_bound_on_gradients_is_smaller_for_a_sharper_model(clip_by: str) -> None:
    def moved(most: int, clip: float) -> float:
        model = model_of(QUEUE)
        before = copy.deepcopy(model.state_dict())
        trained(model, batch_of(), 1.0, most=most, clip=clip, clip_by=clip_by)
        of_output = model.state_dict()["sequence.output.bias"] - before["sequence.output.bias"]
        full = [value - before[name] for name, value in model.state_dict().items()]
        # Without sharpening the step is the gradient; otherwise it is at most that.
        of_all = math.sqrt(sum(float(each.square().sum()) for each in full))
        return of_all if clip_by == "norm" else float(of_output.abs().max())

    bound = moved(1, 1e-3)
    assert bound == pytest.approx(1e-3, rel=1e-3)
    if clip_by == "norm":
        assert 0 < moved(16, 1e-3) <= 1.001e-3 / 4
    else:
        assert moved(16, 1e-3) == pytest.approx(1e-3 / 4, rel=1e-3)


def test_chunks_have_separate_factors_and_restore_the_weights() -> None:
    model, batch = model_of(STACKS), batch_of(40)
    before = copy.deepcopy(model.state_dict())
    trained(model, batch, rate=0.0, chunk_steps=5, most=8)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_step_that_fails_leaves_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = model_of(QUEUE), batch_of()
    before = copy.deepcopy(model.state_dict())
    sound = OBJECTIVES["cross_entropy"]
    infinite = sound._replace(loss=lambda logits, *rest: logits.sum() * math.inf)
    monkeypatch.setitem(OBJECTIVES, "cross_entropy", infinite)
    with pytest.raises(NonFiniteError):
        trained(model, batch, most=MOST)

    def broken(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ChunkUpdate, "_through_graph", broken)
    with pytest.raises(KeyboardInterrupt):
        trained(model, batch, most=MOST)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_powers_of_two_are_factors_and_nothing_else() -> None:
    assert all(map(is_factor, (1, 2, 8, MOST)))
    assert not any(map(is_factor, (0, -2, 3, 6, 2 * MOST, True, 2.0, "4", None)))
