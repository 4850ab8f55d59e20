"""A training loop for a model, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from unbounded.signals import StopRequest
from unbounded.tasks import LengthRange, StreamTask
from unbounded.training import (
    Hook,
    Interrupted,
    LoopState,
    PhaseOptions,
    make_optimizer,
    make_schedule,
)
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.hook import Assess, Record
from unbounded.training.metrics_log import MetricsLog
from unbounded.training.progress import Silent
from unbounded.training.trainer import Trainer


class InterruptAt(Hook):
    """A hook that is interrupted once, after a batch."""

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> None:
        if state.batch == self.batch:
            raise Interrupted(15)


class Run:
    """The prepared model, optimizer and schedule, and the loop after `begin`.

    Args:
        folder: holds checkpoints and metrics.
        model: the trained model; the attributes are wrapped by accelerate.
    """

    def __init__(
        self,
        folder: Path,
        model: torch.nn.Module,
        optimizer: str = "sgd",
        learning_rate: float = 0.1,
        batches: int = 2,
    ):
        self.folder, self.batches = folder, batches
        self.accelerator = Accelerator(cpu=True, step_scheduler_with_optimizer=False)
        raw_optimizer = make_optimizer(
            model.parameters(), name=optimizer, learning_rate=learning_rate
        )
        schedule = make_schedule(raw_optimizer, batches, name="constant")
        self.model, self.optimizer, self.schedule = self.accelerator.prepare(
            model, raw_optimizer, schedule
        )
        folder.mkdir(exist_ok=True)
        self.metrics = folder / "metrics.jsonl"

    def begin(self, task: StreamTask, *hooks: Hook, **options: Any) -> None:
        """Create the trainer; `options` override the defaults."""
        every = [*hooks, *(options.get(name) for name in ("lengths", "carried"))]
        named = {str(place): each for place, each in enumerate(every) if isinstance(each, Hook)}
        self.checkpoints = Checkpoints(
            self.folder / "checkpoints", self.accelerator, config={}, run="a", hooks=named
        )
        self.log = MetricsLog(self.metrics, None)
        defaults: dict[str, Any] = {
            "seed": 0,
            "lengths": LengthRange(2, 4),
            "batch_size": 3,
            "batches": self.batches,
            "clip": 15.0,
            "report_every": 1,
            "checkpoint_every": 1,
        }
        watched = {
            name: options.pop(name) for name in ("progress", "carried", "now") if name in options
        }
        self.trainer = Trainer(
            task,
            (self.model, self.optimizer, self.schedule),
            self.accelerator,
            PhaseOptions(**{**defaults, **options}),
            log=self.log,
            checkpoints=self.checkpoints,
            assess=lambda lengths, start, count: pytest.fail("unexpected assessment"),
            hooks=named,
            request=StopRequest(),
            **{"progress": Silent(), **watched},
        )

    def train(self) -> LoopState:
        """Resume from the newest checkpoint, or start."""
        return self.trainer.run(self.checkpoints.load_newest(lambda text: None) or LoopState())
