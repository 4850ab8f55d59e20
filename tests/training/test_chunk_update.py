"""The result and the loss of a training step."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator, DistributedType
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from unbounded.errors import ChoiceError, NonFiniteError
from unbounded.tasks import Batch, LengthRange
from unbounded.training import PhaseOptions
from unbounded.training.chunk_update import ChunkUpdate, bare_optimizer, plain_sgd, step_plain_sgd
from unbounded.training.objective import OBJECTIVES, training_loss


class Table(nn.Module):
    """Logits of the next token from the last token only."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([[1.0, -1.0, 0.5], [0.0, 2.0, 0.0]]))

    def forward(self, inputs: Tensor, state: None = None) -> tuple[Tensor, None]:
        return self.logits[inputs], None


def options_of(**options: Any) -> PhaseOptions:
    usual = {"seed": 0, "lengths": LengthRange(1, 2), "batch_size": 1, "batches": 1, "clip": 1e3}
    return PhaseOptions(**{**usual, **options})


def trainer_of(model: nn.Module, options: PhaseOptions) -> ChunkUpdate:
    """Trains a model by plain SGD at 0.5, in one process."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return ChunkUpdate(
        model, optimizer, Accelerator(cpu=True), lambda nats: (float(nats.detach()), 0), options
    )


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_reported_losses_are_without_label_smoothing(share: float) -> None:
    model, before = Table(), Table()
    options = options_of(label_smoothing=share)
    inputs, targets = torch.tensor([[0, 1, 1]]), torch.tensor([[2, 1, 0]])
    mask = torch.tensor([[True, True, False]])
    batch = Batch(inputs, targets, mask, torch.tensor([3]))
    trainer = trainer_of(model, options)
    (result,) = trainer.train(batch, 0)
    logits = before(inputs)[0]
    expected = OBJECTIVES["cross_entropy"].loss(logits, targets, mask)
    assert result.nats == pytest.approx(expected.item(), rel=1e-6)
    loss = training_loss("cross_entropy", label_smoothing=share)(logits, targets, mask) / 2
    loss.backward()
    assert before.logits.grad is not None
    moved = before.logits.detach() - 0.5 * before.logits.grad
    assert torch.allclose(model.logits.detach(), moved, atol=1e-6)
    assert result.gradient_norm == pytest.approx(float(before.logits.grad.norm()), rel=1e-5)


def test_a_smoothed_loss_that_alone_is_not_finite_stops_training() -> None:
    model = Table()
    with torch.no_grad():
        model.logits[0, 1] = -torch.inf  # not a target, so the loss itself is finite
    batch = Batch(
        torch.tensor([[0]]), torch.tensor([[2]]), torch.tensor([[True]]), torch.tensor([1])
    )
    trainer = trainer_of(model, options_of(label_smoothing=0.1))
    with pytest.raises(NonFiniteError, match="the loss or its gradient is not finite"):
        list(trainer.train(batch, 0))


def test_torchs_own_optimizer_steps_where_a_wrapper_adds_nothing() -> None:
    class Elsewhere(AcceleratedOptimizer):
        """A wrapper with a step of its own, like DeepSpeed's."""

    accelerator = Accelerator(cpu=True)
    own = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    plain = accelerator.prepare_optimizer(own)
    scaled: Any = SimpleNamespace(scaler=object(), distributed_type=DistributedType.NO)
    tpu: Any = SimpleNamespace(scaler=None, distributed_type=DistributedType.XLA)
    assert bare_optimizer(plain, accelerator) is own
    assert bare_optimizer(own, accelerator) is own
    assert bare_optimizer(plain, scaled) is plain
    assert bare_optimizer(plain, tpu) is plain
    elsewhere = Elsewhere(own)
    assert bare_optimizer(elsewhere, accelerator) is elsewhere


