"""A layer that writes during the input phase and only reads during the answer phase.

The answer phase is a separate call, in which the bias of the write-strength heads is so low that
each strength is exactly 0. The answer phase requires no change of the memory or the kernel.

Source: Yang 2016, arXiv:1602.08671: no writes in the response phase.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unbounded.checks import check_lengths, check_shape
from unbounded.errors import ConfigError
from unbounded.memories.core import check_rows, index_state, portable
from unbounded.rnn.call import as_lengths
from unbounded.rnn.memory_layer import MemoryLayer
from unbounded.rnn.memory_rnn import MemoryRNN
from unbounded.rnn.room import warn_of_drops
from unbounded.rnn.trace import Trace

#: Bias of a write-strength head while nothing is written: sigmoid(-1e4) is 0 even in float64.
SILENT: Final = -1e4


@portable
class ReadOnlyState(NamedTuple):
    """The carried state of a layer that does not write while it answers.

    Fields:
        layer: the layer's state.
        answering: whether a sequence has started its answer, bool [B].
    """

    layer: Any
    answering: Tensor


def _index(state: ReadOnlyState, rows: Tensor | slice | list[int]) -> ReadOnlyState:
    check_rows(rows)
    return ReadOnlyState(index_state(state.layer, rows), state.answering[rows])


index_state.register(ReadOnlyState, _index)


def silent_steps(answers: Tensor, state: Any = None) -> Tensor:
    """The steps without writes, bool [B, T], which start at a sequence's first answer step.

    Args:
        answers: bool [B, T], True where a sequence answers.
        state: before the first step, from `run_phases`; None starts a new sequence.
    """
    silent = answers.cummax(dim=1).values
    if isinstance(state, ReadOnlyState):
        silent = silent | state.answering.unsqueeze(1)
    return silent


def check_read_only(layer: nn.Module) -> None:
    """Check that writes of a layer can be disabled.

    Raises:
        ConfigError: the layer has no memory, or one without write strengths.
    """
    if isinstance(layer, MemoryRNN) and layer.memory.write_strengths:
        return
    what = repr(layer.memory) if isinstance(layer, MemoryRNN) else type(layer).__name__
    raise ConfigError(
        f"read_only_token: {what} cannot be kept from writing; expected a memory with strengths"
    )


def run_phases(
    layer: MemoryRNN, x: Tensor, answers: Tensor, state: Any = None, lengths: Tensor | None = None
) -> tuple[Tensor, ReadOnlyState]:
    """Run a layer without writes from a sequence's first answer step on.

    Args:
        layer: with `batch_first`, and a memory that has `write_strengths`.
        x: [B, T, I].
        answers: bool [B, T], True where a sequence answers.
        state: from an earlier call, or a state of the layer for sequences that do not answer yet;
            None starts a new sequence.
        lengths: as for the layer.
    Returns:
        the layer's outputs [B, T, O], 0 beyond `lengths`, and the state.
    Raises:
        ShapeError, DTypeError: as for the layer.
    """
    batch, steps = x.shape[:2]
    if state is None and not layer.training:
        warn_of_drops(layer.memory, steps)  # later calls have a state, so warn here
    lengths = as_lengths(lengths, x.device)
    check_lengths(lengths, batch, steps)
    before = x.new_zeros(batch, dtype=torch.bool)
    if isinstance(state, ReadOnlyState) or (type(state) is tuple and len(state) == 2):
        state, before = state
        check_shape("state.answering", before, (batch,))
    first = _first(answers).masked_fill(before, 0)
    total = torch.full_like(first, steps) if lengths is None else lengths
    first = torch.minimum(first, total)
    answering = before | (first < total)
    before_answer, answer_steps = (
        (int(first.max()), int((total - first).max())) if batch else (steps, 0)
    )
    if not answer_steps:
        outputs, state = layer(x, state, lengths)
        return outputs, ReadOnlyState(state, answering)
    parts = []
    if before_answer:
        before, state = layer(x[:, :before_answer], state, _ragged(first, before_answer))
        parts.append(_placed(before, torch.zeros_like(first), steps))
    place = (first.unsqueeze(1) + torch.arange(answer_steps, device=x.device)).clamp(max=steps - 1)
    inputs = torch.take_along_dim(x, place.unsqueeze(-1), dim=1)
    answer, state = functional_call(
        layer, silenced(layer), (inputs, state, _ragged(total - first, answer_steps))
    )
    parts.append(_placed(answer, first, steps))
    after = ReadOnlyState(state, answering)
    if len(parts) == 1:
        return parts[0], after
    late = (torch.arange(steps, device=x.device) >= first.unsqueeze(1)).unsqueeze(-1)
    return torch.where(late, parts[1], parts[0]), after


def trace_phases(layer: MemoryRNN, x: Tensor, answers: Tensor) -> tuple[Tensor, Trace]:
    """Return outputs and trace of `run_phases`, for sequences whose answers start at the same step.

    Args:
        layer, x, answers: as for `run_phases`; all T steps count.
    Returns:
        outputs [B, T, O] and the trace.
    Raises:
        ConfigError: the sequences start their answers at different steps.
    """
    first = _first(answers)
    before_answer = int(first[0])
    if bool((first != before_answer).any()):
        raise ConfigError(
            f"answers: expected the same first step in all sequences, got {first.tolist()}"
        )
    outputs, traces, state = [], [], None
    for inputs, bias in ((x[:, :before_answer], {}), (x[:, before_answer:], silenced(layer))):
        if inputs.shape[1]:
            output, state, trace = functional_call(
                layer, bias, (inputs, state), {"return_trace": True}
            )
            outputs.append(output)
            traces.append(trace)
    arrays = dict(traces[-1].arrays)
    if len(traces) == 2:
        fields = {field.name: field for field in layer.memory.observed_fields}
        for name, late in arrays.items():
            early = traces[0].arrays[name]
            if name in fields:
                # A field has one axis before its rows, so batch and time are merged into one axis
                # here.
                rows = fields[name].rows_of(late.flatten(0, 1))
                flat = fields[name].padded_to(early.flatten(0, 1), rows)
                early = flat.unflatten(0, early.shape[:2])
            arrays[name] = torch.cat([early, late], dim=1)
    lengths = torch.full((len(x),), x.shape[1], dtype=torch.int64)
    return torch.cat(outputs, dim=1), Trace(traces[0].memory, arrays, lengths)


def silenced(layer: MemoryRNN) -> dict[str, Tensor]:
    """The biases of a layer's heads that disable writes, by name."""
    biases: dict[str, Tensor] = {}
    for name, part in layer.named_modules():
        if not isinstance(part, MemoryLayer):
            continue
        bias = part.heads.bias
        if bias is None:
            check_read_only(layer)
            raise ConfigError(f"layer: the heads of {part.memory!r} have no biases")
        writes = torch.zeros_like(bias, dtype=torch.bool)
        for head in part.memory.write_strengths:
            writes[part.heads.rows(head)] = True
        biases[f"{name}.heads.bias".lstrip(".")] = bias.masked_fill(writes, SILENT)
    return biases


def _first(answers: Tensor) -> Tensor:
    """Index of the first True in each row [B, T]; T if there is none."""
    return (~silent_steps(answers)).sum(dim=1)


def _ragged(lengths: Tensor, longest: int) -> Tensor | None:
    """Return `lengths`, or None if every length is `longest`."""
    return None if bool((lengths == longest).all()) else lengths


def _placed(part: Tensor, first: Tensor, steps: int) -> Tensor:
    """Place outputs [B, K, O] at steps `first`, ... of each sequence, among T steps."""
    place = torch.arange(steps, device=part.device) - first.unsqueeze(1)
    inside = ((place >= 0) & (place < part.shape[1])).unsqueeze(-1)
    index = place.clamp(0, part.shape[1] - 1).unsqueeze(-1)
    return torch.take_along_dim(part, index, dim=1).masked_fill(~inside, 0)
