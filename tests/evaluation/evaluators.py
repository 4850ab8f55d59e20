"""An evaluator for metric sets."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from unbounded.evaluation import Evaluator, Place
from unbounded.tasks import LengthRange


def evaluator_of(
    model: nn.Module,
    task: Any,
    train: LengthRange | None = None,
    validation: LengthRange | None = None,
    count: int = 20,
    strips: int = 1,
) -> Evaluator:
    """On one CPU, with the task's own ranges unless there are others."""
    lengths = train or task.train_lengths, validation or task.test_lengths
    return Evaluator(model, task, 1, Place(torch.device("cpu")), *lengths, count, strips)
