"""Scores as a JSON report and as a table on the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from unbounded.evaluation.provenance import provenance
from unbounded.evaluation.scorings import scoring_of
from unbounded.evaluation.use_text import use_lines
from unbounded.files import printable

FORMAT = "unbounded-report"
VERSION = 2


def make_report(
    *,
    task: str,
    scoring: str,
    split: str,
    seed: int,
    rows: Sequence[Mapping[str, Any]],
    device: torch.device | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """A report: what was scored, the rows, any further facts, and where it came from.

    Args:
        device: where it was computed; None for the CPU.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "task": task,
        "scoring": scoring,
        "split": split,
        "seed": seed,
        **facts,
        "rows": list(rows),
        **provenance(device),
    }


def outcome(scoring: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """What a table takes from a run's report beside its rows: merit and success."""
    rule = scoring_of(scoring)
    return {"merit": rule.merit_of(report), "success": rule.succeeded(report["rows"])}


def table(report: Mapping[str, Any]) -> str:
    """The rows of a report as aligned text, and how its memory is used."""
    scoring = scoring_of(report["scoring"])
    head = f"{report['task']}, split {report['split']}, seed {report['seed']}"
    rows = report["rows"]
    notes = map(printable, [*scoring.notes(rows), *_nan_notes(rows)])
    return "\n".join([printable(head), *aligned(scoring.lines(rows)), *notes, *use_lines(report)])


def _nan_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where logits were NaN: such strings are wrong, and the numbers of the model overflowed."""
    return [
        f"NaN in {row['nan']} of {row['count']} strings of {row['lengths']}: they count as wrong"
        for row in rows
        if row.get("nan")
    ]


def details(report: Mapping[str, Any]) -> str:
    """More than the table, as aligned text; empty where there is no more."""
    lines = scoring_of(report["scoring"]).details(report["rows"])
    return "\n".join(aligned(lines)) if lines else ""


def aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of cells in columns, with a rule below the first; what cannot be printed is a "?"."""
    lines = [tuple(printable(cell) for cell in line) for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    texts.insert(1, "-" * len(texts[0]))
    return texts
