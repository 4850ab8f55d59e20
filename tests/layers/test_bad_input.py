"""Bad input to the layers: the argument, the want and the got."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from unbounded.errors import ChoiceError, DTypeError, ShapeError


def layer(**options):
    return ub.MemoryRNN(3, 5, ub.NeuralStack(4), **options)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(4, 2, 7), ShapeError, r"x: expected shape \[T, B, 3\], got \[4, 2, 7\]"),
        (torch.zeros(4, 7), ShapeError, r"x: expected shape \[T, 3\], got \[4, 7\]"),
        (torch.zeros(4), ShapeError, r"x: expected shape"),
        (torch.zeros(0, 2, 3), ShapeError, "at least one step"),
        (torch.zeros(4, 2, 3).double(), DTypeError, "x: expected dtype torch.float32"),
        (torch.zeros(4, 2, 3).long(), DTypeError, "x: expected dtype float32 or float64"),
    ],
)
def test_inputs(x, error, message):
    with pytest.raises(error, match=message):
        layer()(x)


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        (torch.tensor([4, 5]), ShapeError, r"lengths: expected 0..4 .*got \[4, 5\]"),
        (torch.tensor([-1, 2]), ShapeError, "lengths: expected 0..4"),
        (torch.tensor([4, 4, 4]), ShapeError, r"lengths: expected shape \[2\], got \[3\]"),
        (torch.tensor([4.0, 4.0]), DTypeError, "lengths: expected dtype int64"),
    ],
)
def test_lengths(lengths, error, message):
    with pytest.raises(error, match=message):
        layer()(torch.zeros(4, 2, 3), lengths=lengths)


def test_states():
    model = layer()
    x = torch.zeros(4, 2, 3)
    state = model.initial_state(2)
    with pytest.raises(ShapeError, match="expected a MemoryRNNState"):
        model(x, (torch.zeros(2, 5), torch.zeros(2, 5)))
    with pytest.raises(ShapeError, match=r"state.controller\[0\]: expected shape \[2, 5\]"):
        model(x, model.initial_state(3))
    with pytest.raises(ShapeError, match=r"state.controller: expected 2 tensor\(s\), got 1"):
        model(x, state._replace(controller=state.controller[:1]))
    with pytest.raises(DTypeError, match=r"state.reading: expected dtype torch.float32"):
        model(x, state._replace(reading=state.reading.double()))


def test_choices_and_sizes():
    with pytest.raises(ChoiceError, match=r"unknown controller 'lstn'\. Did you mean 'lstm'"):
        layer(controller="lstn")
    with pytest.raises(ChoiceError, match="unknown backend"):
        layer(backend="gpu")
    with pytest.raises(ChoiceError, match="unknown memory"):
        ub.MemoryRNN(3, 5, "stack")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="output_size: expected an integer >= 1, got 0"):
        layer(output_size=0)
    with pytest.raises(ChoiceError, match=r"unknown head 'pup'\. Did you mean 'pop'"):
        layer().heads.rows("pup")
    with pytest.raises(ChoiceError, match="unknown activation"):
        ub.ElmanController(3, 5, activation="sin")
