"""Read from a run's report what tables need: numbers, selection metric and success."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unbounded.evaluation.memory_use import use_text
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.evaluation.metric_sets.base import row_of


@dataclass(frozen=True)
class Measures:
    """The numbers of one run.

    Fields:
        metric_set: name of the metric set.
        values: number of each column of the metric set; None if the report lacks it.
        longer: lengths -> numbers, for the report's other rows.
        selection_metric: the criterion for choosing among runs, lower is better; infinite if
            missing.
        success: whether the run succeeds; None if the metric set defines no success.
        lengths: length range of the test columns, such as "65:128"; empty for a text.
        exact_match: exact match of each row that has it, in the report's order.
        memory: mean instructions to the memory at these lengths; empty if unknown.
        roles: lengths -> role, for each row that has both.
    """

    metric_set: str
    values: Mapping[str, float | None]
    longer: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    selection_metric: float = math.inf
    success: bool | None = None
    lengths: str = ""
    exact_match: tuple[float, ...] = ()
    memory: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)


def measures(report: Mapping[str, Any], phase: str = "trained") -> Measures:
    """The numbers of a report.

    Args:
        report: report of a finished run, from `load_report`.
        phase: "trained", or "hardened" for the run's hardened model.
    Raises:
        KeyError, TypeError, ValueError: the report lacks the phase, or is damaged.
    """
    part = report if phase == "trained" else report[phase]
    metric_set = metric_set_of(report["metric_set"])
    rows, selection_metric = part["rows"], part["selection_metric"]
    tested = row_of(rows, "test") or {}
    exact_match = tuple(float(row["exact_match"]) for row in rows if "exact_match" in row)
    return Measures(
        report["metric_set"],
        metric_set.values(part),
        metric_set.further(rows),
        math.inf if selection_metric is None else float(selection_metric),
        part["success"],
        tested.get("lengths", ""),
        exact_match,
        use_text(part, tested.get("lengths", "")),
        {row["lengths"]: row["role"] for row in rows if {"lengths", "role"} <= row.keys()},
    )


def spent(report: Mapping[str, Any], phase: str = "trained") -> tuple[int, float]:
    """The batches and minutes up to the end of a phase, with the training before it."""
    phases = [report] if phase == "trained" else [report, report[phase]]
    batches = sum(int(part["batches"]) for part in phases)
    return batches, sum(float(part["minutes"]) for part in phases)
