from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import unbounded as ub
from unbounded.rnn.recurrence import Recorder

FIGURE_1A = {"push": [0.8, 0.5, 0.9], "pop": [0.0, 0.1, 0.9]}


def work(memory: Any, steps: list[Any]) -> dict[str, torch.Tensor]:
    """Apply instructions one by one and record them."""
    state = memory.initial_state(steps[0][0].shape[0], dtype=torch.float64)
    recorder = Recorder(memory)
    for instruction in steps:
        read_vector, state = memory.step(state, instruction)
        recorder.record(instruction, read_vector, state)
    return recorder.arrays()


@pytest.fixture
def figure1a_trace() -> ub.Trace:
    memory = ub.NeuralStack(width=3)
    steps = [
        memory.Instruction(
            torch.eye(3, dtype=torch.float64)[t].unsqueeze(0),
            torch.tensor([FIGURE_1A["push"][t]], dtype=torch.float64),
            torch.tensor([FIGURE_1A["pop"][t]], dtype=torch.float64),
        )
        for t in range(3)
    ]
    return ub.Trace("NeuralStack", work(memory, steps), torch.tensor([3]), [["v1", "v2", "v3"]])


@pytest.fixture
def layer_trace() -> Callable[..., ub.Trace]:
    """Traces of an untrained layer: (memory, lengths, symbols?) -> trace."""

    def make(memory: Any, lengths: list[int], symbols: bool = True) -> ub.Trace:
        torch.manual_seed(0)
        layer = ub.MemoryRNN(5, 8, memory, batch_first=True)
        inputs = torch.randn(len(lengths), max(lengths), 5)
        trace = layer(inputs, lengths=torch.tensor(lengths), return_trace=True)[2]
        if symbols:
            words = [[f"w{b}_{t}" for t in range(max(lengths))] for b in range(len(lengths))]
            trace = trace._replace(symbols=words)
        return trace

    return make
