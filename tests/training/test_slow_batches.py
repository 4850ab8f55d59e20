"""A crash of a slow model loses little."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.metrics import read_metrics
from tests.training.runs import Run
from tests.training.test_stream_training import stack_rnn, weights
from unbounded.tasks import StreamTask, make_task
from unbounded.training.carried_state import CarriedState
from unbounded.training.progress import Silent


class Counting(Silent):
    """Counts the steps, and crashes at the n-th."""

    def __init__(self, last: int = 0) -> None:
        self.steps, self._last = 0, last

    def step(self, batch: float, loss_nats_per_token: float) -> None:
        self.steps += 1
        if self.steps == self._last:
            raise KeyboardInterrupt


@pytest.mark.parametrize("steps", [2, 3, 6, 9])
def test_a_slow_batch_is_saved_between_its_chunks(tmp_path: Path, steps: int) -> None:
    """Each reading of the clock adds five minutes: a crash loses one chunk and changes nothing."""
    task = make_task("anbn", sequences=4)
    assert isinstance(task, StreamTask)
    slow, fast = itertools.count(0, 300).__next__, itertools.count().__next__

    def make(name: str, now: Callable[[], float], **options: Any) -> Run:
        run, carried = Run(tmp_path / name, stack_rnn(2), "adam", batches=4), CarriedState()
        times = {"checkpoint_every": 1000, "checkpoint_minutes": 5.0, "now": now}
        run.begin(task, carried=carried, chunk_steps=7, **times, **options)
        return run

    all_steps, rest = Counting(), Counting()
    full = make("whole", fast, progress=all_steps)
    full.train()
    cut = make("cut", slow, progress=Counting(steps))
    with pytest.raises(KeyboardInterrupt):
        cut.train()
    saved = cut.checkpoints.load_newest(lambda text: None)
    assert saved is not None
    again = make("cut", fast, progress=rest)
    again.log.cut(saved.metrics_lines)
    again.train()
    assert rest.steps == all_steps.steps - (steps - 1)
    assert torch.equal(weights(again.model), weights(full.model))
    timed = ("elapsed_s", "symbols_per_s")
    lines = [
        [{k: v for k, v in line.items() if k not in timed} for line in read_metrics(run.metrics)]
        for run in (again, full)
    ]
    assert lines[0] == lines[1]
