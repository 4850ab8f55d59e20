"""Controllers, heads and memories over time, as modules that fit into any model."""

from unbounded.rnn.baselines import SRCN, ControllerRNN, DeepLSTM
from unbounded.rnn.controllers import (
    CONTROLLERS,
    Controller,
    ElmanController,
    GRUController,
    LSTMController,
)
from unbounded.rnn.deltanet import DeltaNet, DeltaProduct
from unbounded.rnn.heads import Heads
from unbounded.rnn.memory_attention import MemoryAttention
from unbounded.rnn.memory_layer import MemoryLayer
from unbounded.rnn.memory_rnn import MemoryRNN
from unbounded.rnn.state import MemoryRNNState
from unbounded.rnn.trace import Trace, load_trace, save_trace
from unbounded.rnn.transformer import Transformer

__all__ = [
    "CONTROLLERS",
    "SRCN",
    "Controller",
    "ControllerRNN",
    "DeepLSTM",
    "DeltaNet",
    "DeltaProduct",
    "ElmanController",
    "GRUController",
    "Heads",
    "LSTMController",
    "MemoryAttention",
    "MemoryLayer",
    "MemoryRNN",
    "MemoryRNNState",
    "Trace",
    "Transformer",
    "load_trace",
    "save_trace",
]
