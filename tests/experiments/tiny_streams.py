"""Runs on streams and on a made-up text that take about a second."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tests.experiments.tiny import laid_over
from unbounded.experiments.config.schema import HardwareConfig, ModelConfig, RunConfig
from unbounded.models.memory_model import STACK_RNN

STACK: dict[str, Any] = {
    **STACK_RNN,
    "memory": {
        "name": "superposition_stack", "count": 2, "capacity": 12, "overflow": "drop_bottom",
    },
    "hidden_size": 8,
    "readout_size": None,
    "learn_initial_state": False,
}  # fmt: skip
TRAINING = {
    "optimizer": "adam", "learning_rate": 1e-2, "batch_size": 3, "batches": 4, "clip": 15.0,
    "clip_by": "value", "stop": "budget", "chunk_steps": 7, "plateau": {"name": "halve", "hold": 2},
    "report_every": 1, "accuracy_every": 0, "checkpoint_every": 2,
}  # fmt: skip


def tiny_streams(task: str = "anbn", **training: Any) -> RunConfig:
    options = {"validation_count": 12, "curriculum": "growing"}
    return RunConfig(
        task={"name": task, "sequences": 4, "train_lengths": "2:4", "test_lengths": "2:6"},
        seed=3,
        model=ModelConfig(**copy.deepcopy(STACK)),
        training=laid_over(TRAINING, options, training),
        evaluation={"count": 6, "streams": 2},
        hardware=HardwareConfig(device="cpu", threads=1),
    )


def tiny_corpus(folder: Path) -> Path:
    """Three files of made-up sentences."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = ["a cat sat", "the cat sat down", "a dog ran", "the dog sat down"]
    for name, count in (("train", 12), ("valid", 5), ("test", 5)):
        lines = [sentences[index % 4] for index in range(count)]
        (folder / f"ptb.{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def tiny_text(folder: Path, **training: Any) -> RunConfig:
    return RunConfig(
        task={"name": "penn_treebank", "data": str(tiny_corpus(folder)), "published_counts": False},
        seed=3,
        model=ModelConfig(
            **copy.deepcopy({**STACK, "controller": {**STACK["controller"], "recurrent": True}})
        ),
        training=laid_over(TRAINING, training),
        hardware=HardwareConfig(device="cpu", threads=1, backend="reference"),
    )
