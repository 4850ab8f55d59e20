"""Runs of a study with made-up numbers."""

from __future__ import annotations

from typing import Any

from unbounded.experiments.tables.measures import Measures
from unbounded.studies.run_results import StudyRun


def run(
    axes: dict[str, Any],
    seed: int = 0,
    test: float | None = 0.5,
    validation: float = 1.0,
    success: bool | None = None,
    roles: dict[str, str] | None = None,
    longer: dict[str, tuple[float, ...]] | None = None,
    task: str = "copy",
) -> StudyRun:
    values = {"test_exact_match": test}
    numbers = Measures("sequences", values, longer or {}, validation, success, roles=roles or {})
    return StudyRun(f"run-{axes}-{seed}", task, axes, seed, "finished", numbers, 10, 0.5)
