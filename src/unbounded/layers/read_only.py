"""A layer that writes while it is told something and only reads while it answers.

The answer runs as a call of its own, in which the heads that say how strongly to write have a bias
so low that a strength is exactly 0. Neither memory nor kernel knows of it.

Source: Yang 2016, arXiv:1602.08671: no writes in the response phase.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from unbounded.checks import check_lengths, check_shape
from unbounded.errors import ConfigError
from unbounded.layers.call import as_lengths
from unbounded.layers.memory_drops import warn_of_drops
from unbounded.layers.memory_rnn import MemoryRNN
from unbounded.layers.trace import Trace
from unbounded.memories.state import check_rows, index_state, portable

#: What a head's bias is while nothing is written: sigmoid(-1e4) is 0 in float64 too.
SILENT: Final = -1e4


@portable
class ReadOnlyState(NamedTuple):
    """What a layer that is silent while it answers carries from one call to the next.

    Fields:
        layer: its own state.
        answering: whether a sequence answers already, bool [B].
    """

    layer: Any
    answering: Tensor


def _index(state: ReadOnlyState, rows: Tensor | slice | list[int]) -> ReadOnlyState:
    check_rows(rows)
    return ReadOnlyState(index_state(state.layer, rows), state.answering[rows])


index_state.register(ReadOnlyState, _index)


def silent_steps(answers: Tensor, state: Any = None) -> Tensor:
    """The steps in which nothing is written, bool [B, T]: all from a sequence's first answer on.

    Args:
        answers: bool [B, T], True where a sequence answers.
        state: at the first step, as `run_phases` returned it; None begins anew.
    """
    silent = answers.cummax(dim=1).values
    if isinstance(state, ReadOnlyState):
        silent = silent | state.answering.unsqueeze(1)
    return silent


def check_read_only(layer: nn.Module) -> None:
    """Check that a layer can be kept from writing.

    Raises:
        ConfigError: it has no memory, or one that always writes.
    """
    if isinstance(layer, MemoryRNN) and layer.memory.write_strengths:
        return
    what = repr(layer.memory) if isinstance(layer, MemoryRNN) else type(layer).__name__
    raise ConfigError(
        [f"read_only_token: {what} cannot be kept from writing; expected a memory with strengths"]
    )


def run_phases(
    layer: MemoryRNN, x: Tensor, answers: Tensor, state: Any = None, lengths: Tensor | None = None
) -> tuple[Tensor, ReadOnlyState]:
    """Run a layer that writes nothing from a sequence's first answering step on.

    Args:
        layer: with `batch_first`, and a memory that has `write_strengths`.
        x: [B, T, I].
        answers: bool [B, T], True where a sequence answers.
        state: as an earlier call returned it, or the layer's own, of sequences that do not answer
            yet; None begins anew.
        lengths: as for the layer.
    Returns:
        the layer's outputs [B, T, O], 0 beyond `lengths`, and the state.
    Raises:
        ShapeError, DTypeError: as the layer.
    """
    batch, steps = x.shape[:2]
    if state is None and not layer.training:
        warn_of_drops(layer.memory, steps)  # the answer is a call of its own, with a state
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
    told, asked = (int(first.max()), int((total - first).max())) if batch else (steps, 0)
    if not asked:
        outputs, state = layer(x, state, lengths)
        return outputs, ReadOnlyState(state, answering)
    parts = []
    if told:
        before, state = layer(x[:, :told], state, _ragged(first, told))
        parts.append(_placed(before, torch.zeros_like(first), steps))
    place = (first.unsqueeze(1) + torch.arange(asked, device=x.device)).clamp(max=steps - 1)
    inputs = torch.take_along_dim(x, place.unsqueeze(-1), dim=1)
    answer, state = functional_call(
        layer, silenced(layer), (inputs, state, _ragged(total - first, asked))
    )
    parts.append(_placed(answer, first, steps))
    after = ReadOnlyState(state, answering)
    if len(parts) == 1:
        return parts[0], after
    late = (torch.arange(steps, device=x.device) >= first.unsqueeze(1)).unsqueeze(-1)
    return torch.where(late, parts[1], parts[0]), after


def trace_phases(layer: MemoryRNN, x: Tensor, answers: Tensor) -> tuple[Tensor, Trace]:
    """Outputs and trace of `run_phases` for sequences that begin to answer at the same step.

    Args:
        layer, x, answers: as for `run_phases`; all T steps count.
    Returns:
        outputs [B, T, O] and the trace.
    Raises:
        ConfigError: the sequences begin to answer at different steps.
    """
    first = _first(answers)
    told = int(first[0])
    if bool((first != told).any()):
        raise ConfigError(
            [f"answers: expected them to begin at one step in all sequences, got {first.tolist()}"]
        )
    outputs, traces, state = [], [], None
    for inputs, bias in ((x[:, :told], {}), (x[:, told:], silenced(layer))):
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
                # A field counts its rows behind one axis, which here are batch and time together.
                rows = fields[name].rows_of(late.flatten(0, 1))
                flat = fields[name].padded_to(early.flatten(0, 1), rows)
                early = flat.unflatten(0, early.shape[:2])
            arrays[name] = torch.cat([early, late], dim=1)
    lengths = torch.full((len(x),), x.shape[1], dtype=torch.int64)
    return torch.cat(outputs, dim=1), Trace(traces[0].memory, arrays, lengths)


def silenced(layer: MemoryRNN) -> dict[str, Tensor]:
    """The biases of a layer's heads, by name, with which nothing is written."""
    biases: dict[str, Tensor] = {}
    for name, part in layer.named_modules():
        if not isinstance(part, MemoryRNN):
            continue
        bias = part.heads.bias
        if bias is None:
            check_read_only(layer)
            raise ConfigError([f"layer: the heads of {part.memory!r} have no biases"])
        writes = torch.zeros_like(bias, dtype=torch.bool)
        for head in part.memory.write_strengths:
            writes[part.heads.rows(head)] = True
        biases[f"{name}.heads.bias".lstrip(".")] = bias.masked_fill(writes, SILENT)
    return biases


def _first(answers: Tensor) -> Tensor:
    """The first True of each row [B, T]; T where there is none."""
    return (~silent_steps(answers)).sum(dim=1)


def _ragged(lengths: Tensor, longest: int) -> Tensor | None:
    """Lengths that say something."""
    return None if bool((lengths == longest).all()) else lengths


def _placed(part: Tensor, first: Tensor, steps: int) -> Tensor:
    """Outputs [B, K, O] of steps `first`, ... of each sequence, among T steps."""
    place = torch.arange(steps, device=part.device) - first.unsqueeze(1)
    inside = ((place >= 0) & (place < part.shape[1])).unsqueeze(-1)
    index = place.clamp(0, part.shape[1] - 1).unsqueeze(-1)
    return torch.take_along_dim(part, index, dim=1).masked_fill(~inside, 0)
