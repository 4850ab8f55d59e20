"""The public names and their parameters; a change here is a change for users (CHANGELOG.md)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import unbounded

#: Each public name of `unbounded` with its parameters, in their order.
PUBLIC = {
    "ControllerRNN": (
        "input_size hidden_size controller batch_first device dtype learn_initial_state backend"
    ),
    "DNC": "slots width read_heads links",
    "DeepLSTM": (
        "input_size hidden_size num_layers skip_input batch_first device dtype "
        "learn_initial_state second_bias backend"
    ),
    "DeltaNet": (
        "input_size hidden_size num_layers num_heads feed_forward_size conv_size "
        "negative_eigenvalues dropout batch_first device dtype backend"
    ),
    "DeltaProduct": (
        "input_size hidden_size householder_steps num_layers num_heads feed_forward_size "
        "conv_size negative_eigenvalues dropout batch_first device dtype backend"
    ),
    "ElmanController": "input_size hidden_size activation recurrent bias device dtype second_bias",
    "GRUController": "input_size hidden_size bias device dtype",
    "LSTMController": "input_size hidden_size bias device dtype forget_bias second_bias",
    "LieAccessMemory": (
        "width group weighting step variant key_size key_gate action_gate write_gate_bias "
        "read_key_gate_bias strength_bias gates initial capacity drop value_activation temperature "
        "read_heads write_heads"
    ),
    "MemoryAttention": "d_model memory batch_first device dtype backend",
    "MemoryRNN": (
        "input_size hidden_size memory controller output_size batch_first backend device "
        "dtype learn_initial_state num_layers dropout bidirectional bias output_read_vector"
    ),
    "MemoryRNNState": "hidden cell read_vector memory",
    "NeuralDeque": "width pop_bias bottom_push_bias bottom_pop_bias",
    "NeuralQueue": "width pop_bias push_bias",
    "NeuralStack": "width pop_bias push_bias",
    "NondeterministicStack": "states symbols width window normalized",
    "RandomAccessMemory": "width key_size tape sharpening initial strength_bias",
    "RollingTape": "slots width tapes variant activation",
    "SRCN": (
        "input_size hidden_size context_size alpha batch_first device dtype activation bias "
        "learn_initial_state backend"
    ),
    "SuperpositionList": "count depth noop capacity overflow empty width activation",
    "SuperpositionStack": "count depth noop capacity overflow empty width activation",
    "Trace": "memory arrays lengths symbols",
    "Transformer": (
        "input_size hidden_size num_layers num_heads feed_forward_size positions bidirectional "
        "window dropout norm_first memory memory_layers beside_attention batch_first device dtype "
        "backend"
    ),
    "TuringTape": (
        "slots width read_heads write_heads shift shift_range variant activations shift_bias "
        "reads initial_cells initial_weights writes_first"
    ),
    "detach_state": "state",
    "explore": "source task",
    "index_state": "state rows",
    "load_trace": "path",
    "move_state": "state device dtype",
    "save_trace": "path trace",
    "trim_cells": "state empty",
}
#: The public names of the modules that `unbounded` re-exports from.
NAMES = {
    "unbounded.memories": (
        "ActionValue BACKENDS Constant DNC DNCInstruction DNCState DequeState Drawn FirstOne "
        "Fixed Group Head Initializer Learned LieAccessInstruction LieAccessMemory "
        "LieAccessState LinklessInstruction LinklessState ListCells MEMORIES Memory "
        "NeuralDeque NeuralQueue NeuralStack NondeterministicInstruction NondeterministicStack "
        "NondeterministicState PushPop QueueState RandomAccessInstruction RandomAccessMemory "
        "RandomAccessState RollInstruction RollState RollingTape "
        "StackCells StackState StateField SuperpositionList SuperpositionMemory "
        "SuperpositionStack TapeInstruction TapeState TuringTape TwoEndedPushPop detach_state "
        "index_state move_state portable trim_cells"
    ),
    "unbounded.rnn": (
        "CONTROLLERS Controller ControllerRNN DeepLSTM DeltaNet DeltaProduct ElmanController "
        "GRUController Heads "
        "LSTMController MemoryAttention MemoryLayer MemoryRNN MemoryRNNState SRCN Trace "
        "Transformer load_trace save_trace"
    ),
    "unbounded.models": (
        "MemoryModel SequenceModel certainties discretized draw_sums generate least_saturated "
        "mean_gates sharpen sharpen_units with_room"
    ),
}


def test_public_names_have_their_parameters() -> None:
    names = [name for name in unbounded.__all__ if not name.startswith("__")]
    found = {
        name: " ".join(inspect.signature(getattr(unbounded, name)).parameters) for name in names
    }
    assert found == PUBLIC


@pytest.mark.parametrize("module", NAMES)
def test_names_of_modules(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == NAMES[module].split()


@pytest.mark.parametrize("folder", ["tasks", "evaluation.metric_sets"])
def test_each_public_method_has_or_inherits_a_docstring(folder: str) -> None:
    """Ruff asks for a docstring at each definition everywhere else (D102 in pyproject.toml)."""
    package = importlib.import_module(f"unbounded.{folder}")
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(package.__path__, f"unbounded.{folder}.")
    ]
    classes = [
        kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)
    ]
    found = [
        getattr(kind, name)
        for kind in classes
        if kind.__module__.startswith("unbounded.") and not kind.__name__.startswith("_")
        for name in vars(kind)
        if not name.startswith("_") and inspect.isroutine(getattr(kind, name))
    ]
    # A function that is the default of a dataclass's field is not a method.
    methods = [method for method in found if "<lambda>" not in method.__qualname__]
    assert len(methods) > 20
    assert [method.__qualname__ for method in methods if not inspect.getdoc(method)] == []
