"""Scoring a model on a length range with one teacher-forced pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError, NonFiniteError
from unbounded.evaluation.metrics import sequence_scores
from unbounded.models.memory_room import with_room
from unbounded.models.sequence_model import SequenceModel
from unbounded.tasks import Batch, LengthRange, Task
from unbounded.training.objective import OBJECTIVES

#: Maps predicted tokens, targets and mask [B, T] to exact match, bool [B], and partial accuracy
#: [B].
Judge = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
#: Maps logits [B, T, V], targets and mask [B, T] to numbers [B, K].
Look = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Place:
    """The device and the processes that score a model.

    Fields:
        device: the model's device.
        share: this process's rank and the number of processes.
        total: sums a tensor over all processes; needed with several.
        check: is called regularly; may raise to interrupt.
    """

    device: torch.device
    share: tuple[int, int] = (0, 1)
    total: Callable[[Tensor], Tensor] | None = None
    check: Callable[[], None] | None = None


_CPU: Final = Place(torch.device("cpu"))
#: Most padded tokens of a pass.
_CHUNK_TOKENS: Final = 32768


@dataclass(frozen=True)
class Score:
    """Exact match and partial accuracy over some sequences.

    Fields:
        count: sequences scored, at least 1.
        correct: sequences that match exactly.
        partial_accuracy: mean share of a sequence that is correct, in [0, 1]. By metric set it is
            the share before the first error, or of correct symbols or labels.
        partial_error: standard error of that mean, 0 for a single sequence.
        nan: sequences with NaN among the counted logits; they count as wrong in all symbols.
    """

    count: int
    correct: int
    partial_accuracy: float
    partial_error: float
    nan: int = 0

    @property
    def exact_match(self) -> float:
        """Share of sequences that match exactly."""
        return self.correct / self.count

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's interval for `exact_match`."""
        return wilson(self.correct, self.count, confidence)


def score_of(exact_match: Tensor, partial_accuracy: Tensor, nan: Tensor) -> Score:
    """The score of sequences from the numbers of each, float64 [B] and bool [B]."""
    count = len(exact_match)
    error = float(partial_accuracy.std()) / count**0.5 if count > 1 else 0.0
    mean = float(partial_accuracy.mean())
    return Score(count, int(exact_match.sum()), mean, error, int(nan.sum()))


def cross_entropy_of(value: float | None) -> float:
    """A cross entropy in a report.

    The value null represents infinity, from a model that overflowed.
    """
    return math.inf if value is None else float(value)


