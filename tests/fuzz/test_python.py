"""Any argument of a public function raises only the library's own errors.

Each argument in turn is None, text, a mapping, a number, a class, a wrong dtype or device.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from unbounded import evaluation, extraction, models, tasks, verification
from unbounded.errors import UnboundedError
from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel

pytestmark = pytest.mark.hypothesis

HOSTILE: dict[str, Any] = {
    "None": None,
    "text": "2",
    "no text": "",
    "bytes": b"2",
    "dict": {"a": 1},
    "list": [],
    "list of None": [None],
    "tuple": (1, "x"),
    "set": {1, 2},
    "True": True,
    "float": 1.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "negative": -1,
    "2**70": 2**70,
    "class": dict,
    "module class": torch.nn.Linear,
    "module": torch.nn.Linear(2, 2),
    "function": len,
    "object": object(),
    "complex": 1j,
    "array": np.zeros(2),
    "float64": torch.zeros(2, 3, 3, dtype=torch.float64),
    "float16": torch.zeros(2, 3, 3, dtype=torch.float16),
    "integers": torch.zeros(2, 3, dtype=torch.int32),
    "bools": torch.zeros(2, 3, dtype=torch.bool),
    "no axis": torch.tensor(1.0),
    "meta": torch.zeros(2, 3, 3, device="meta"),
    "integers on meta": torch.zeros(2, dtype=torch.int64, device="meta"),
    "dtype": torch.float32,
}
#: Files that a test must not write.
WRITTEN = ("path",)
#: Functions of the caller, which may raise any error.
CALLED = ("score", "check", "look")
#: Functions that call any model; errors of the model itself are allowed.
ANY_MODEL = ("answers_of", "score_lengths", "stream_loss")


def model() -> MemoryModel:
    torch.manual_seed(0)
    memory = {"name": "superposition_stack", "count": 1, "depth": 1}
    return MemoryModel(inputs=2, outputs=2, hidden_size=3, embedding_size=None, memory=memory)


def layer() -> ub.MemoryRNN:
    return ub.MemoryRNN(3, 4, ub.NeuralStack(2), batch_first=True)


def stream() -> Any:
    return tasks.make_task("anbn", train_lengths="2:4", test_lengths="2:4").with_sequences(2)


def batch() -> tasks.Batch:
    return stream().batch(1, "validation", 0, 2)


X = torch.zeros(2, 3, 3)
TOKENS = torch.zeros(2, 3, dtype=torch.int64)

#: Each function with valid arguments; those that a row leaves out have their default value.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[], dict[str, Any]]]] = {
    "MemoryRNN": (
        ub.MemoryRNN,
        lambda: {
            "input_size": 3, "hidden_size": 4, "memory": ub.NeuralStack(2), "output_size": 2,
            "batch_first": True, "device": "cpu", "dtype": torch.float32,
            "learn_initial_state": True,
        },
    ),
    "MemoryRNN.forward": (
        lambda **options: layer()(**options),
        lambda: {"x": X, "state": layer().initial_state(2), "lengths": [3, 1]},
    ),
    "MemoryRNN.initial_state": (
        lambda batch_size: layer().initial_state(batch_size), lambda: {"batch_size": 2},
    ),
    "MemoryRNN.empty_memory": (
        lambda **options: layer().empty_memory(**options),
        lambda: {"state": layer().initial_state(2), "sequences": torch.tensor([True, False])},
    ),
    "ControllerRNN": (
        ub.ControllerRNN, lambda: {"input_size": 3, "hidden_size": 4, "batch_first": True},
    ),
    "ControllerRNN.forward": (
        lambda **options: ub.ControllerRNN(3, 4, batch_first=True)(**options),
        lambda: {"x": X, "state": ub.ControllerRNN(3, 4).initial_state(2), "lengths": [3, 1]},
    ),
    "DeepLSTM": (
        ub.DeepLSTM,
        lambda: {"input_size": 3, "hidden_size": 4, "num_layers": 2, "batch_first": True},
    ),
    "DeepLSTM.forward": (
        lambda **options: ub.DeepLSTM(3, 4, 2, batch_first=True)(**options),
        lambda: {"x": X, "state": ub.DeepLSTM(3, 4, 2).initial_state(2), "lengths": [3, 1]},
    ),
    "SRCN": (
        ub.SRCN,
        lambda: {
            "input_size": 3, "hidden_size": 4, "context_size": 2, "alpha": 0.5,
            "batch_first": True, "activation": "tanh", "bias": True,
        },
    ),
    "DeltaNet": (
        ub.DeltaNet,
        lambda: {
            "input_size": 3, "hidden_size": 4, "num_layers": 1, "num_heads": 2,
            "feed_forward_size": 5, "conv_size": 2, "negative_eigenvalues": True, "dropout": 0.1,
            "batch_first": True,
        },
    ),
    "DeltaProduct": (
        ub.DeltaProduct,
        lambda: {
            "input_size": 3, "hidden_size": 4, "householder_steps": 3, "num_layers": 1,
            "num_heads": 2, "feed_forward_size": 5, "conv_size": 2, "dropout": 0.1,
            "batch_first": True,
        },
    ),
    "DeltaProduct.forward": (
        lambda **options: ub.DeltaProduct(3, 4, batch_first=True)(**options),
        lambda: {"x": X, "state": ub.DeltaProduct(3, 4).initial_state(2), "lengths": [3, 1]},
    ),
    "MemoryAttention": (
        ub.MemoryAttention,
        lambda: {"d_model": 3, "memory": ub.NeuralStack(4), "batch_first": True},
    ),
    "MemoryAttention.forward": (
        lambda **options: ub.MemoryAttention(3, ub.NeuralStack(4), True)(**options),
        lambda: {"x": X, "state": ub.NeuralStack(4).initial_state(2), "lengths": [3, 1]},
    ),
    "MemoryAttention.initial_state": (
        lambda **options: ub.MemoryAttention(3, ub.NeuralStack(4)).initial_state(**options),
        lambda: {"batch_size": 2, "lengths": [3, 1]},
    ),
    "Transformer": (
        ub.Transformer,
        lambda: {
            "input_size": 3, "hidden_size": 4, "num_layers": 1, "num_heads": 2,
            "feed_forward_size": 5, "positions": "rotary", "window": 2, "dropout": 0.1,
            "memory": ub.NeuralStack(3), "memory_layers": [1], "beside_attention": True,
            "batch_first": True,
        },
    ),
    "Transformer.forward": (
        lambda **options: ub.Transformer(3, 4, batch_first=True)(**options),
        lambda: {"x": X, "state": ub.Transformer(3, 4).initial_state(2), "lengths": [3, 1]},
    ),
    "LSTMController": (ub.LSTMController, lambda: {"input_size": 3, "hidden_size": 4}),
    "GRUController": (ub.GRUController, lambda: {"input_size": 3, "hidden_size": 4}),
    "ElmanController": (ub.ElmanController, lambda: {"input_size": 3, "hidden_size": 4}),
    "NeuralStack": (ub.NeuralStack, lambda: {"width": 2}),
    "NeuralQueue": (ub.NeuralQueue, lambda: {"width": 2}),
    "NeuralDeque": (ub.NeuralDeque, lambda: {"width": 2}),
    "SuperpositionStack": (
        ub.SuperpositionStack,
        lambda: {
            "count": 2, "noop": True, "capacity": 4, "overflow": "drop_bottom", "empty": 0,
            "width": 3, "activation": "tanh",
        },
    ),
    "SuperpositionList": (
        ub.SuperpositionList,
        lambda: {"count": 2, "capacity": 4, "overflow": "drop_ends", "empty": 0},
    ),
    "DNC": (ub.DNC, lambda: {"slots": 5, "width": 2, "read_heads": 2}),
    "RollingTape": (ub.RollingTape, lambda: {"slots": 5, "width": 2}),
    "NondeterministicStack": (
        ub.NondeterministicStack, lambda: {"symbols": 2, "width": 1, "window": 3},
    ),
    "TuringTape": (
        ub.TuringTape, lambda: {"slots": 5, "width": 2, "shift": "zero", "activations": {}},
    ),
    "LieAccessMemory": (
        ub.LieAccessMemory,
        lambda: {
            "width": 2, "weighting": "softmax", "step": "free", "capacity": 3, "drop": 1,
            "temperature": True,
        },
    ),
    "RandomAccessMemory": (
        ub.RandomAccessMemory,
        lambda: {
            "width": 2, "key_size": 2, "tape": True, "sharpening": True, "initial": "learned",
            "strength_bias": 0.0,
        },
    ),
    "unroll": (
        lambda **options: ub.NeuralStack(3).unroll(**options),
        lambda: {
            "instructions": ub.memories.PushPop(X, X[..., 0], X[..., 0]),
            "state": ub.NeuralStack(3).initial_state(2), "backend": "auto",
        },
    ),
    "step": (
        lambda **options: ub.NeuralStack(3).step(**options),
        lambda: {
            "state": ub.NeuralStack(3).initial_state(2),
            "instruction": ub.memories.PushPop(X[:, 0], X[:, 0, 0], X[:, 0, 0]),
        },
    ),
    "initial_state": (
        lambda **options: ub.TuringTape(5, 2).initial_state(**options),
        lambda: {"batch_size": 2, "dtype": torch.float32, "device": "cpu", "learned": {}},
    ),
    "detach_state": (ub.detach_state, lambda: {"state": layer().initial_state(2)}),
    "index_state": (
        lambda state, rows: ub.index_state(state, rows),
        lambda: {"state": layer().initial_state(2), "rows": torch.tensor([1])},
    ),
    "move_state": (
        ub.move_state,
        lambda: {"state": layer().initial_state(2), "device": "cpu", "dtype": torch.float64},
    ),
    "load_trace": (ub.load_trace, lambda: {"path": "no such file"}),
    "save_trace": (
        ub.save_trace,
        lambda: {"path": "no/such/folder", "trace": layer()(X, return_trace=True)[2]},
    ),
    "explore": (ub.explore, lambda: {"source": model()}),
    "generate": (
        models.generate,
        lambda: {
            "model": model(), "prompt": TOKENS, "lengths": [3, 1],
            "output_to_input": torch.arange(2), "end_token": 1, "max_length": 2,
        },
    ),
    "sharpen": (models.sharpen, lambda: {"model": model(), "factor": 2.0}),
    "sharpen_units": (models.sharpen_units, lambda: {"model": model(), "factor": 2.0}),
    "discretized": (models.discretized, lambda: {"model": model()}),
    "with_room": (models.with_room, lambda: {"model": model(), "symbols": 9}),
    "MemoryModel.forward": (
        lambda **options: model()(**options),
        lambda: {"inputs": TOKENS, "state": None, "lengths": torch.tensor([3, 1])},
    ),
    "certainties": (
        models.certainties,
        lambda: {"model": model(), "batch": batch(), "saturated": 0.9, "chunk_steps": 9},
    ),
    "least_saturated": (
        models.least_saturated,
        lambda: {"model": model(), "batch": batch(), "chunk_steps": 9},
    ),
    "mean_gates": (
        models.mean_gates,
        lambda: {"model": model(), "batch": batch(), "chunk_steps": 9},
    ),
    "memory_use": (
        evaluation.memory_use,
        lambda: {
            "model": model(), "task": stream(), "seed": 1,
            "lengths": [tasks.LengthRange(2, 3)], "count": 2,
        },
    ),
    "action_rows": (
        evaluation.action_rows, lambda: {"model": model(), "task": stream(), "symbols": "aab"},
    ),
    "answers_of": (
        evaluation.answers_of,
        lambda: {"model": model(), "task": stream(), "batch": batch()},
    ),
    "answer_to": (
        evaluation.answer_to, lambda: {"model": model(), "task": stream(), "symbols": "ab"},
    ),
    "score_lengths": (
        evaluation.score_lengths,
        lambda: {
            "model": model(), "task": stream(), "lengths": [2, 3], "seed": 1, "chunk_steps": 9,
        },
    ),
    "stream_loss": (
        evaluation.stream_loss,
        lambda: {"model": model(), "batch": batch(), "chunk_steps": 9},
    ),
    "remove_unused": (
        evaluation.remove_unused, lambda: {"model": model(), "score": lambda _: 1.0, "most": 1},
    ),
    "VerifyOptions": (
        verification.VerifyOptions,
        lambda: {"most": 3, "symbols_each": 9, "times": (2,), "count": 1},
    ),
    "findings_of": (
        lambda **options: next(iter(verification.findings_of(**options))),
        lambda: {
            "model": model(), "task": stream(),
            "options": verification.VerifyOptions(most=2, times=(), count=1),
        },
    ),
    "extract": (
        extraction.extract,
        lambda: {
            "model": models.discretized(model()), "task": stream(), "budget": 20, "lengths": (4,),
        },
    ),
    "make_task": (
        tasks.make_task,
        lambda: {"name": "anbn", "train_lengths": "2:4", "test_lengths": "2:4"},
    ),
    "Task.batch": (
        lambda **options: stream().batch(**options),
        lambda: {
            "seed": 1, "split": "test", "start": 0, "size": 2,
            "lengths": tasks.LengthRange(2, 3),
        },
    ),
    "LengthRange": (tasks.LengthRange, lambda: {"minimum": 1, "maximum": 2}),
}  # fmt: skip


def arguments(name: str) -> dict[str, Any]:
    """Valid ones of a function: those of its row, and the others with their default value."""
    function, own = CALLS[name]
    parameters = inspect.signature(function).parameters.values()
    return {
        each.name: each.default for each in parameters if each.default is not each.empty
    } | own()


def outcome(name: str, changes: dict[str, Any]) -> None:
    """Call a function; anything but a result or an error of the library goes through."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CALLS[name][0](**arguments(name) | changes)
        except UnboundedError as error:
            text = str(error)
        else:
            return
    assert len(text) > 10


