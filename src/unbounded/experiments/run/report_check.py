"""Check that a report.json has all that the printed output and the tables need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError, UnboundedError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.evaluation.report import details, table
from unbounded.experiments.config.schema import from_dict

_NEEDED: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "metric_set": str,
    "split": str,
    "seed": int,
    "model": str,
    "batches": int,
    "minutes": (int, float),
    "stopped": str,
    "rows": list,
    "config": dict,
}
#: Advice for a damaged report of an existing run.
REMADE = "Delete it, and --resume makes it again from the newest checkpoint"
#: Exceptions that damaged values cause in the code that reads them.
OUTCOMES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
    UnboundedError,
)


def check_report(report: dict[str, Any], path: Path) -> None:
    """Check a finished run's report by formatting it as the output and the tables do.

    Raises:
        CheckpointError: an entry is missing or invalid; the message names it and the file, and says
            what to do.
    """
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(report.get(name), kind)]
    reason = f"missing or invalid: {', '.join(wrong)}" if wrong else ""
    if not wrong:
        try:
            from_dict(report["config"])
            _look(report)
            if "hardened" in report:
                _look({**report, **report["hardened"]})
        except OUTCOMES as error:
            reason = str(error).split("\n", 1)[0] or type(error).__name__
    if reason:
        raise CheckpointError(f"{path} is damaged, or not a run's report ({reason}). {REMADE}")


def _look(report: dict[str, Any]) -> None:
    metric_set = metric_set_of(report["metric_set"])
    table(report)
    details(report)
    metric_set.values(report)
    metric_set.further(report["rows"])
    metric_set.label(report["rows"])
