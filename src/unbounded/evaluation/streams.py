"""Score streams by sequence and by length n, and count the lengths that a model has mastered.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, section 5.1, and the authors' program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import (
    check_bool,
    check_callable,
    check_device,
    check_items,
    check_kind,
    check_module,
)
from unbounded.errors import ConfigError, ShapeError
from unbounded.models.memory_room import with_room
from unbounded.rnn.room import drops_are_meant
from unbounded.tasks import Batch, JudgedStreams, LengthRange, StreamTask, chunks
from unbounded.tasks.batch import check_batch, together
from unbounded.training import masked_cross_entropy


@dataclass(frozen=True)
class LengthScore:
    """The number of correct sequences of one n.

    Fields:
        n: the length, as the task counts it.
        correct: sequences with every judged symbol correct.
        count: sequences scored, at least 1.
        capacity: cells that a memory was given beyond its capacity, None if it had room.
        wrong_first: incorrect sequences that are the first scored ones of a stream that starts with
            an empty memory.
        nan: sequences with NaN among the judged logits; they are incorrect.
    """

    n: int
    correct: int
    count: int
    capacity: int | None = None
    wrong_first: int = 0
    nan: int = 0

    @property
    def accuracy(self) -> float:
        """Share of correct sequences, in [0, 1]."""
        return self.correct / self.count


@dataclass(frozen=True)
class StreamScore:
    """Scores of the determined symbols in streams.

    Fields:
        count, correct: sequences scored, and those with every judged symbol correct.
        partial_accuracy: share of correct judged symbols.
        nats: mean cross entropy of the judged symbols, in nats; 0 for a perfect model.
    """

    count: int
    correct: int
    partial_accuracy: float
    nats: float

    @property
    def exact_match(self) -> float:
        """Share of correct sequences, in [0, 1]."""
        return self.correct / self.count


def correct_sequences(predicted: Tensor, targets: Tensor, judged: Tensor, count: int) -> Tensor:
    """Compute which sequences of streams are correct.

    A sequence is correct if each determined symbol was the likeliest prediction. If all sequences
    start with the same symbol, the first symbol of the next sequence counts too.

    Args:
        predicted: likeliest tokens, int64 [B, T].
        targets: tokens, int64 [B, T].
        judged: the sequence for which each step counts, -1 for none, int64 [B, T].
        count: sequences of each stream that are scored, 0..count-1.
    Returns:
        bool [B, count].
    Raises:
        ShapeError: the three shapes differ.
    """
    if not predicted.shape == targets.shape == judged.shape or predicted.dim() != 2:
        raise ShapeError(
            "predicted, targets and judged must have one shape [B, T]; got "
            f"{tuple(predicted.shape)}, {tuple(targets.shape)}, {tuple(judged.shape)}"
        )
    wrong = ((predicted != targets) & (judged >= 0)).to(torch.int64)
    # Steps that do not belong to a scored sequence are counted in an extra column.
    place = torch.where((judged >= 0) & (judged < count), judged, count)
    errors = torch.zeros(len(wrong), count + 1, dtype=torch.int64).scatter_add_(1, place, wrong)
    return errors[:, :count] == 0


def percent_of_lengths(scores: Iterable[LengthScore], share: float = 1.0) -> float:
    """The percentage of lengths that are mastered.

    Args:
        scores: one for each n.
        share: a length is mastered if at least this share of its sequences is correct. The paper
            gives no share; all is the strictest reading.
    Returns:
        0..100.
    Raises:
        ConfigError: there is no score, or `share` is not in (0, 1].
    """
    if not 0 < share <= 1:
        raise ConfigError(f"share: expected a number above 0 and at most 1, got {share!r}")
    mastered = [score.correct >= share * score.count for score in scores]
    if not mastered:
        raise ConfigError("scores: expected at least one length")
    return 100 * sum(mastered) / len(mastered)


def score_streams(
    model: nn.Module,
    *streams: JudgedStreams,
    chunk_steps: int = 1000,
    device: torch.device | str = "cpu",
    check: Callable[[], None] | None = None,
) -> StreamScore:
    """Score a model on streams of mixed n, all in parallel.

    Args:
        model: called as model(inputs, state), returns logits [B, T, V] and the next state.
        streams: the streams; the memory gets room for the longest sequence (`with_room`).
        chunk_steps, device, check: as for `score_lengths`.
    """
    check_module("model", model)
    device = check_device(device)
    if not streams:
        raise ConfigError("streams: expected at least one JudgedStreams, got none")
    for part in streams:
        check_kind("streams", part, JudgedStreams, "task.judged(seed, split, 0, 1) makes one.")
    batch = together([part.batch for part in streams])
    roomy, _ = with_room(model, max(part.longest for part in streams))
    with torch.no_grad():
        predicted, nats, _ = _predict(roomy, batch, None, chunk_steps, device, check)
    are_correct, hits, costs, row = [], [], [], 0
    for part in streams:
        targets, judged = part.batch.targets, part.judged
        rows_and_steps = slice(row, row + len(targets)), slice(targets.shape[1])
        counted = (judged >= 0) & (judged < part.scored)
        are_correct.append(
            correct_sequences(predicted[rows_and_steps], targets, judged, part.scored).flatten()
        )
        hits.append((predicted[rows_and_steps] == targets)[counted])
        costs.append(nats[rows_and_steps][counted])
        row += len(targets)
    correct, partial_accuracy, mean = (
        torch.cat(are_correct),
        torch.cat(hits).double(),
        torch.cat(costs).double(),
    )
    return StreamScore(
        correct.numel(), int(correct.sum()), float(partial_accuracy.mean()), float(mean.mean())
    )


def score_lengths(
    model: nn.Module,
    task: StreamTask,
    lengths: Iterable[int],
    *,
    seed: int,
    split: str = "test",
    streams: int = 1,
    carry_state: bool = False,
    chunk_steps: int = 1000,
    device: torch.device | str = "cpu",
    check: Callable[[], None] | None = None,
    look: Callable[[float], None] | None = None,
) -> list[LengthScore]:
    """Score a model on every n in a range, with streams that have only sequences of this n.

    The authors' test is task.with_sequences(200), one stream and carry_state=True over n = 2, 3,
    ...: 199 scored sequences for each n. The caller sets the model's mode (train or eval). A memory
    without a capacity grows over a full stream. A memory with a capacity is enlarged for the
    longest sequence (`with_room`).

    If only n determines a sequence, as in a^n b^n, all streams of one n are equal. Then one stream
    of each n is scored instead of `streams`. With a carried state, all streams are scored.

    Args:
        model: called as model(inputs, state), returns logits [B, T, V] and the next state.
        task: yields the streams; its `sequences` less one are scored in each.
        lengths: every n to score, such as a LengthRange.
        seed: of the sequences.
        split: "train", "validation" or "test".
        streams: parallel streams for each n.
        carry_state: whether each stream continues from one n to the next, state and input; False
            starts each n from the initial state.
        chunk_steps: steps of one call of the model.
        device: the model's device.
        check: called between the calls; may raise to interrupt.
        look: called before each n with the share of the steps that is scored, in [0, 1).
    """
    check_module("model", model)
    check_kind("task", task, StreamTask, "Make one with unbounded.tasks.make_task('anbn').")
    check_bool("carry_state", carry_state)
    for name, function in (("check", check), ("look", look)):
        if function is not None:
            check_callable(name, function)
    device = check_device(device)
    lengths = check_items("lengths", lengths, int)
    scores = []
    state: Any = None
    last_symbols: Tensor | None = None
    with torch.no_grad():
        for place, n in enumerate(lengths):
            if look is not None:
                look(sum(lengths[:place]) / sum(lengths))
            judged = task.judged(seed, split, 0, streams, LengthRange(n, n))
            if not carry_state:
                state, judged = None, _distinct(judged)
            elif last_symbols is not None:
                judged.batch.inputs[:, 0] = last_symbols
            last_symbols = _last_symbols(judged.batch)
            begins_empty = state is None
            roomy, capacity = with_room(model, judged.longest)
            predicted, nats, state = _predict(
                roomy, judged.batch, state, chunk_steps, device, check
            )
            are_correct = correct_sequences(
                predicted, judged.batch.targets, judged.judged, judged.scored
            )
            wrong_first = int((~are_correct[:, 0]).sum()) if begins_empty else 0
            nan = nats.isnan().long()
            clean = correct_sequences(nan, torch.zeros_like(nan), judged.judged, judged.scored)
            correct, count = int(are_correct.sum()), are_correct.numel()
            nan_count = int((~clean).sum())
            scores.append(LengthScore(n, correct, count, capacity, wrong_first, nan_count))
    return scores


def _last_symbols(batch: Batch) -> Tensor:
    """The last symbol of each stream, which is the first input of the next stream: int64 [B]."""
    return batch.targets.gather(1, batch.lengths[:, None] - 1)[:, 0]


def _distinct(streams: JudgedStreams) -> JudgedStreams:
    """Keep each distinct stream once, in the order of first occurrence."""
    rows = torch.cat([streams.batch.inputs, streams.batch.targets], dim=1)
    _, kind = torch.unique(rows, dim=0, return_inverse=True)
    first = torch.full((int(kind.max()) + 1,), len(kind)).scatter_reduce_(
        0, kind, torch.arange(len(kind)), "amin"
    )
    keep = first.sort().values
    batch = Batch(*(field[keep] for field in streams.batch))
    return streams._replace(batch=batch, judged=streams.judged[keep])


def stream_loss(
    model: nn.Module,
    batch: Batch,
    *,
    chunk_steps: int = 1000,
    device: torch.device | str = "cpu",
    check: Callable[[], None] | None = None,
) -> float:
    """The mean cross entropy of streams, with the state carried from start to end.

    Args:
        model: called as model(inputs, state), returns logits [B, T, V] and the next state.
        batch: the streams; their mask says which steps count.
        chunk_steps: steps of one call of the model.
        device: the model's device.
        check: called between the calls; may raise to interrupt.
    Returns:
        nats per counted token; its `perplexity` is that of a language model.
    """
    check_module("model", model)
    check_batch(batch)
    if check is not None:
        check_callable("check", check)
    device = check_device(device)
    state: Any = None
    nats = 0.0
    with torch.no_grad():
        for chunk in chunks(batch, chunk_steps):
            if check is not None:
                check()
            with drops_are_meant():
                logits, state = model(chunk.inputs.to(device), state)
            targets, mask = chunk.targets.to(device), chunk.mask.to(device)
            nats += float(masked_cross_entropy(logits, targets, mask))
    return nats / int(batch.mask.sum())


def _predict(
    model: nn.Module,
    batch: Batch,
    state: Any,
    chunk_steps: int,
    device: torch.device | str,
    check: Callable[[], None] | None,
) -> tuple[Tensor, Tensor, Any]:
    """Return the likeliest tokens and the nats of the targets, [B, T], and the final states."""
    # If streams differ in length, the model keeps the state at the end of each stream.
    ragged = bool((batch.lengths != batch.inputs.shape[1]).any())
    predictions, costs = [], []
    for chunk in chunks(batch, chunk_steps):
        if check is not None:
            check()
        lengths = (chunk.lengths.to(device),) if ragged else ()
        with drops_are_meant():
            logits, state = model(chunk.inputs.to(device), state, *lengths)
        targets = chunk.targets.to(device)
        cost = F.cross_entropy(logits.mT, targets, reduction="none").cpu()
        # No token is predicted where logits are NaN; -1 is never correct.
        predictions.append(logits.argmax(dim=-1).cpu().masked_fill(cost.isnan(), -1))
        costs.append(cost)
    return torch.cat(predictions, dim=1), torch.cat(costs, dim=1), state
