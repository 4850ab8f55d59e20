"""A training loop for a model, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from unbounded.tasks import LengthRange, StreamTask
from unbounded.training import LoopState, PhaseOptions, make_optimizer, make_schedule
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.loop import Phase
from unbounded.training.metrics_log import MetricsLog
from unbounded.training.progress import Silent
from unbounded.training.signals import StopRequest


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

    def begin(self, task: StreamTask, stop_rule: Any, extra: Any, **options: Any) -> None:
        """Create the loop; checkpoints hold `extra`; `options` override the defaults."""
        self.checkpoints = Checkpoints(
            self.folder / "checkpoints", self.accelerator, config={}, run="a", extra=extra
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
        self.loop = Phase(
            task,
            (self.model, self.optimizer, self.schedule),
            self.accelerator,
            PhaseOptions(**{**defaults, **options}),
            log=self.log,
            checkpoints=self.checkpoints,
            assess=lambda lengths, start, count: pytest.fail("unexpected assessment"),
            stop_rule=stop_rule,
            request=StopRequest(),
            **{"progress": Silent(), **watched},
        )

    def train(self) -> LoopState:
        """Resume from the newest checkpoint, or start."""
        return self.loop.run(self.checkpoints.load_newest(lambda text: None) or LoopState())
