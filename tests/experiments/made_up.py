"""A tier of a few batches, and made-up reports of its trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unbounded.experiments.config import to_dict
from unbounded.experiments.tiers import Tier, Trial, make_tier

TINY: dict[str, Any] = {
    "about": "a few batches",
    "tasks": ["copy"],
    "models": ["queue", "lstm-1"],
    "hidden_sizes": [8],
    "learning_rates": [0.001],
    "seeds": [0, 1, 2],
    "batches": 4,
    "cells": {"copy/queue": {"model": {"memory_width": 4}}},
    "training": {
        "stop": "converged",
        "report_every": 2,
        "accuracy_every": 2,
        "accuracy_count": 4,
        "checkpoint_every": 2,
    },
    "evaluation": {"count": 4},
    "task_options": {"symbols": 4, "train_lengths": "2:4", "test_lengths": "5:6"},
}


def tiny_tier(**changes: Any) -> Tier:
    return make_tier("grefenstette2015", "tiny", {**TINY, **changes})


def made_up_report(
    trial: Trial,
    *,
    train: tuple[float, float] = (1.0, 1.0),
    test: tuple[float, float] = (1.0, 1.0),
    perplexity: float | None = 1.0,
    batches: int = 1000,
    minutes: float = 2.0,
    curve: dict[int, float] | None = None,
) -> dict[str, Any]:
    points = [[batch, value] for batch, value in (curve or {}).items()]
    return {
        "format": "unbounded-report",
        "version": 1,
        "config": to_dict(trial.config),
        "rows": [
            {"lengths": "2:4", "accuracy_coarse": train[0], "accuracy_fine": train[1]},
            {"lengths": "5:6", "accuracy_coarse": test[0], "accuracy_fine": test[1]},
            {"lengths": "7:12", "accuracy_coarse": 0.125, "accuracy_fine": 0.5},
        ],
        "perplexity_train": perplexity,
        "batches": batches,
        "minutes": minutes,
        "stopped": "budget: all done",
        "curves": {
            "perplexity": [[100, 2.0]],
            "coarse": {"5:6": points},
            "fine": {"5:6": points},
        },
    }


def write_report(out: Path, trial: Trial, **values: Any) -> None:
    folder = out / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{trial.name}.json").write_text(json.dumps(made_up_report(trial, **values)))