@pytest.mark.parametrize("name", CALLS)
def test_valid_arguments_are_accepted(name: str) -> None:
    outcome(name, {})


ARGUMENTS = [(name, argument) for name in CALLS for argument in arguments(name)]


@pytest.mark.parametrize(
    ("name", "argument"), ARGUMENTS, ids=[f"{name}-{argument}" for name, argument in ARGUMENTS]
)
def test_each_argument_alone(name: str, argument: str) -> None:
    errors = {}
    for kind, value in HOSTILE.items():
        if argument in WRITTEN and isinstance(value, str | bytes):
            continue
        if argument in CALLED and callable(value):
            continue
        if argument == "model" and kind == "module" and name in ANY_MODEL:
            continue
        try:
            outcome(name, {argument: copy.copy(value)})
        except Exception as error:  # all of them, to be shown together
            errors[kind] = f"{type(error).__name__}: {error}"[:200]
    assert not errors, "\n".join(f"{kind}: {text}" for kind, text in errors.items())


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_many_arguments_at_once(data: st.DataObject) -> None:
    several_arguments_at_once(data)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_several_arguments_at_once(data: st.DataObject) -> None:
    several_arguments_at_once(data)


def several_arguments_at_once(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CALLS)))
    foreign = (*WRITTEN, *CALLED, *(("model",) if name in ANY_MODEL else ()))
    names = [each for each in arguments(name) if each not in foreign]
    if not names:
        return
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    outcome(name, {each: HOSTILE[data.draw(st.sampled_from(sorted(HOSTILE)))] for each in chosen})


def test_the_public_names_are_in_the_table() -> None:
    called = {name.partition(".")[0] for name in CALLS}
    public = {name for name in ub.__all__ if callable(getattr(ub, name))}
    without_arguments = {"MemoryRNNState", "Trace", "trim_cells"}
    assert public - without_arguments <= called


@pytest.mark.parametrize("name", MEMORIES)
def test_every_option_of_every_memory(name: str) -> None:
    make: Any = MEMORIES[name]
    size = 4
    errors = []
    for option in list(inspect.signature(make).parameters)[1:]:
        for kind, value in HOSTILE.items():
            try:
                memory = make(size, **{option: value})
                ub.MemoryRNN(3, 4, memory)
            except UnboundedError:
                pass
            except Exception as error:
                errors.append(f"{option} {kind}: {type(error).__name__}: {error}"[:200])
    assert not errors, "\n".join(errors)


def test_foreign_errors_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CALLS, "wrong", (lambda x: x + 1, lambda: {"x": "1"}))
    with pytest.raises(TypeError):
        outcome("wrong", {})
