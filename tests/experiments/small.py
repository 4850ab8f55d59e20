"""Every task's preset, made small, with any memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbounded.experiments.config.compose import merged, preset_of
from unbounded.experiments.config.schema import RunConfig, from_dict

#: What makes a run small; nothing of it is about a memory.
SMALL: dict[str, Any] = {
    "training": {
        "batches": 2,
        "batch_size": 2,
        "validation_count": 2,
        "validate_every": 2,
        "lengths": None,
        "validation_lengths": None,
        "accuracy_every": 0,
        "report_every": 1,
        "checkpoint_every": 1,
        "plateau_hold": 0,
    },
    "hardening": {"batches": 0},
    "evaluation": {"count": 2, "multiples": None},
}


def small(task: str, model: dict[str, Any], data: Path) -> RunConfig:
    """The preset with another model, made small."""
    config = merged(preset_of(task), {"model": model}, {**SMALL, "model": {"hidden_size": 4}})
    config["hardware"] = {"device": "cpu", "threads": 1, "backend": "auto", "data": None}
    if task in ("penn_treebank", "text", "pairs"):
        config["hardware"]["data"] = str(data / "pairs.tsv" if task == "pairs" else data)
        config["task_options"] = {"published_counts": False} if task == "penn_treebank" else {}
    elif config["training"]["chunk_steps"] is not None:
        config["task_options"] = {"sequences": 3, "train_lengths": "2:4", "test_lengths": "2:5"}
    else:
        config["task_options"] = {"train_lengths": "2:4", "test_lengths": "5:6"}
    if task in ("svo_sov", "gender"):
        config["task_options"] = {"train_lengths": "6:8", "test_lengths": "9:10"}
    config["evaluation"]["lengths"] = None
    if task in ("penn_treebank", "text"):
        config["evaluation"]["count"] = RunConfig().evaluation.count
    return from_dict(config)
