"""Scoring a model on a length range with one teacher-forced pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.evaluation.metrics import sequence_scores
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, LengthRange, Task
from unbounded.training.objective import OBJECTIVES

#: Scores each sequence of predicted tokens, targets and mask [B, T]: coarse bool [B], fine [B].
Judge = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
#: Makes numbers [B, K] of logits [B, T, V], targets and mask [B, T].
Look = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Score:
    """Coarse and fine accuracy over some sequences.

    Fields:
        count: sequences scored, at least 1.
        right: sequences right to the end.
        fine: mean share of a target right before its first error, in [0, 1].
        fine_error: standard error of that mean, 0 for a single sequence.
        nan: sequences with NaN among the logits that count; they are wrong.
    """

    count: int
    right: int
    fine: float
    fine_error: float
    nan: int = 0

    @property
    def coarse(self) -> float:
        """Share of sequences that are right to the end."""
        return self.right / self.count

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Wilson's interval for `coarse`."""
        return wilson(self.right, self.count, confidence)


def wilson(right: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for the share of `right` among `count`.

    Written out, because scipy.stats takes longer to import than most runs take to be scored.

    Source: Wilson 1927, Probable inference, the law of succession, and statistical inference.
    """
    share, z2 = right / count, NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    middle = (right + z2 / 2) / (count + z2)
    half = math.sqrt(z2 * (share * (1 - share) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    low = 0.0 if right == 0 else max(0.0, middle - half)
    high = 1.0 if right == count else min(1.0, middle + half)
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
    predict = OBJECTIVES[task.objective].predict

    def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        judged = judge(predict(logits).cpu(), targets, mask)
        return torch.stack([each.double() for each in judged], dim=1)

    numbers, nan = numbers_of(
        model,
        task.batch(seed, split, start, count, lengths),
        look,
        2,
        device=device,
        chunk_tokens=chunk_tokens,
        share=share,
        total=total,
        check=check,
    )
    coarse, fine = numbers.unbind(dim=1)
    mean = float(fine.mean())
    error = float(fine.std()) / math.sqrt(count) if count > 1 else 0.0
    right = int((coarse.bool() & ~nan).sum())
    return Score(count, right, mean, error, int(nan.sum()))


def numbers_of(
    model: nn.Module,
    batch: Batch,
    look: Look,
    width: int,
    *,
    device: torch.device | str = "cpu",
    chunk_tokens: int = 32768,
    share: tuple[int, int] = (0, 1),
    total: Callable[[Tensor], Tensor] | None = None,
    check: Callable[[], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Numbers of each sequence of a batch, in its order.

    Args:
        model: called as model(inputs), gives logits [B, T, V] first.
        batch: on the CPU.
        look: makes K numbers of each sequence out of logits (on the device), targets and mask (on
            the CPU); gives float64 on the CPU.
        width: K.
        device, chunk_tokens, share, total, check: as for `score`.
    Returns:
        the numbers, float64 [B, K], and whether a logit that counts is NaN, bool [B].
    """
    rank, processes = share
    model, _ = with_room(model, batch.inputs.shape[1])
    numbers = torch.zeros(len(batch.lengths), width + 1, dtype=torch.float64)
    with torch.no_grad():
        for number, rows in enumerate(_chunks(batch.lengths, chunk_tokens)):
            if check is not None:
                check()
            if number % processes == rank:
                steps = int(batch.lengths[rows].max())
                logits = model(batch.inputs[rows, :steps].to(device))[0]
                mask = batch.mask[rows, :steps]
                numbers[rows, :-1] = look(logits, batch.targets[rows, :steps], mask)
                numbers[rows, -1] = (logits.isnan().any(-1).cpu() & mask).any(-1).double()
    if processes > 1 and total is not None:
        numbers = total(numbers.to(device)).cpu()
    return numbers[:, :-1], numbers[:, -1] > 0


def nan_fact(nan: int) -> dict[str, int]:
    """What a row of a report has of sequences with NaN logits; nothing where there is none."""
    return {"nan": nan} if nan else {}


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
