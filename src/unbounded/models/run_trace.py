"""A model's run on one example, as a trace for figures, pages and exports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from unbounded.memories import Memory
from unbounded.memories.baseline_states import AttentionWeights, DeltaMatrices
from unbounded.models.memory_model import MemoryModel
from unbounded.rnn import DeltaNet, DeltaProduct, MemoryAttention, MemoryRNN, Transformer
from unbounded.rnn.deltanet import DeltaPart
from unbounded.rnn.memory_attention import recorded
from unbounded.rnn.read_only import trace_phases
from unbounded.rnn.trace import RunTrace
from unbounded.rnn.transformer import SelfAttention
from unbounded.tasks import Batch, Task
from unbounded.tasks.bit_tasks import BitTask

#: Largest number of outputs whose distribution is recorded.
MOST_OUTPUTS: Final = 256


def run_trace(
    model: MemoryModel, task: Task, batch: Batch, *, detailed: bool = False
) -> RunTrace | None:
    """Record inputs, predictions and instructions of a model on an example; None without a memory.

    Args:
        model: in any mode, on any device. If several blocks of a Transformer have a memory, the
            first is traced.
        task: names the symbols and gives the targets.
        batch: its first example is traced. Each step gets the example's input, also where a
            generating model would be fed its own prediction.
        detailed: whether to record also the distribution over at most MOST_OUTPUTS outputs (but not
            over bits), and of a DeltaNet, DeltaProduct or Transformer without a memory its matrices
            or attention weights.
    """
    steps = int(batch.lengths[0])
    tokens, targets, mask = (part[0, :steps] for part in batch[:3])
    with torch.no_grad():
        inputs = tokens.unsqueeze(0).to(next(model.parameters()).device)
        recorded = _recorded(model, inputs)
        if recorded is None and detailed:
            recorded = _recorded_baseline(model, inputs)
        if recorded is None:
            return None
        hidden, memory, initial, instructions = recorded
        logits = model.sequence.logits(hidden)[0].cpu()
    predicted, probability = _predictions(task, logits)
    names = output_names(task)
    heights = task.heights(tokens.unsqueeze(0))
    triples = list(zip(predicted.tolist(), targets.tolist(), mask.tolist(), strict=True))
    return RunTrace(
        task=task.name,
        objective=task.objective,
        symbols=[task.input_vocabulary[number] for number in tokens.tolist()],
        predicted=[names[number] for number in predicted.tolist()],
        probability=probability.tolist(),
        target=[names[target] if counts else None for _, target, counts in triples],
        correct=[number == target if counts else None for number, target, counts in triples],
        memory=memory,
        initial=initial,
        instructions=instructions,
        heights=None if heights is None else heights[0].tolist(),
        distribution=_distribution(task, logits) if detailed else None,
    )


class _Recorded(NamedTuple):
    """Outputs of the layer [1, T, H], and its memory with initial state and instructions."""

    hidden: Tensor
    memory: Memory[Any, Any]
    initial: dict[str, Tensor]
    instructions: dict[str, Tensor]


def _recorded(model: MemoryModel, inputs: Tensor) -> _Recorded | None:
    """Run the layer over inputs [1, T]; None if it has no memory."""
    sequence, layer = model.sequence, model.sequence.layer
    if not isinstance(layer, MemoryRNN):
        return _recorded_attention(model, inputs)
    embedded, state = sequence.embed(inputs), sequence.started(inputs)
    if sequence.read_only_token is None:
        hidden, _, trace = layer(embedded, state, return_trace=True)
    else:
        hidden, trace = trace_phases(layer, embedded, inputs == sequence.read_only_token)
    initial = (layer.initial_state(1) if state is None else state).memory
    given = [trace.arrays[f"instruction.{head.name}"][0] for head in layer.memory.heads]
    return _named_fields(hidden, layer.memory, initial, given)


def _recorded_attention(model: MemoryModel, inputs: Tensor) -> _Recorded | None:
    """The same for the first `MemoryAttention` of a layer."""
    attention = next((m for m in model.modules() if isinstance(m, MemoryAttention)), None)
    if attention is None:
        return None
    with recorded(attention) as calls:
        hidden, _ = model.sequence.hidden(inputs)
    ((initial, instructions, _),) = calls
    return _named_fields(hidden, attention.memory, initial, [field[0] for field in instructions])


def _recorded_baseline(model: MemoryModel, inputs: Tensor) -> _Recorded | None:
    """The same for the attention or the delta rule of a layer; None if it has neither."""
    layer = model.sequence.layer
    if not isinstance(layer, Transformer | DeltaNet | DeltaProduct):
        return None
    parts = [m for m in layer.modules() if isinstance(m, SelfAttention | DeltaPart)]
    steps: list[tuple[Tensor, ...]] = []

    def record(part: Any, arguments: tuple[Any, ...], _output: object) -> None:
        steps.append(part.instructions(*arguments))

    hooks = [part.register_forward_hook(record) for part in parts]
    try:
        hidden, _ = model.sequence.hidden(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    if not steps:
        return None
    # [1, T, heads, ...] of each layer to [T, layers, heads, ...]
    given = [torch.stack(fields, dim=2)[0] for fields in zip(*steps, strict=True)]
    memory = _baseline_state(parts[0], given)
    return _named_fields(hidden, memory, memory.initial_state(1, given[0].dtype), given)


def _baseline_state(part: SelfAttention | DeltaPart, given: Sequence[Tensor]) -> Memory[Any, Any]:
    layers, heads, last = given[0].shape[1:]
    if isinstance(part, SelfAttention):
        return AttentionWeights(layers, heads, given[1].shape[-1], positions=last)
    return DeltaMatrices(layers, heads, last, part.steps, part.negative_eigenvalues)


def _named_fields(
    hidden: Tensor, memory: Memory[Any, Any], initial: Any, given: Sequence[Tensor]
) -> _Recorded:
    fields = zip(memory.state_fields, initial, strict=True)
    return _Recorded(
        hidden,
        memory,
        {field.name: tensor[0].cpu() for field, tensor in fields},
        {head.name: field.cpu() for head, field in zip(memory.heads, given, strict=True)},
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


def _distribution(task: Task, logits: Tensor) -> Tensor | None:
    """The probability of each output, [T, V]; None for bits and for many outputs."""
    if task.objective == "bits" or _outputs(task) > MOST_OUTPUTS:
        return None
    if task.objective == "binary":
        yes = torch.sigmoid(logits[:, 0])
        return torch.stack([1 - yes, yes], dim=-1)
    return torch.softmax(logits, dim=-1)


def output_names(task: Task) -> list[str]:
    """The outputs of a task as texts, in the order of their numbers."""
    return [_named(task, number) for number in range(_outputs(task))]


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
