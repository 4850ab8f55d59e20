from __future__ import annotations

import numpy as np
import pytest
import torch

import unbounded as ub
from unbounded.errors import ConfigError
from unbounded.figures.traces import has_strengths, read_sequence


def test_figure_1a_to_the_last_digit(figure1a_trace):
    sequence = read_sequence(figure1a_trace)
    strengths = [[0.8, 0, 0], [0.7, 0.5, 0], [0.3, 0, 0.9]]
    weights = [[0.8, 0, 0], [0.5, 0.5, 0], [0.1, 0, 0.9]]
    np.testing.assert_allclose(sequence.strengths, strengths, atol=1e-15)
    np.testing.assert_allclose(sequence.read_weights[""], weights, atol=1e-15)
    assert sequence.symbols == ("v1", "v2", "v3")


def test_a_sequence_is_cut_to_its_length_and_rows(layer_trace):
    trace = layer_trace(ub.NeuralQueue(width=4), [6, 4])
    sequence = read_sequence(trace, example=1)
    assert sequence.strengths.shape == (4, 4)
    assert sequence.instruction["push"].shape == (4,)
    assert sequence.symbols == ("w1_0", "w1_1", "w1_2", "w1_3")
    # Row i is pushed at step i: on the diagonal the strength is the push strength.
    np.testing.assert_array_equal(np.diag(sequence.strengths), sequence.instruction["push"])


def test_rows_of_a_deque_have_their_steps(layer_trace):
    trace = layer_trace(ub.NeuralDeque(width=4), [6, 4])
    sequence = read_sequence(trace, example=1)
    assert sequence.row_steps.tolist() == [3, 2, 1, 0, 0, 1, 2, 3]
    for step in range(4):
        bottom, top = 3 - step, 4 + step
        assert sequence.strengths[step, bottom] == sequence.instruction["bottom_push"][step]
        assert sequence.strengths[step, top] == sequence.instruction["top_push"][step]
    assert set(sequence.read_weights) == {"top", "bottom"}


def test_without_symbols_steps_are_numbered(layer_trace):
    trace = layer_trace(ub.NeuralStack(width=4), [3], symbols=False)
    assert read_sequence(trace).symbols == ("1", "2", "3")


def test_an_example_outside_the_batch(layer_trace):
    trace = layer_trace(ub.NeuralStack(width=4), [3, 2])
    with pytest.raises(ConfigError, match="example: expected 0 to 1, got 2"):
        read_sequence(trace, example=2)


def test_a_memory_without_strengths():
    trace = ub.Trace("Tape", {"read_vector": torch.zeros(1, 2, 3)}, torch.tensor([2]))
    with pytest.raises(ConfigError, match="expected strengths and read weights, got a trace of T"):
        read_sequence(trace)


def test_rows_from_before_the_first_step():
    rows = torch.zeros(1, 2, 5)
    arrays = {"strengths": rows, "read_weights": rows.clone()}
    with pytest.raises(ConfigError, match=r"expected 2 rows for 2 steps, .* got 5"):
        read_sequence(ub.Trace("NeuralStack", arrays, torch.tensor([2])))


def test_strengths_alone_are_no_read_rows(layer_trace):
    trace = layer_trace(ub.NeuralStack(width=4), [3])
    assert has_strengths(trace)
    arrays = {name: array for name, array in trace.arrays.items() if name != "read_weights"}
    assert not has_strengths(trace._replace(arrays=arrays))
