"""Whether a report.json says what the screen and the tables take from a finished run's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError, UnboundedError
from unbounded.evaluation.report import details, table
from unbounded.evaluation.scorings import scoring_of
from unbounded.experiments.config.schema import from_dict

_NEEDED: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "scoring": str,
    "split": str,
    "seed": int,
    "model": str,
    "batches": int,
    "minutes": (int, float),
    "stopped": str,
    "rows": list,
    "config": dict,
}
#: What to do about a damaged report of a run that is there.
REMADE = "Delete it, and --resume makes it again from the newest checkpoint"
#: What a damaged value leads to, wherever it is looked at.
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
    """Check a finished run's report by looking at it as the screen and the tables do.

    Raises:
        CheckpointError: something is missing or has another form; the message says what, names the
            file and says what to do.
    """
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(report.get(name), kind)]
    reason = f"what is missing or has another form: {', '.join(wrong)}" if wrong else ""
    if not wrong:
        try:
            from_dict(report["config"])
            _look(report)
            if "rounded" in report:
                _look({**report, **report["rounded"]})
        except OUTCOMES as error:
            reason = str(error).split("\n", 1)[0] or type(error).__name__
    if reason:
        raise CheckpointError(f"{path} is damaged, or no report of a run ({reason}). {REMADE}")


def _look(report: dict[str, Any]) -> None:
    scoring = scoring_of(report["scoring"])
    table(report)
    details(report)
    scoring.values(report)
    scoring.further(report["rows"])
    scoring.label(report["rows"])
