"""Row-sparse steps: the weights equal those of the dense gradient."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from unbounded.errors import NonFiniteError, ShapeError
from unbounded.models import MemoryModel
from unbounded.rnn.symbols import input_weight
from unbounded.tasks import Batch, LengthRange
from unbounded.training.chunk_update import ChunkUpdate, StepResult
from unbounded.training.options import PhaseOptions
from unbounded.training.row_sparse import row_sparse

WORDS = 60
STACK = {"name": "superposition_stack", "count": 3, "capacity": 9, "overflow": "drop_bottom"}
ELMAN = {"name": "elman", "activation": "sigmoid", "recurrent": True, "bias": False}
MODELS: dict[str, dict[str, Any]] = {
    "stack-rnn": {"memory": STACK, "controller": ELMAN},
    "rnn": {"memory": "none", "controller": ELMAN},
    "lstm": {"memory": "none", "controller": {"name": "lstm", "skip_input": False}},
    "lstm, two layers": {
        "memory": "none",
        "controller": {"name": "lstm", "num_layers": 2, "skip_input": False},
    },
    "srcn": {"memory": "none", "controller": {"name": "srcn", "context_size": 4}},
}


def model_of(name: str, **options: Any) -> MemoryModel:
    torch.manual_seed(0)
    options = {"hidden_size": 6, **MODELS[name], "embedding_size": None, **options}
    return MemoryModel(inputs=WORDS, outputs=WORDS, **options)


def options_of(clip: float = 0.05, **others: Any) -> PhaseOptions:
    return PhaseOptions(
        seed=0, lengths=LengthRange(1, 2), batch_size=2, batches=1, clip=clip,
        **{"clip_by": "value", "chunk_steps": 7, "reduction": "sum", **others},
    )  # fmt: skip


def batch_of(lengths: list[int] | None = None) -> Batch:
    draw = torch.Generator().manual_seed(1)
    lengths = lengths or [31, 31]
    steps = max(lengths)
    is_there = torch.arange(steps) < torch.tensor(lengths).unsqueeze(1)
    return Batch(
        torch.randint(WORDS, (len(lengths), steps), generator=draw),
        torch.randint(WORDS, (len(lengths), steps), generator=draw),
        is_there & (torch.rand(len(lengths), steps, generator=draw) < 0.7),
        torch.tensor(lengths),
    )


def trainer_of(model: nn.Module, options: PhaseOptions, **optimizer: Any) -> ChunkUpdate:
    sgd = torch.optim.SGD(model.parameters(), **{"lr": 0.1, **optimizer})
    return ChunkUpdate(model, sgd, Accelerator(cpu=True), total_of, options)


def total_of(nats: Tensor) -> tuple[float, int]:
    return float(nats.detach()), 0


def trained(
    model: MemoryModel, batch: Batch, options: PhaseOptions, *, dense: bool
) -> list[StepResult]:
    trainer = trainer_of(model, options)
    assert trainer._row_sparse is not None
    if dense:
        trainer._row_sparse = None
    return list(trainer.train(batch, 0)) + list(trainer.train(batch, 1))


@pytest.mark.parametrize("clip", [0.05, 1e3], ids=["cut", "not cut"])
@pytest.mark.parametrize("lengths", [None, [31, 12]], ids=["even", "ragged"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_equal_those_of_the_dense_gradient_bitwise(
    name: str, lengths: list[int] | None, clip: float
) -> None:
    batch, options = batch_of(lengths), options_of(clip)
    model = model_of(name)
    other, begun = copy.deepcopy(model), copy.deepcopy(model)
    results = trained(model, batch, options, dense=False)
    expected = trained(other, batch, options, dense=True)
    assert len(expected) > 2
    for actual, target in zip(results, expected, strict=True):
        assert actual._replace(gradient_norm=None) == target._replace(gradient_norm=None)
        if target.gradient_norm is not None:
            assert actual.gradient_norm == pytest.approx(target.gradient_norm, rel=1e-5)
    for key, weight in model.named_parameters():
        assert torch.equal(weight, other.get_parameter(key)), key
        assert weight.grad is None
    matrix, before = input_weight(model.sequence.layer), input_weight(begun.sequence.layer)
    assert matrix is not None
    assert before is not None
    is_moved = (matrix != before).any(dim=0)[:WORDS]
    assert 0 < is_moved.sum() < WORDS


def is_row_sparse(model: nn.Module, **options: Any) -> bool:
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    return row_sparse(model, Accelerator(cpu=True), sgd) is not None


def test_other_steps_use_the_dense_gradient() -> None:
    model = model_of("rnn")
    assert trainer_of(model, options_of())._row_sparse is not None
    assert trainer_of(model, options_of(clip_by="norm"))._row_sparse is None
    assert trainer_of(model, options_of(), momentum=0.9)._row_sparse is None


@pytest.mark.parametrize(
    "options", [{"hidden_size": 60}, {"embedding_size": 3}, {"dropout": 0.5}], ids=str
)
def test_other_models_use_the_dense_gradient(options: dict[str, Any]) -> None:
    assert not is_row_sparse(model_of("rnn", **options))


def hooks_of(model: MemoryModel) -> list[Callable[[], Any]]:
    matrix = input_weight(model.sequence.layer)
    assert matrix is not None
    return [
        lambda: matrix.register_hook(lambda grad: grad / 2),
        lambda: matrix.register_post_accumulate_grad_hook(lambda weight: None),
        lambda: model.register_forward_hook(lambda *_: None),
        lambda: model.sequence.layer.register_full_backward_hook(lambda *_: None),
    ]


@pytest.mark.parametrize("number", range(4))
def test_models_with_hooks_use_the_dense_gradient(number: int) -> None:
    model = model_of("lstm")
    columns = row_sparse(model, Accelerator(cpu=True), torch.optim.SGD(model.parameters(), lr=0.1))
    assert columns is not None
    assert columns.fits()
    handle = hooks_of(model)[number]()
    assert not is_row_sparse(model)
    assert not columns.fits()
    handle.remove()
    assert is_row_sparse(model)
    assert columns.fits()


def halve(trainer: ChunkUpdate, model: MemoryModel) -> None:
    hooks_of(model)[0]()


def freeze(trainer: ChunkUpdate, model: MemoryModel) -> None:
    matrix = input_weight(model.sequence.layer)
    assert matrix is not None
    matrix.requires_grad_(False)


def load(trainer: ChunkUpdate, model: MemoryModel) -> None:
    kept = trainer._optimizer.state_dict()
    kept["param_groups"][0]["lr"] = 0.01
    trainer._optimizer.load_state_dict(kept)


def double(trainer: ChunkUpdate, model: MemoryModel) -> None:
    def each(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for parameter in optimizer.param_groups[0]["params"]:
            if parameter.grad is not None:
                parameter.grad.mul_(2)

    trainer._optimizer.register_step_pre_hook(each)


@pytest.mark.parametrize("change", [halve, freeze, load, double])
def test_changes_during_training_are_obeyed(
    change: Callable[[ChunkUpdate, MemoryModel], None],
) -> None:
    results = []
    for dense in (False, True):
        model = model_of("stack-rnn")
        trainer = trainer_of(model, options_of())
        if dense:
            trainer._row_sparse = None
        list(trainer.train(batch_of(), 0))
        change(trainer, model)
        list(trainer.train(batch_of(), 1))
        results.append(list(model.parameters()))
    assert all(map(torch.equal, *results))


def test_half_precision_uses_the_dense_gradient() -> None:
    assert not is_row_sparse(model_of("rnn").bfloat16())
    assert is_row_sparse(model_of("rnn").double())


@pytest.mark.parametrize("symbol", [-1, WORDS, WORDS + 3, WORDS + 100])
def test_an_unknown_symbol_is_an_error(symbol: int) -> None:
    batch = batch_of()
    batch.inputs[0, 2] = symbol
    trainer = trainer_of(model_of("stack-rnn"), options_of())
    with pytest.raises(ShapeError, match=rf"0\.\.{WORDS - 1}"):
        list(trainer.train(batch, 0))


def test_a_matrix_that_is_not_trained_stays() -> None:
    model = model_of("rnn")
    matrix = input_weight(model.sequence.layer)
    assert matrix is not None
    others = [each for each in model.parameters() if each is not matrix]
    assert row_sparse(model, Accelerator(cpu=True), torch.optim.SGD(others, lr=0.1)) is None
    matrix.requires_grad_(False)
    assert not is_row_sparse(model)


def test_a_bad_column_ends_training_before_it_is_stepped() -> None:
    model = model_of("rnn")
    matrix = input_weight(model.sequence.layer)
    assert matrix is not None
    with torch.no_grad():
        matrix[0, 3] = math.nan
    before = matrix.detach().clone()
    batch = batch_of([7, 7])
    batch.inputs[0, 2] = 3
    with pytest.raises(NonFiniteError, match=r"parameter sequence\.layer\.controller\.weight_ih"):
        next(trainer_of(model, options_of()).train(batch, 0))
    assert torch.equal(matrix.nan_to_num(), before.nan_to_num())


@pytest.mark.parametrize("goes_on_as", ["row_sparse", "whole"])
def test_a_failed_step_leaves_no_gradient(goes_on_as: str) -> None:
    class CutError(Exception):
        """Ends the step after its backward pass."""

    broken = [True]

    def total(nats: Tensor) -> tuple[float, int]:
        if broken[0]:
            raise CutError
        return total_of(nats)

    model = model_of("stack-rnn")
    other = model_of("stack-rnn")
    other.load_state_dict(model.state_dict())
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = ChunkUpdate(model, sgd, Accelerator(cpu=True), total, options_of())
    with pytest.raises(CutError):
        list(trainer.train(batch_of(), 0))
    broken[0] = False
    if goes_on_as == "whole":
        for each in (model, other):
            each.sequence.output.register_forward_hook(lambda *_: None)
    # Another batch, with other symbols.
    batch = batch_of()
    batch.inputs[:] = batch.inputs.flip(0) % 3
    list(trainer.train(batch, 1))
    list(trainer_of(other, options_of()).train(batch, 1))
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
