"""Traces of a run on a text for a page, whose vocabulary is too large to include the weights."""

from __future__ import annotations

import json
from typing import Any

from unbounded.errors import ConfigError
from unbounded.memories.as_data import memory_data
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.rnn.trace import RunTrace, trace_text
from unbounded.tasks import TextTask

#: Number of traced parts of a text, and words per part.
_PARTS, _WORDS = 4, 60


def traced_run(model: MemoryModel, task: TextTask, name: str, title: str) -> dict[str, Any]:
    """The data to replay a model on the start of a text.

    Args:
        model: a model with a memory.
        task: a text task.
        name, title: name and title in the page.
    Raises:
        ConfigError: the page does not support the model's memory.
    """
    traces = _traces(model, task)
    inputs = list(dict.fromkeys(symbol for trace in traces for symbol in trace.symbols))
    outputs = [
        symbol
        for trace in traces
        for symbol in (*trace.predicted, *trace.target)
        if symbol is not None
    ]
    places = {symbol: place for place, symbol in enumerate(inputs)}
    samples = [
        {
            "inputs": [places[symbol] for symbol in trace.symbols],
            "targets": [],
            "mask": [],
            "prompt": len(trace.symbols),
        }
        for trace in traces
    ]
    return {
        "name": name,
        "title": title,
        "note": (
            "Traces of the first words of the test split; the network itself, with its "
            f"{len(task.input_vocabulary)} words, is not in the page."
        ),
        "task": {
            "name": task.name,
            "layout": "stream",
            "objective": "cross_entropy",
            "inputs": inputs,
            "outputs": list(dict.fromkeys(outputs)),
            "before": [],
            "after": [],
            "source": [0, len(inputs)],
            "end_token": None,
            "output_to_input": None,
            "answer_token": None,
            "lengths": [1, _WORDS],
            "typed": False,
            "rule": None,
            "no_rule": "",
        },
        "model": {
            "inputs": len(inputs),
            "outputs": len(outputs),
            "input": "one_hot",
            "input_bits": 0,
            "read_only_token": None,
            "controller": {"kind": "", "activation": "", "layers": 1, "skip_input": False},
            "memory": memory_data(traces[0].memory),
        },
        "weights": None,
        "traces": [json.loads(trace_text(trace)) for trace in traces],
        "samples": samples,
        "curves": [],
    }


def _traces(model: MemoryModel, task: TextTask) -> list[RunTrace]:
    """Traces of consecutive parts of the test split, each starting with an empty memory."""
    whole = task.batch(0, "test", 0, 1)
    traces = []
    for start in range(0, min(_PARTS * _WORDS, whole.inputs.shape[1]), _WORDS):
        part = slice(start, start + _WORDS)
        inputs, targets, mask = (field[:, part] for field in whole[:3])
        lengths = whole.lengths.clamp(max=inputs.shape[1])
        trace = run_trace(
            model, task, whole._replace(inputs=inputs, targets=targets, mask=mask, lengths=lengths)
        )
        if trace is None:
            raise ConfigError(["model: expected a memory, of which to show traces, got none"])
        traces.append(trace)
    return traces
