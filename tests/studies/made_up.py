"""Runs of a study with made-up numbers."""

from __future__ import annotations

from typing import Any

from unbounded.experiments.tables.measures import Measures
from unbounded.studies.run_results import StudyRun


def run(
    axes: dict[str, Any],
    seed: int = 0,
    test: float = 0.5,
    validation: float = 1.0,
    success: bool | None = None,
) -> StudyRun:
    numbers = Measures("sequences", {"test_exact_match": test}, {}, validation, success)
    return StudyRun(f"run-{axes}-{seed}", "copy", axes, seed, "finished", numbers, 10, 0.5)
