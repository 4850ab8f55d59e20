"""A run on a text as traces alone, for a page: its words are too many for the weights."""

from __future__ import annotations

import json
from typing import Any

from unbounded.errors import ConfigError
from unbounded.layers.trace_json import RunTrace, trace_text
from unbounded.memories.as_data import memory_data
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import run_trace
from unbounded.tasks import TextTask

#: Words of a text that are traced, in parts of so many.
_PARTS, _WORDS = 4, 60


def traced_run(model: MemoryModel, task: TextTask, name: str, title: str) -> dict[str, Any]:
    """What a page needs to replay a model on the beginning of a text, as plain data.

    Args:
        model: with a memory. task: a text. name, title: as the page shows them.
    Raises:
        ConfigError: the model has no memory that the page knows.
    """
    traces = _traces(model, task)
    inputs = list(dict.fromkeys(symbol for trace in traces for symbol in trace.symbols))
    said = [
        *(word for trace in traces for word in (*trace.said, *trace.wanted) if word is not None)
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
            "outputs": list(dict.fromkeys(said)),
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
            "outputs": len(said),
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
    """Traces of consecutive parts of the test split, each from an empty memory."""
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
            raise ConfigError(["model: it has no memory, of which a trace could be shown"])
        traces.append(trace)
    return traces
