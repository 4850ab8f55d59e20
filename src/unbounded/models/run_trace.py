"""A model's run on one example, as a trace for figures, pages and exports."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.models.memory_model import MemoryModel
from unbounded.rnn import MemoryRNN
from unbounded.rnn.read_only import trace_phases
from unbounded.rnn.trace import RunTrace
from unbounded.tasks import Batch, Task
from unbounded.tasks.bit_tasks import BitTask


def run_trace(model: MemoryModel, task: Task, batch: Batch) -> RunTrace | None:
    """Record inputs, predictions and instructions of a model on an example; None without a memory.

    Args:
        model: in any mode, on any device.
        task: names the symbols and gives the targets.
        batch: its first example is traced. Each step gets the example's input, also where a
            generating model would be fed its own prediction.
    """
    layer = model.sequence.layer
    if not isinstance(layer, MemoryRNN):
        return None
    steps = int(batch.lengths[0])
    tokens, targets, mask = (part[0, :steps] for part in batch[:3])
    device = next(model.parameters()).device
    inputs, token = tokens.unsqueeze(0).to(device), model.sequence.read_only_token
    with torch.no_grad():
        embedded = model.sequence.embed(inputs)
        state = model.sequence.started(inputs)
        if token is None:
            hidden, _, trace = layer(embedded, state, return_trace=True)
        else:
            hidden, trace = trace_phases(layer, embedded, inputs == token)
        predicted, probability = _predictions(task, model.sequence.logits(hidden)[0].cpu())
        initial = (layer.initial_state(1) if state is None else state).memory
    names = [_named(task, number) for number in range(_outputs(task))]
    heights = task.heights(tokens.unsqueeze(0))
    fields = zip(layer.memory.state_fields, initial, strict=True)
    triples = list(zip(predicted.tolist(), targets.tolist(), mask.tolist(), strict=True))
    return RunTrace(
        task=task.name,
        objective=task.objective,
        symbols=[task.input_vocabulary[number] for number in tokens.tolist()],
        predicted=[names[number] for number in predicted.tolist()],
        probability=probability.tolist(),
        target=[names[target] if counts else None for _, target, counts in triples],
        correct=[number == target if counts else None for number, target, counts in triples],
        memory=layer.memory,
        initial={field.name: tensor[0].cpu() for field, tensor in fields},
        instructions={
            head.name: trace.arrays[f"instruction.{head.name}"][0].cpu()
            for head in layer.memory.heads
        },
        heights=None if heights is None else heights[0].tolist(),
    )


def _predictions(task: Task, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The predictions from logits [T, V], int64 [T], and their probabilities (of yes if binary)."""
    if task.objective == "binary":
        probabilities = torch.sigmoid(logits[:, 0])
        return (logits[:, 0] > 0).long(), probabilities
    if task.objective == "bits":
        places = torch.arange(logits.shape[-1])
        predicted = ((logits > 0).long() << places).sum(dim=-1)
        return predicted, torch.sigmoid(logits.abs()).prod(dim=-1)
    probabilities, predicted = torch.softmax(logits, dim=-1).max(dim=-1)
    return predicted, probabilities


def _outputs(task: Task) -> int:
    """Number of different outputs."""
    if task.objective == "binary":
        return 2
    size = len(task.output_vocabulary)
    return int(2**size) if task.objective == "bits" else size


def _named(task: Task, number: int) -> str:
    if task.objective == "binary":
        return ("no", "yes")[number]
    if isinstance(task, BitTask):
        return "end" if task.ends and number >= task.flag else task.symbol(number)
    return task.output_vocabulary[number]
