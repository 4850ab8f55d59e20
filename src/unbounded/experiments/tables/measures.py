"""What a table takes from a run's report: its numbers, what chooses among runs, and success."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.evaluation.metric_sets.base import row_of
from unbounded.evaluation.use_text import use_text


@dataclass(frozen=True)
class Measures:
    """The numbers of one run.

    Fields:
        metric_set: name of the metric set.
        values: column -> number, None where the report has none; the columns are the metric set's.
        longer: lengths -> numbers, for every further row of the report.
        selection_metric: what chooses among runs, the less the better; infinite where it is
            missing.
        success: whether it does what a table counts; None where nothing is counted.
        lengths: the range that the test columns are of, e.g. "65:128"; empty for a text.
        exact_match: share of sequences that are right, of each row that has one, in their order.
        memory: what the memory was told at these lengths, in the mean; empty where it is not known.
    """

    metric_set: str
    values: Mapping[str, float | None]
    longer: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    selection_metric: float = math.inf
    success: bool | None = None
    lengths: str = ""
    exact_match: tuple[float, ...] = ()
    memory: str = ""


def measures(report: Mapping[str, Any], phase: str = "trained") -> Measures:
    """The numbers of a report, as `load_report` gives it.

    Args:
        report: of a finished run.
        phase: "trained", or "hardened" for what the same run was after hardening.
    Raises:
        KeyError, TypeError, ValueError: the report has another form, or no such phase.
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
    )
