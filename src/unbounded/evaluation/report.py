"""Scores over length ranges as a JSON report and as a table on the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unbounded.evaluation.provenance import provenance
from unbounded.evaluation.score import Score
from unbounded.tasks import LengthRange

FORMAT = "unbounded-report"
VERSION = 1


def sweep(
    lengths: Sequence[LengthRange], score_range: Callable[[LengthRange], Score]
) -> list[dict[str, Any]]:
    """Score each length range; one row of a report for each.

    Returns:
        Rows with lengths, count, right, accuracy_coarse with its 95 % Wilson interval, and
        accuracy_fine with its standard error.
    """
    return [row(each, score_range(each)) for each in lengths]


def row(lengths: LengthRange, score: Score) -> dict[str, Any]:
    """One row of a report."""
    low, high = score.interval(0.95)
    return {
        "lengths": str(lengths),
        "count": score.count,
        "right": score.right,
        "accuracy_coarse": score.coarse,
        "accuracy_coarse_95": [low, high],
        "accuracy_fine": score.fine,
        "accuracy_fine_error": score.fine_error,
    }


def make_report(
    *, task: str, split: str, seed: int, rows: Sequence[Mapping[str, Any]], **facts: Any
) -> dict[str, Any]:
    """A report: what was scored, the rows, any further facts, and where it came from."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "task": task,
        "split": split,
        "seed": seed,
        **facts,
        "rows": list(rows),
        **provenance(),
    }


def table(report: Mapping[str, Any]) -> str:
    """The rows of a report as aligned text."""
    lines = [("lengths", "sequences", "coarse", "95 % interval", "fine", "+-")]
    for each in report["rows"]:
        low, high = each["accuracy_coarse_95"]
        lines.append(
            (
                each["lengths"],
                str(each["count"]),
                f"{each['accuracy_coarse']:.3f}",
                f"{low:.3f}-{high:.3f}",
                f"{each['accuracy_fine']:.3f}",
                f"{each['accuracy_fine_error']:.3f}",
            )
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    texts.insert(1, "-" * len(texts[0]))
    return "\n".join([f"{report['task']}, split {report['split']}, seed {report['seed']}", *texts])
