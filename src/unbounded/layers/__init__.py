"""Controller, heads and memory over time: modules to drop into any model."""

from unbounded.layers.baselines import SRCN, ControllerRNN, DeepLSTM
from unbounded.layers.controllers import (
    CONTROLLERS,
    Controller,
    ElmanController,
    GRUController,
    LSTMController,
)
from unbounded.layers.heads import Heads
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.state import MemoryRNNState
from unbounded.layers.trace import Trace, load_trace, save_trace

__all__ = [
    "CONTROLLERS",
    "SRCN",
    "Controller",
    "ControllerRNN",
    "DeepLSTM",
    "ElmanController",
    "GRUController",
    "Heads",
    "LSTMController",
    "MemoryRNN",
    "MemoryRNNState",
    "Trace",
    "load_trace",
    "save_trace",
]
