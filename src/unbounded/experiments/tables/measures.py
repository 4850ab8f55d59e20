"""What a table takes from a run's report: its numbers, what chooses among runs, and success."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unbounded.evaluation.scorings import scoring_of
from unbounded.evaluation.scorings.base import row_of
from unbounded.evaluation.use_text import use_text


@dataclass(frozen=True)
class Measures:
    """The numbers of one run.

    Fields:
        scoring: name of the scoring.
        values: column -> number, None where the report has none; the columns are the scoring's.
        longer: lengths -> numbers, for every further row of the report.
        merit: what chooses among runs, the less the better; infinite where it is missing.
        success: whether it does what a table counts; None where nothing is counted.
        lengths: the range that the test columns are of, e.g. "65:128"; empty for a text.
        coarse: share of sequences that are right, of each row that has one, in their order.
        memory: what the memory was told at these lengths, in the mean; empty where it is not known.
    """

    scoring: str
    values: Mapping[str, float | None]
    longer: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    merit: float = math.inf
    success: bool | None = None
    lengths: str = ""
    coarse: tuple[float, ...] = ()
    memory: str = ""


def measures(report: Mapping[str, Any], phase: str = "trained") -> Measures:
    """The numbers of a report, as `load_report` gives it.

    Args:
        report: of a finished run.
        phase: "trained", or "rounded" for what the same run was after rounding.
    Raises:
        KeyError, TypeError, ValueError: the report has another form, or no such phase.
    """
    part = report if phase == "trained" else report[phase]
    scoring = scoring_of(report["scoring"])
    rows, merit = part["rows"], part["merit"]
    tested = row_of(rows, "test") or {}
    coarse = tuple(float(row["accuracy_coarse"]) for row in rows if "accuracy_coarse" in row)
    return Measures(
        report["scoring"],
        scoring.values(part),
        scoring.further(rows),
        math.inf if merit is None else float(merit),
        part["success"],
        tested.get("lengths", ""),
        coarse,
        use_text(part, tested.get("lengths", "")),
    )
