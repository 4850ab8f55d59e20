"""The length of a source, by which a rolling tape jumps, in the models that runs train."""

from __future__ import annotations

from typing import Any

import pytest

from tests.experiments.tiny import planned, tiny
from unbounded.tasks import make_task
from unbounded.tasks.chomsky import CHOMSKY
from unbounded.tasks.questions import COMPUTE


def jumps(task: dict[str, Any]) -> tuple[list[int], list[int]]:
    """The lengths of twenty sources, and the jumps of a tape that reads them."""
    config = tiny()
    config.task, config.model.memory = task, {"name": "rolling_tape", "slots": 64, "width": 2}
    own = planned(config)
    _, state = own.model()(own.task.batch(1, "train", 0, 20).inputs)
    sources = [len(example.source) for example in own.task.examples(1, "train", 0, 20)]
    return sources, state.memory.jump.tolist()


@pytest.mark.parametrize("name", [*CHOMSKY, "next_parity"])
def test_a_jump_is_as_long_as_the_source(name: str) -> None:
    sources, jump = jumps({"name": name})
    assert jump == sources
    assert len(set(sources)) > 1


@pytest.mark.parametrize("computation", [1, 2])
def test_computation_tokens_do_not_count(computation: int) -> None:
    task: dict[str, Any] = {"name": "duplicate_string", "computation": computation}
    assert COMPUTE in make_task(**task).input_vocabulary
    sources, jump = jumps(task)
    assert jump == sources
