"""Every memory, and every controller without one, on every task: trained, interrupted, resumed,
evaluated and traced, from the task's preset with nothing but the memory's name changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.experiments.small import ALIKE, small
from tests.experiments.tiny import interrupted
from unbounded.experiments.config.check import build_task
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.run import train_run
from unbounded.memories import MEMORIES
from unbounded.rnn import load_trace
from unbounded.tasks import TASKS
from unbounded.training.chunk_update import ChunkUpdate

BASELINES = ("lstm", "gru", "elman", "transformer", "deltanet", "deltaproduct")
MODELS = [({"memory": memory}, memory) for memory in MEMORIES] + [
    ({"memory": "none", "controller": controller}, controller) for controller in BASELINES
]


def _cells() -> list[Any]:
    """Every task with every model. Of each row one cell is fast, and of each column some.

    Of tasks that differ only in their rule, the first has fast cells.
    """
    cells = []
    for row, task in enumerate(TASKS):
        for column, (model, name) in enumerate(MODELS):
            is_quick = (row + column) % len(MODELS) == 0 and task not in ALIKE
            marks = [] if is_quick else [pytest.mark.slow]
            cells.append(pytest.param(task, model, id=f"{name}-{task}", marks=marks))
    return cells


@pytest.mark.parametrize(("task", "model"), _cells())
def test_a_cell(task: str, model: dict[str, Any], data: Path, tmp_path: Path) -> None:
    config = small(task, model, data)
    with interrupted(ChunkUpdate, "_step", lambda *_: True):
        train_run(config, root=tmp_path, quiet=True)
    result = train_run(config, root=tmp_path, quiet=True, resume=True)
    assert result.report["batches"] == 2
    assert {row["role"] for row in result.report["rows"]} <= {"train", "test", "longer"}
    assert result.report["selection_metric"] is not None
    again = evaluate_run(result.folder)
    assert again["rows"] == result.report["rows"]
    traces = list((result.folder / "traces").glob("*"))
    examples = build_task(config).traced(1)
    assert len(traces) == (0 if model["memory"] == "none" else len(examples))
    for trace in traces:
        loaded = load_trace(trace)
        assert loaded.symbols is not None
        assert len(loaded.symbols[0]) == loaded.arrays["read_vector"].shape[1]