def wilson(correct: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for the share of `correct` among `count`.

    The interval is computed here because importing scipy.stats takes longer than most scores.

    Source: Wilson 1927, Probable inference, the law of succession, and statistical inference.
    """
    share, z2 = correct / count, NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    middle = (correct + z2 / 2) / (count + z2)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    low = 0.0 if correct == 0 else max(0.0, middle - half)
    high = 1.0 if correct == count else min(1.0, middle + half)
    return low, high


def score(
    model: nn.Module,
    task: Task,
    *,
    seed: int,
    split: str,
    lengths: LengthRange,
    count: int,
    start: int = 0,
    device: torch.device | str = "cpu",
    chunk_tokens: int = _CHUNK_TOKENS,
    share: tuple[int, int] = (0, 1),
    total: Callable[[Tensor], Tensor] | None = None,
    check: Callable[[], None] | None = None,
    judge: Judge = sequence_scores,
) -> Score:
    """Score examples `start` to `start + count - 1` of a split.

    Sequences are processed in chunks of similar length, so that padding is small and memory use is
    bounded. One teacher-forced pass results in the scores of greedy generation (`sequence_scores`).
    The caller sets the model's mode (train or eval).

    Args:
        model: as in `logits_of`.
        task: yields the examples.
        seed: of the examples.
        split: "train", "validation" or "test".
        lengths: range of source lengths.
        count: sequences, at least 1.
        start: index of the first.
        device: the model's device.
        chunk_tokens: most padded tokens a pass.
        share: this process's rank and the number of processes.
        total: sums a tensor over all processes; needed with several.
        check: called between chunks; may raise to interrupt.
        judge: scores each sequence.
    Raises:
        ConfigError: `count` is below 1.
    """
    if count < 1:
        raise ConfigError(f"count must be at least 1, got {count}")
    predict = OBJECTIVES[task.objective].predict

    def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        scores = judge(predict(logits).cpu(), targets, mask)
        return torch.stack([values.double() for values in scores], dim=1)

    batch = task.batch(seed, split, start, count, lengths)
    place = Place(torch.device(device), share, total, check)
    numbers, nan = numbers_of(model, batch, look, 2, place, chunk_tokens=chunk_tokens)
    exact_match, partial_accuracy = (numbers * ~nan.unsqueeze(1)).unbind(dim=1)
    return score_of(exact_match, partial_accuracy, nan)


def numbers_of(
    model: nn.Module,
    batch: Batch,
    look: Look,
    width: int,
    place: Place = _CPU,
    *,
    chunk_tokens: int = _CHUNK_TOKENS,
) -> tuple[Tensor, Tensor]:
    """Numbers of each sequence of a batch, in the order of the batch.

    Args:
        model: as in `logits_of`.
        batch: on the CPU.
        look: maps logits (on the device), targets and mask (on the CPU) to K numbers of each
            sequence, float64 on the CPU.
        width: K.
        place: device and processes.
        chunk_tokens: as for `score`.
    Returns:
        the numbers, float64 [B, K], and whether a counted logit is NaN, bool [B].
    """
    rank, processes = place.share
    model, _ = with_room(model, batch.inputs.shape[1])
    numbers = torch.zeros(len(batch.lengths), width + 1, dtype=torch.float64)
    with torch.no_grad():
        for number, rows in enumerate(_chunks(batch.lengths, chunk_tokens)):
            if place.check is not None:
                place.check()
            if number % processes == rank:
                steps = int(batch.lengths[rows].max())
                inputs = batch.inputs[rows, :steps].to(place.device)
                logits = logits_or_nan(model, inputs, batch.lengths[rows])
                mask = batch.mask[rows, :steps]
                numbers[rows, :-1] = look(logits, batch.targets[rows, :steps], mask)
                numbers[rows, -1] = (logits.isnan().any(-1).cpu() & mask).any(-1).double()
    if processes > 1 and place.total is not None:
        numbers = place.total(numbers.to(place.device)).cpu()
    return numbers[:, :-1], numbers[:, -1] > 0


def nan_fact(nan: int) -> dict[str, int]:
    """A report's entry on sequences with NaN logits; empty without such sequences."""
    return {"nan": nan} if nan else {}


def mean_nats(
    model: nn.Module,
    batch: Batch,
    objective: str,
    place: Place = _CPU,
) -> float:
    """The mean loss of a batch, in nats per counted step; infinite if logits are NaN.

    Args:
        model: as in `logits_of`.
        batch, objective: of the task.
        place: the device; one process computes the mean.
    """
    model, _ = with_room(model, batch.inputs.shape[1])
    nats = 0.0
    with torch.no_grad():
        for rows in _chunks(batch.lengths, _CHUNK_TOKENS):
            if place.check is not None:
                place.check()
            steps = int(batch.lengths[rows].max())
            inputs, targets, mask = (field[rows, :steps].to(place.device) for field in batch[:3])
            logits = logits_or_nan(model, inputs, batch.lengths[rows])
            nats += float(OBJECTIVES[objective].loss(logits, targets, mask))
    return math.inf if math.isnan(nats) else nats / int(batch.mask.sum())


def logits_of(model: nn.Module, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The logits [B, T, V] of complete sequences, on which padding has no effect.

    Args:
        model: called as model(inputs), returns logits first. If it holds a SequenceModel that
            `needs_lengths`, it is called as model(inputs, None, lengths).
        inputs: int64 [B, T], on the model's device. lengths: int64 [B].
    """
    parts = (part for part in model.modules() if isinstance(part, SequenceModel))
    more = (None, lengths.to(inputs.device)) if any(part.needs_lengths for part in parts) else ()
    logits: Tensor = model(inputs, *more)[0]
    return logits


def logits_or_nan(model: nn.Module, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The logits as in `logits_of`; NaN at all steps if the memory overflows on a sequence."""
    try:
        return logits_of(model, inputs, lengths)
    except NonFiniteError:
        if len(inputs) > 1:
            halves = zip(inputs.tensor_split(2), lengths.tensor_split(2), strict=True)
            return torch.cat([logits_or_nan(model, *half) for half in halves])
        logits = logits_of(model, inputs[:, :1], lengths.clamp(max=1))
        return logits.new_full((1, inputs.shape[1], logits.shape[-1]), math.nan)


def _chunks(lengths: Tensor, chunk_tokens: int) -> Iterator[Tensor]:
    """Sort rows by length, longest first, into chunks of up to `chunk_tokens` padded tokens."""
    order = torch.argsort(lengths, descending=True, stable=True)
    start = 0
    while start < len(order):
        size = max(1, chunk_tokens // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size
