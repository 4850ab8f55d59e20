"""Messages of errors of Python calls; tests/fuzz/test_python.py has the kinds of values."""

from __future__ import annotations

import re

import pytest
import torch

import unbounded as ub
from unbounded import extraction, tasks, verification
from unbounded.checks import number_errors
from unbounded.errors import ConfigError, DeviceError, DTypeError, ShapeError
from unbounded.memories.core import index_state, move_state
from unbounded.models import discretized, sharpen

META = torch.zeros(2, dtype=torch.int64, device="meta")
PAIR = (torch.zeros(1, 2, 4), torch.zeros(1, 2, 4))


def layer(**options):
    return ub.MemoryRNN(3, 4, ub.NeuralStack(2), **options)


def state():
    return ub.NeuralStack(2).initial_state(2)


CALLS = {
    "lengths on meta": (
        lambda: layer()(torch.zeros(3, 2, 3), lengths=META), DeviceError,
        "lengths: expected a tensor with values, got one on the meta device. Give a list, or a "
        "tensor on cpu.",
    ),
    "a pair for a state": (
        lambda: layer()(torch.zeros(3, 2, 3), PAIR), ShapeError,
        "state: expected a MemoryRNNState, got a pair (h0, c0), which has no memory. Give "
        "layer.initial_state(B)._replace(hidden=h0, cell=c0).",
    ),
    "a mapping's class for a controller": (
        lambda: layer(controller=dict), DTypeError,
        "controller: expected a callable that makes an unbounded.rnn.Controller, got the class "
        "dict. By name: lstm, gru, elman.",
    ),
    "a size of 2**70": (
        lambda: ub.MemoryRNN(2**70, 4, ub.NeuralStack(2)), ShapeError,
        f"input_size: expected an integer of at most 2147483647, got {2**70}.",
    ),
    "a factor of text": (
        lambda: sharpen(torch.nn.Linear(2, 2), "2"), ConfigError,
        "factor: expected a finite number above 0, got '2'",
    ),
    "no model": (
        lambda: discretized(None), DTypeError,
        "model: expected a torch.nn.Module, got NoneType.",
    ),
    "the class of a model": (
        lambda: discretized(torch.nn.Linear), DTypeError,
        "model: expected a model, got the class Linear. Create one: Linear(...).",
    ),
    "times that are a number": (
        lambda: verification.VerifyOptions(times=3), ConfigError,
        "times: expected a tuple of numbers, such as (2, 4), got 3",
    ),
    "a time of text": (
        lambda: verification.VerifyOptions(times=("3",)), ConfigError,
        "times: expected numbers above 0, at most 10000, got '3'",
    ),
    "no task": (
        lambda: extraction.extract(torch.nn.Linear(2, 2), None), DTypeError,
        "task: expected a Task, got NoneType. Make one with unbounded.tasks.make_task('copy').",
    ),
    "no batch": (
        lambda: ub.models.certainties(torch.nn.Linear(2, 2), None), DTypeError,
        "batch: expected a Batch, got NoneType. task.batch(seed, 'test', 0, 10) makes one.",
    ),
    "lengths that are a number": (
        lambda: extraction.extract(torch.nn.Linear(2, 2), tasks.make_task("anbn"), lengths=3),
        DTypeError, "lengths: expected a list of int, got int.",
    ),
    "no function": (
        lambda: extraction.extract(torch.nn.Linear(2, 2), tasks.make_task("anbn"), look=None),
        DTypeError, "look: expected a function, got NoneType.",
    ),
    "no path": (
        lambda: ub.load_trace(None), DTypeError,
        "path: expected a path, got NoneType. Give a str or Path.",
    ),
    "a device of text": (
        lambda: layer(device="gpu3"), DeviceError,
        "device: expected a device such as 'cpu' or 'cuda', got 'gpu3'.",
    ),
    "a source of a page": (
        lambda: ub.explore(3), DTypeError,
        "source: expected a run's folder or name, a RunResult, a MemoryModel or None, got int.",
    ),
    "a task with a run": (
        lambda: ub.explore("runs/a", tasks.make_task("anbn")), DTypeError,
        "task: expected None together with str, got a task.",
    ),
    "a choice that is no text": (
        lambda: layer(backend=torch.zeros(2)), ub.errors.ChoiceError, "unknown backend tensor(",
    ),
    "rows that are not there": (
        lambda: index_state(layer().initial_state(2), torch.tensor([5])), ShapeError,
        "rows: expected sequences of 2, got tensor([5])",
    ),
    "a state on meta": (
        lambda: move_state(move_state(state(), "meta"), "cpu"), DeviceError,
        "state: expected tensors with values, got one on the meta device, for cpu.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_each_wrong_call_raises_its_error(name):
    call, error, text = CALLS[name]
    with pytest.raises(error, match=re.escape(text)):
        call()


def test_a_pair_of_lstm_states_is_accepted_as_the_error_message_advises():
    hidden, cell = PAIR
    state = layer().initial_state(2)._replace(hidden=hidden, cell=cell)
    layer()(torch.zeros(3, 2, 3), state)


def test_bounds_of_a_number():
    assert number_errors("factor", 2, above=1) == []
    for value in ("2", None, True, 1, float("nan"), float("inf"), 2**200):
        (fault,) = number_errors("factor", value, above=1)
        assert fault == f"factor: expected a finite number above 1, got {value!r}"
    (fault,) = number_errors("times", 11, above=0, at_most=10)
    assert fault == "times: expected a finite number above 0, at most 10, got 11"


@pytest.mark.parametrize("source", [(), (None,)])
def test_explore_without_a_run_shows_the_built_in_models(source):
    page = ub.explore(*source)
    assert [run["title"] for run in page.runs][:1] == ["Copy with a queue, trained"]
    assert "Copy with a queue, set by hand" in page.picture
    assert "<iframe" in page._repr_html_()
