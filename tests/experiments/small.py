"""Every task's preset, made small, with any memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.schema import RunConfig
from unbounded.tasks.chomsky import CHOMSKY

#: Options of a small run; none of them concerns a memory.
SMALL: dict[str, Any] = {
    "training": {
        "batches": 2, "batch_size": 2, "validation_count": 2, "lengths": None,
        "validation_lengths": None, "accuracy_every": 0, "report_every": 1, "checkpoint_every": 1,
    },
    "hardening": "none",
}  # fmt: skip

#: Among tasks with the same class and layout, all but the first are slow tests.
ALIKE = {*list(CHOMSKY)[1:], *("next_parity", "next_cycle_navigation", "next_modular_arithmetic")}


def small(task: str, model: dict[str, Any], data: Path) -> RunConfig:
    """The preset with another model, made small."""
    config = overlay(preset_of(task), {"model": model}, {**SMALL, "model": {"hidden_size": 4}})
    config["hardware"] = {"device": "cpu", "threads": 1, "backend": "auto", "data": None}
    if task in ("penn_treebank", "text", "pairs"):
        config["hardware"]["data"] = str(data / "pairs.tsv" if task == "pairs" else data)
        if task == "penn_treebank":
            config["task"]["published_counts"] = False
    elif config["training"]["chunk_steps"] is not None:
        config["task"] |= {"sequences": 3, "train_lengths": "2:4", "test_lengths": "2:5"}
    else:
        config["task"] |= {"train_lengths": "2:4", "test_lengths": "5:6"}
    if task in ("svo_sov", "gender"):
        config["task"] |= {"train_lengths": "6:8", "test_lengths": "9:10"}
    if task in CHOMSKY or task.startswith("next_"):
        config["task"]["train_lengths"] = "3:4"
    if task == "vector_priority_sort":
        config["task"]["kept"] = 2
    if task == "stack_language":
        config["task"]["test_lengths"] = "5:7"
    if config["training"]["stop"]["name"] == "solved":
        config["training"]["stop"]["every"] = 2
    if config["training"]["plateau"]["name"] == "halve":
        config["training"]["plateau"]["hold"] = 0
    config["evaluation"] = {} if task in ("penn_treebank", "text") else {"count": 2}
    return composed(config)
