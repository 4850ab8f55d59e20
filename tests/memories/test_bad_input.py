"""Every message names the argument, the expected value and the actual one."""

from __future__ import annotations

import functools
import itertools

import pytest
import torch

import unbounded as ub
from tests.memories.common import instructions
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError

DOUBLE = torch.float64


def with_field(**changes):
    memory = ub.NeuralStack(3)
    return memory, instructions(memory, 2, 4)._replace(**changes)


@pytest.mark.parametrize(
    ("field", "tensor", "error", "message"),
    [
        ("push", torch.zeros(2, 4, 1).double(), ShapeError, r"shape \[2, 4\], got \[2, 4, 1\]"),
        ("value", torch.zeros(2, 4, 5).double(), ShapeError, r"shape \[B, T, 3\], got \[2, 4, 5"),
        ("pop", torch.zeros(2, 4), DTypeError, "dtype torch.float64 as value has"),
    ],
)
def test_a_field_that_does_not_fit(field, tensor, error, message):
    memory, bad = with_field(**{field: tensor})
    with pytest.raises(error, match=f"{field}: expected {message}"):
        memory.unroll(bad)


@pytest.mark.parametrize(
    ("values", "strengths", "message"),
    [
        ((3, 0, 3), (3, 0), r"values: expected shape \[2, N, 3\], got"),
        ((2, 3, 3), (2, 2), "values has 3, strengths has 2"),
    ],
)
def test_a_state_that_does_not_fit(values, strengths, message):
    memory, good = with_field()
    fields = torch.zeros(values, dtype=DOUBLE), torch.zeros(strengths, dtype=DOUBLE)
    with pytest.raises(ShapeError, match=message):
        memory.unroll(good, memory.State(*fields))
    with pytest.raises(ShapeError, match="expected a StackState of NeuralStack, got tup"):
        memory.unroll(good, fields)


def test_no_time_step():
    memory, good = with_field()
    with pytest.raises(ShapeError, match="at least one time step"):
        memory.unroll(memory.Instruction(*(field[:, :0] for field in good)))


VECTORS = [ub.NeuralStack, ub.NeuralQueue, ub.NeuralDeque]
NUMBERS = [ub.SuperpositionStack, ub.SuperpositionList]
PAIRS = [*itertools.product(VECTORS, VECTORS), *itertools.product(NUMBERS, NUMBERS)]


@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_state_of_another_memory_of_equal_width(kind, other):
    state = kind(3).initial_state(2)
    layer = ub.MemoryRNN(5, 7, other(3))
    start = layer.initial_state(2)._replace(memory=state)
    if kind is other:
        layer(torch.zeros(4, 2, 5), start)
        return
    expected = f"{other.State.__name__} of {other.__name__}, got {kind.State.__name__}"
    with pytest.raises(ShapeError, match=f"state: expected a {expected}"):
        layer(torch.zeros(4, 2, 5), start)


def test_an_instruction_of_another_memory():
    memory = ub.NeuralDeque(3)
    _, good = with_field()
    with pytest.raises(ShapeError, match=r"expected memory.Instruction\(top_value, top_push"):
        memory.unroll(good)


def test_an_unknown_backend_names_the_closest():
    memory, good = with_field()
    with pytest.raises(ChoiceError, match="Did you mean 'reference'"):
        memory.unroll(good, backend="referense")


@pytest.mark.parametrize("width", [0, -1, 2.5, True])
def test_an_invalid_width(width):
    with pytest.raises(ShapeError, match="width: expected an integer >= 1"):
        ub.NeuralStack(width)


ALL = [ub.NeuralStack(3), ub.NeuralDeque(3), ub.SuperpositionStack(count=2), ub.TuringTape(4, 3)]


@pytest.mark.parametrize("memory", ALL, ids=lambda memory: type(memory).__name__)
def test_a_step_takes_tensors_of_its_memory(memory):
    """`step(None, ...)`, and Python floats as a push."""
    state = memory.initial_state(2)
    good = memory.Instruction(*(torch.rand(2, *head.shape) for head in memory.heads))
    first = memory.Instruction._fields[0]
    with pytest.raises(ShapeError, match=r"state: expected a .* got NoneType"):
        memory.step(None, good)
    with pytest.raises(ShapeError, match=r"instruction: expected memory\.Instruction"):
        memory.step(state, None)
    with pytest.raises(DTypeError, match=f"{first}: expected a tensor, got float"):
        memory.step(state, memory.Instruction(*(0.5 for _ in good)))
    with pytest.raises(ShapeError, match=rf"{first}: expected an axis \[B, \.\.\.\]"):
        memory.step(state, good._replace(**{first: torch.tensor(0.5)}))
    field = state._fields[0]
    with pytest.raises(DTypeError, match=rf"state\.{field}: expected a tensor, got NoneType"):
        memory.step(state._replace(**{field: None}), good)


@pytest.mark.parametrize("bias", ["x", float("nan"), float("inf"), None, True])
def test_a_bias_is_a_number(bias):
    given = {"pop_bias": (ub.NeuralStack, ub.NeuralDeque)}
    if bias is not None:
        given |= {"bottom_push_bias": (ub.NeuralDeque,), "bottom_pop_bias": (ub.NeuralDeque,)}
        given |= {
            "push_bias": (ub.NeuralQueue,),
            "shift_bias": (functools.partial(ub.TuringTape, 9),),
        }
    for name, kinds in given.items():
        for kind in kinds:
            with pytest.raises(ConfigError, match=f"{name}: expected a finite number, got"):
                kind(3, **{name: bias})
    with pytest.raises(ConfigError, match="shift_bias: has no effect with shift_range 0"):
        ub.TuringTape(9, 3, shift_range=0, shift_bias=2.0)
