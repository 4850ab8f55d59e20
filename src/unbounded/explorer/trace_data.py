"""Traces of a run for a page that does not run the network: of texts, and of blocks."""

from __future__ import annotations

import json
from typing import Any

import torch

from unbounded.errors import ConfigError
from unbounded.explorer.task_data import samples_of
from unbounded.memories.as_data import memory_data
from unbounded.models.memory_model import MemoryModel
from unbounded.models.run_trace import output_names, run_trace
from unbounded.rnn import MemoryAttention
from unbounded.rnn.blocks import BlockNetwork
from unbounded.rnn.trace import RunTrace, trace_text
from unbounded.tasks import Batch, LengthRange, Task, TextTask

#: Number of traced parts of a text, and words per part.
_PARTS, _WORDS = 4, 60


def has_only_traces(model: MemoryModel, task: Task) -> bool:
    """Whether a page shows traces, because it cannot run the network."""
    return isinstance(task, TextTask) or any(
        isinstance(part, MemoryAttention | BlockNetwork) for part in model.modules()
    )


def traced_run(
    model: MemoryModel,
    task: Task,
    name: str,
    title: str,
    seed: int,
    lengths: LengthRange,
    count: int,
) -> dict[str, Any]:
    """The data to replay a model's memory on samples, or on the start of a text.

    Args:
        model: a model with a memory, a Transformer, a DeltaNet or a DeltaProduct.
        task: its task.
        name, title: name and title in the page.
        seed, lengths, count: of the samples; for a text they have no effect.
    Raises:
        ConfigError: the page does not support the model's memory, or it has none.
    """
    layer = model.sequence.layer
    if isinstance(task, TextTask):
        batches = _parts(task)
        note = (
            "Traces of the first words of the test split; the network itself, with its "
            f"{len(task.input_vocabulary)} words, is not in the page."
        )
    else:
        batches = [_batch_of(sample) for sample in samples_of(task, seed, lengths, count)]
        note = (
            "Traces of samples of the test split; the network itself, "
            f"{type(layer).__name__}, is not in the page."
        )
    traces = _traces(model, task, batches)
    inputs = list(dict.fromkeys(symbol for trace in traces for symbol in trace.symbols))
    if traces[0].distribution is None:
        texts = (text for trace in traces for text in (*trace.predicted, *trace.target))
        outputs = list(dict.fromkeys(text for text in texts if text is not None))
    else:
        outputs = output_names(task)
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
        "note": note,
        "task": {
            "name": task.name,
            "layout": "stream",
            # The outputs of bits are texts here, such as 0110.
            "objective": "cross_entropy" if task.objective == "bits" else task.objective,
            "inputs": inputs,
            "outputs": outputs,
            "before": [],
            "after": [],
            "source": [0, len(inputs)],
            "end_token": None,
            "output_to_input": None,
            "answer_token": None,
            "lengths": [1, max(len(trace.symbols) for trace in traces)],
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
            "controller": {
                "kind": type(layer).__name__ if isinstance(layer, BlockNetwork) else "",
                "activation": "",
                "layers": 1,
                "skip_input": False,
            },
            "memory": memory_data(traces[0].memory),
        },
        "weights": None,
        "traces": [json.loads(trace_text(trace)) for trace in traces],
        "samples": samples,
        "curves": [],
    }


def _batch_of(sample: dict[str, Any]) -> Batch:
    """A sample of a page as a batch."""
    inputs, targets, mask = (torch.tensor([sample[n]]) for n in ("inputs", "targets", "mask"))
    return Batch(inputs, targets, mask.bool(), torch.tensor([inputs.shape[1]]))


def _parts(task: TextTask) -> list[Batch]:
    """Consecutive parts of the test split."""
    whole = task.batch(0, "test", 0, 1)
    batches = []
    for start in range(0, min(_PARTS * _WORDS, whole.inputs.shape[1]), _WORDS):
        part = slice(start, start + _WORDS)
        inputs, targets, mask = (field[:, part] for field in whole[:3])
        lengths = whole.lengths.clamp(max=inputs.shape[1])
        batches.append(Batch(inputs, targets, mask, lengths))
    return batches


def _traces(model: MemoryModel, task: Task, batches: list[Batch]) -> list[RunTrace]:
    """Traces of the first example of each batch, each starting with an empty memory."""
    traces = []
    for batch in batches:
        trace = run_trace(model, task, batch, detailed=True)
        if trace is None:
            raise ConfigError(
                "model: expected a memory, attention or the delta rule, of which to show traces, "
                f"got a {type(model.sequence.layer).__name__} without them"
            )
        traces.append(trace)
    return traces