def test_a_plain_step_of_sgd_equals_torchs() -> None:
    torch.manual_seed(0)
    shapes = [(3, 4), (4,), (2, 2)]
    both = [[nn.Parameter(torch.randn(shape)) for shape in shapes] for _ in range(2)]
    for one, other in zip(*both, strict=True):
        other.data.copy_(one)
    optimizers = [
        torch.optim.SGD([{"params": each[:2]}, {"params": each[2:], "lr": 0.3}], lr=0.7)
        for each in both
    ]
    for place in range(3):
        for k, (one, other) in enumerate(zip(*both, strict=True)):
            # A parameter without a gradient stays unchanged.
            one.grad = None if k == place else torch.randn(one.shape)
            other.grad = one.grad
        optimizers[0].step()
        step_plain_sgd(optimizers[1])
        assert all(map(torch.equal, *both))


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"weight_decay": 0.1}, {"maximize": True}])
def test_other_steps_of_sgd_are_left_to_torch(options: dict[str, Any]) -> None:
    weight = nn.Parameter(torch.zeros(1))
    assert plain_sgd(torch.optim.SGD([weight], lr=0.1))
    assert not plain_sgd(torch.optim.SGD([weight], lr=0.1, **options))
    assert not plain_sgd(torch.optim.Adam([weight]))
    hooked = torch.optim.SGD([weight], lr=0.1)
    hooked.register_step_post_hook(lambda *_: None)
    assert not plain_sgd(hooked)
    everywhere = register_optimizer_step_post_hook(lambda *_: None)
    assert not plain_sgd(torch.optim.SGD([weight], lr=0.1))
    everywhere.remove()
    assert plain_sgd(torch.optim.SGD([weight], lr=0.1))


def clipped_by_value() -> tuple[PhaseOptions, Batch]:
    batch = Batch(
        torch.tensor([[0, 1]]), torch.tensor([[2, 0]]), torch.tensor([[True, True]]),
        torch.tensor([2]),
    )  # fmt: skip
    return options_of(clip=0.2, clip_by="value"), batch


def test_elements_are_clipped_and_the_norm_is_the_one_before() -> None:
    options, batch = clipped_by_value()
    model = Table()
    before, other = Table(), Table()
    OBJECTIVES["cross_entropy"].loss(other(batch.inputs)[0], *batch[1:3]).div(2).backward()
    assert other.logits.grad is not None
    norm = float(other.logits.grad.norm())
    torch.nn.utils.clip_grad_value_(other.parameters(), 0.2)
    trainer = trainer_of(model, options)
    (result,) = trainer.train(batch, 0)
    assert result.gradient_norm == pytest.approx(norm, rel=1e-6)
    moved = before.logits.detach() - 0.5 * other.logits.grad
    assert torch.allclose(model.logits.detach(), moved, atol=1e-7)
    assert model.logits.grad is None
    with pytest.raises(ChoiceError, match=r"unknown clip_by 'values'.*Did you mean 'value'"):
        trainer_of(model, dataclasses.replace(options, clip_by="values"))


class Recorder(Table):
    """A model that records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def forward(
        self, inputs: Tensor, state: Any = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        self.calls.append((inputs.shape[1], state, None if lengths is None else lengths.tolist()))
        return self.logits[inputs], torch.zeros(len(inputs), 1)


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_model_gets_lengths_where_sequences_end(chunk: int | None) -> None:
    model = Recorder()
    trainer = trainer_of(model, options_of(batch_size=2, clip=1.0, chunk_steps=chunk))
    inputs = torch.zeros(2, 4, dtype=torch.int64)
    lengths = torch.tensor([4, 2])
    mask = torch.arange(4) < lengths.unsqueeze(1)
    list(trainer.train(Batch(inputs, inputs, mask, lengths), 0))
    list(trainer.train(Batch(inputs, inputs, torch.ones_like(mask), torch.tensor([4, 4])), 1))
    calls = [(steps, lengths) for steps, _, lengths in model.calls]
    if chunk is None:
        assert calls == [(4, [4, 2]), (4, None)]
    else:
        assert calls == [(2, None), (2, [2, 0]), (2, None), (2, None)]
        assert [state is None for _, state, _ in model.calls] == [True, False, True, False]


def test_elements_are_clipped_however_large_and_only_the_norms_squares_overflow() -> None:
    """Joulin & Mikolov's program computes no norm: it clips gradients of 1e25 and continues."""
    options, batch = clipped_by_value()
    model, before = Table(), Table()
    model.logits.register_hook(lambda gradient: 1e25 * gradient)
    (result,) = trainer_of(model, options).train(batch, 0)
    assert result.gradient_norm is not None
    assert 1e23 < result.gradient_norm < 1e26
    moved = (model.logits - before.logits).abs()
    assert moved.max().item() == pytest.approx(0.5 * 0.2)
    for bad in (float("inf"), float("nan")):
        faulty = Table()
        faulty.logits.register_hook(lambda gradient, bad=bad: bad * gradient.abs())
        with pytest.raises(NonFiniteError):
            list(trainer_of(faulty, options).train(batch, 0))
