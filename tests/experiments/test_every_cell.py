"""Every memory, and every controller without one, on every task: trained, interrupted, resumed,
evaluated and traced, from the task's preset with nothing but the memory's name changed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.tiny_streams import tiny_corpus
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.compose import merged, preset_of
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.run import train_run
from unbounded.layers import load_trace
from unbounded.memories import MEMORIES
from unbounded.tasks import TASKS
from unbounded.training import Interrupted
from unbounded.training.steps import BatchTrainer

BASELINES = ("lstm", "gru", "elman")
MODELS = [({"memory": memory}, memory) for memory in MEMORIES] + [
    ({"memory": "none", "controller": controller}, controller) for controller in BASELINES
]
#: What makes a run small; nothing of it is about a memory.
SMALL: dict[str, Any] = {
    "training": {
        "batches": 2,
        "batch_size": 2,
        "validation_count": 2,
        "validate_every": 2,
        "validation_lengths": None,
        "accuracy_every": 0,
        "report_every": 1,
        "checkpoint_every": 1,
        "plateau_hold": 0,
    },
    "rounding": {"batches": 0},
    "evaluation": {"count": 2, "multiples": None},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus under both names, and a file of pairs."""
    folder = tiny_corpus(tmp_path_factory.mktemp("data"))
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text((folder / f"ptb.{split}.txt").read_text())
    lines = (f"a{number % 7} b{number % 3}\tb{number % 3} a{number}" for number in range(60))
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    return folder


def small(task: str, model: dict[str, Any], data: Path) -> RunConfig:
    """The preset with another model, made small."""
    config = merged(preset_of(task), {"model": model}, {**SMALL, "model": {"hidden_size": 4}})
    config["machine"] = {"device": "cpu", "threads": 1, "backend": "auto", "data": None}
    if task in ("penn_treebank", "text", "pairs"):
        config["machine"]["data"] = str(data / "pairs.tsv" if task == "pairs" else data)
        config["task_options"] = {"published_counts": False} if task == "penn_treebank" else {}
    elif config["training"]["piece_steps"] is not None:
        config["task_options"] = {"sequences": 3, "train_lengths": "2:4", "test_lengths": "2:5"}
    else:
        config["task_options"] = {"train_lengths": "2:4", "test_lengths": "5:6"}
    if task in ("svo_sov", "gender"):
        config["task_options"] = {"train_lengths": "6:8", "test_lengths": "9:10"}
    config["evaluation"]["lengths"] = None
    if task in ("penn_treebank", "text"):
        config["evaluation"]["count"] = RunConfig().evaluation.count
    return from_dict(config)


def _cells() -> list[Any]:
    """Every task with every model; of three one is in CI, so that each row and column has some."""
    cells = []
    for row, task in enumerate(TASKS):
        for column, (model, name) in enumerate(MODELS):
            marks = [] if (row + column) % 3 == 0 else [pytest.mark.slow]
            cells.append(pytest.param(task, model, id=f"{name}-{task}", marks=marks))
    return cells


@pytest.mark.parametrize(("task", "model"), _cells())
def test_a_cell(
    task: str,
    model: dict[str, Any],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = small(task, model, data)
    step = BatchTrainer._step

    def interrupt(trainer: BatchTrainer, *arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return step(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(BatchTrainer, "_step", interrupt)
        with pytest.raises(Interrupted):
            train_run(config, root=tmp_path, quiet=True)
    result = train_run(config, root=tmp_path, quiet=True, resume=True)
    assert result.report["batches"] == 2
    assert {row["role"] for row in result.report["rows"]} <= {"train", "test", "longer"}
    assert result.report["merit"] is not None
    again = evaluate_run(result.folder)
    assert again["rows"] == result.report["rows"]
    traces = list((result.folder / "traces").glob("*"))
    examples = build_task(config).traced(1)
    assert len(traces) == (0 if model["memory"] == "none" else len(examples))
    for trace in traces:
        loaded = load_trace(trace)
        assert loaded.symbols is not None
        assert len(loaded.symbols[0]) == loaded.arrays["reading"].shape[1]
