"""Hooks: their state in a checkpoint, and a custom rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.experiments.tiny import tiny
from tests.training.runs import Run
from tests.training.test_stream_training import stack_rnn
from unbounded.errors import CheckpointError, StorageError
from unbounded.experiments.run.run import train_run
from unbounded.tasks import LengthRange, make_task
from unbounded.training import Growing, Hook, LoopState
from unbounded.training.hook import Assess, Record
from unbounded.training.hooks import STOPS
from unbounded.training.hooks.curricula import stage


class Holding(Hook):
    saved = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def run_with(folder: Path, hook: Hook) -> Run:
    run = Run(folder, stack_rnn(2))
    run.begin(make_task("anbn", sequences=3), hook)
    return run


@pytest.mark.parametrize("value", [1, 0.5, None, "a", float("inf"), [1, {"a": torch.ones(2)}]])
def test_a_state_of_plain_values_is_restored(tmp_path: Path, value: Any) -> None:
    run_with(tmp_path, Holding(value)).train()
    hook = Holding("other")
    run_with(tmp_path, hook).checkpoints.load_newest(print)
    assert str(hook.value) == str(value)


def test_a_state_that_cannot_be_loaded_again_is_named_at_the_first_checkpoint(
    tmp_path: Path,
) -> None:
    """Once it was saved, and no checkpoint could be loaded."""
    with pytest.raises(CheckpointError, match=r"hook 0: expected a state of numbers, .* got one"):
        run_with(tmp_path, Holding(np.float64(1.0))).train()


def test_a_refused_write_of_the_hooks_is_an_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, save = run_with(tmp_path, Holding(1)), torch.save

    def refused(state: object, file: object, *rest: Any, **options: Any) -> None:
        if str(file).endswith("hooks.pt"):
            raise RuntimeError("enforce fail at inline_container.cc: unexpected pos 704 vs 598")
        save(state, file, *rest, **options)

    monkeypatch.setattr(torch, "save", refused)
    with pytest.raises(StorageError, match="refused a file"):
        run.train()


def test_a_new_stop_rule_trains_where_it_is_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the tasks had lists of allowed stop rules."""

    class AfterThree(Hook):
        def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
            return "three: enough" if state.batch == 3 else None

    monkeypatch.setitem(STOPS, "after_three", AfterThree)
    result = train_run(tiny(stop={"name": "after_three"}), root=tmp_path, quiet=True)
    assert result.report["stopped"].startswith("three: enough")


def test_a_curriculum_with_a_last_range_has_stages() -> None:
    class Late:
        final = LengthRange(1, 9)

        def __call__(self, batch: int) -> LengthRange:
            return LengthRange(1, 5 if batch < 10 else 9)

    assert [stage(Late(), batch) for batch in (0, 10)] == [5, None]
    assert stage(Growing(LengthRange(2, 4)), 0) == 2
    assert stage(lambda batch: LengthRange(1, 2), 0) is None
    assert stage(LengthRange(1, 2), 0) is None
