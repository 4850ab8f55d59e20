"""A model at work on one example, as a trace that figures, pages and exports read."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.layers import MemoryRNN
from unbounded.layers.read_only import trace_phases
from unbounded.layers.trace_json import RunTrace
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Batch, Task
from unbounded.tasks.bit_vectors import BitTask


def run_trace(model: MemoryModel, task: Task, batch: Batch) -> RunTrace | None:
    """What a model reads, says and tells its memory on an example; None without a memory.

    Args:
        model: in any mode, on any device.
        task: names the symbols, and says what is right.
        batch: of which the first example is traced. Each step reads what the example says, also
            where a model that generates would be fed what it said itself.
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
        if token is None:
            hidden, _, trace = layer(embedded, return_trace=True)
        else:
            hidden, trace = trace_phases(layer, embedded, inputs == token)
        said, probability = _sayings(task, model.sequence.logits(hidden)[0].cpu())
        begin = layer.initial_loop_state(1).memory
    names = [_named(task, number) for number in range(_outputs(task))]
    heights = task.heights(tokens.unsqueeze(0))
    fields = zip(layer.memory.state_fields, begin, strict=True)
    triples = list(zip(said.tolist(), targets.tolist(), mask.tolist(), strict=True))
    return RunTrace(
        task=task.name,
        objective=task.objective,
        symbols=[task.input_vocabulary[number] for number in tokens.tolist()],
        said=[names[number] for number in said.tolist()],
        probability=probability.tolist(),
        wanted=[names[target] if counts else None for _, target, counts in triples],
        right=[number == target if counts else None for number, target, counts in triples],
        memory=layer.memory,
        initial={field.name: held[0].cpu() for field, held in fields},
        instructions={
            head.name: trace.arrays[f"instruction.{head.name}"][0].cpu()
            for head in layer.memory.heads
        },
        heights=None if heights is None else heights[0].tolist(),
    )


def _sayings(task: Task, logits: Tensor) -> tuple[Tensor, Tensor]:
    """What logits [T, V] say, int64 [T], and its chance; of yes or no that of yes."""
    if task.objective == "binary":
        chances = torch.sigmoid(logits[:, 0])
        return (logits[:, 0] > 0).long(), chances
    if task.objective == "bits":
        places = torch.arange(logits.shape[-1])
        said = ((logits > 0).long() << places).sum(dim=-1)
        return said, torch.sigmoid(logits.abs()).prod(dim=-1)
    chances, said = torch.softmax(logits, dim=-1).max(dim=-1)
    return said, chances


def _outputs(task: Task) -> int:
    """How many different things can be said."""
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
