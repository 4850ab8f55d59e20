"""Every message names the argument, the expected value and the actual one."""

from __future__ import annotations

import itertools

import pytest
import torch

import unbounded as ub
from tests.memories.common import instructions
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError


def with_field(**changes):
    memory = ub.NeuralStack(3)
    return memory, instructions(memory, 2, 4)._replace(**changes)


def test_a_field_of_the_wrong_shape():
    memory, bad = with_field(push=torch.zeros(2, 4, 1, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"push: expected shape \[2, 4\], got \[2, 4, 1\]"):
        memory.unroll(bad)


def test_a_value_of_the_wrong_width():
    memory, bad = with_field(value=torch.zeros(2, 4, 5, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"value: expected shape \[B, T, 3\], got \[2, 4, 5\]"):
        memory.unroll(bad)


def test_a_field_of_another_dtype():
    memory, bad = with_field(pop=torch.zeros(2, 4))
    with pytest.raises(DTypeError, match=r"pop: expected dtype torch.float64 as value has"):
        memory.unroll(bad)


def test_no_time_step():
    memory, good = with_field()
    with pytest.raises(ShapeError, match="at least one time step"):
        memory.unroll(memory.Instruction(*(field[:, :0] for field in good)))


def test_a_state_of_another_batch_size():
    memory, good = with_field()
    state = memory.initial_state(3, dtype=torch.float64)
    with pytest.raises(ShapeError, match=r"state.values: expected shape \[2, N, 3\], got"):
        memory.unroll(good, state)


def test_a_state_of_another_kind():
    memory, good = with_field()
    with pytest.raises(ShapeError, match="state: expected a StackState of NeuralStack, got tuple"):
        memory.unroll(good, (torch.zeros(2, 0, 3), torch.zeros(2, 0)))


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


def test_a_state_whose_fields_disagree():
    memory, good = with_field()
    values, strengths = torch.zeros(2, 3, 3).double(), torch.zeros(2, 2).double()
    state = memory.State(values, strengths)
    with pytest.raises(ShapeError, match="values has 3, strengths has 2"):
        memory.unroll(good, state)


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
    """Item 14."""
    with pytest.raises(ConfigError, match="pop_bias: expected a finite number, got"):
        ub.NeuralStack(3, pop_bias=bias)
    with pytest.raises(ConfigError, match="pop_bias: expected a finite number, got"):
        ub.NeuralDeque(3, pop_bias=bias)
    if bias is not None:
        with pytest.raises(ConfigError, match="bottom_push_bias: expected a finite number"):
            ub.NeuralDeque(3, bottom_push_bias=bias)
        with pytest.raises(ConfigError, match="bottom_pop_bias: expected a finite number"):
            ub.NeuralDeque(3, bottom_pop_bias=bias)
        with pytest.raises(ConfigError, match="push_bias: expected a finite number"):
            ub.NeuralQueue(3, push_bias=bias)
        with pytest.raises(ConfigError, match="shift_bias: expected a finite number"):
            ub.TuringTape(9, 3, shift_bias=bias)
    with pytest.raises(ConfigError, match="shift_bias: has no effect with shift_range 0"):
        ub.TuringTape(9, 3, shift_range=0, shift_bias=2.0)
