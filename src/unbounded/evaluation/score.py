"""Scoring a model on a length range with one teacher-forced pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.evaluation.metrics import sequence_scores
from unbounded.evaluation.room import with_room
from unbounded.tasks import Batch, LengthRange, Task
from unbounded.training.objective import OBJECTIVES

#: Scores each sequence of predicted tokens, targets and mask [B, T]: coarse bool [B], fine [B].
Judge = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Score:
    """Coarse and fine accuracy over some sequences.

    Fields:
        count: sequences scored, at least 1.
        right: sequences right to the end.
        fine: mean share of a target right before its first error, in [0, 1].
        fine_error: standard error of that mean, 0 for a single sequence.
    """

    count: int
    right: int
    fine: float
    fine_error: float

    @property
    def coarse(self) -> float:
        """Share of sequences that are right to the end."""
        return self.right / self.count

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's interval for `coarse`."""
        return wilson(self.right, self.count, confidence)


def wilson(right: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for the share of `right` among `count`."""
    from scipy.stats import binomtest

    low, high = binomtest(right, count).proportion_ci(confidence, method="wilson")
    return float(low), float(high)


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
    chunk_tokens: int = 32768,
    share: tuple[int, int] = (0, 1),
    total: Callable[[Tensor], Tensor] | None = None,
    check: Callable[[], None] | None = None,
    judge: Judge = sequence_scores,
) -> Score:
    """Score examples `start` to `start + count - 1` of a split.

    Sequences go through the model in chunks of like length, so that little is padding and
    memory is bounded. One teacher-forced pass gives what greedy generation would: see
    `sequence_scores`. The model's mode (train or eval) is the caller's.

    Args:
        model: called as model(inputs), gives logits [B, T, V] first.
        task: yields the examples.
        seed: of the examples.
        split: "train", "validation" or "test".
        lengths: range of source lengths.
        count: sequences, at least 1.
        start: index of the first.
        device: where the model is.
        chunk_tokens: most padded tokens a pass.
        share: this process's rank and the number of processes that share the work.
        total: sums a tensor over all processes; needed with several.
        check: called between chunks; may raise to give up.
        judge: scores each sequence.
    Raises:
        ConfigError: `count` is below 1.
    """
    if count < 1:
        raise ConfigError([f"count must be at least 1, got {count}"])
    batch = task.batch(seed, split, start, count, lengths)
    rank, processes = share
    model, _ = with_room(model, batch.inputs.shape[1])
    predict = OBJECTIVES[task.objective].predict
    coarse, fine = torch.zeros(count), torch.zeros(count, dtype=torch.float64)
    with torch.no_grad():
        for number, rows in enumerate(_chunks(batch.lengths, chunk_tokens)):
            if check is not None:
                check()
            if number % processes == rank:
                coarse[rows], fine[rows] = _score_rows(model, batch, rows, device, predict, judge)
    if processes > 1 and total is not None:
        coarse, fine = (total(part.to(device)).cpu() for part in (coarse, fine))
    mean = float(fine.mean())
    error = float(fine.std()) / math.sqrt(count) if count > 1 else 0.0
    return Score(count=count, right=int(coarse.sum()), fine=mean, fine_error=error)


def _score_rows(
    model: nn.Module,
    batch: Batch,
    rows: Tensor,
    device: torch.device | str,
    predict: Callable[[Tensor], Tensor],
    judge: Judge,
) -> tuple[Tensor, Tensor]:
    steps = int(batch.lengths[rows].max())
    predicted = predict(model(batch.inputs[rows, :steps].to(device))[0]).cpu()
    coarse, fine = judge(predicted, batch.targets[rows, :steps], batch.mask[rows, :steps])
    return coarse.to(torch.float32), fine


def mean_nats(
    model: nn.Module,
    batch: Batch,
    objective: str,
    *,
    device: torch.device | str = "cpu",
    chunk_tokens: int = 32768,
    check: Callable[[], None] | None = None,
) -> float:
    """The mean loss of a batch, in nats per counted step.

    Args:
        model: called as model(inputs), gives logits [B, T, V] first.
        objective: of the task.
        batch, device, chunk_tokens, check: as for `score`.
    """
    model, _ = with_room(model, batch.inputs.shape[1])
    nats = 0.0
    with torch.no_grad():
        for rows in _chunks(batch.lengths, chunk_tokens):
            if check is not None:
                check()
            steps = int(batch.lengths[rows].max())
            inputs, targets, mask = (field[rows, :steps].to(device) for field in batch[:3])
            nats += float(OBJECTIVES[objective].loss(model(inputs)[0], targets, mask))
    return nats / int(batch.mask.sum())


def _chunks(lengths: Tensor, chunk_tokens: int) -> Iterator[Tensor]:
    """Rows sorted by length, longest first, cut so that a padded chunk stays within bounds."""
    order = torch.argsort(lengths, descending=True, stable=True)
    start = 0
    while start < len(order):
        size = max(1, chunk_tokens // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size
