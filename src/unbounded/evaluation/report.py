"""Format scores as a JSON report and as a table for the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from unbounded.evaluation.memory_use import use_lines
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.evaluation.provenance import provenance
from unbounded.files import printable

FORMAT = "unbounded-report"
VERSION = 5


def make_report(
    *,
    task: str,
    metric_set: str,
    split: str,
    seed: int,
    rows: Sequence[Mapping[str, Any]],
    device: torch.device | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """Build a report from settings, rows and further entries, with their origin.

    Args:
        device: the device of the computation; None for the CPU.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "task": task,
        "metric_set": metric_set,
        "split": split,
        "seed": seed,
        **facts,
        "rows": list(rows),
        **provenance(device),
    }


def outcome(metric_set: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a table that are not in a report's rows: selection metric and success."""
    rule = metric_set_of(metric_set)
    return {
        "selection_metric": rule.selection_metric_of(report),
        "success": rule.succeeded(report["rows"]),
    }


def table(report: Mapping[str, Any]) -> str:
    """The rows of a report and its memory use, as aligned text."""
    metric_set = metric_set_of(report["metric_set"])
    head = f"{report['task']}, split {report['split']}, seed {report['seed']}"
    rows = report["rows"]
    notes = map(printable, [*metric_set.notes(rows), *_nan_notes(rows)])
    return "\n".join(
        [printable(head), *aligned(metric_set.lines(rows)), *notes, *use_lines(report)]
    )


def _nan_notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where logits are NaN because the model overflowed. Strings with NaN logits are incorrect."""
    return [
        f"NaN in {row['nan']} of {row['count']} strings of {row['lengths']}: they count as wrong"
        for row in rows
        if row.get("nan")
    ]


def details(report: Mapping[str, Any]) -> str:
    """The numbers that the table does not show, as aligned text; empty without such numbers."""
    lines = metric_set_of(report["metric_set"]).details(report["rows"])
    return "\n".join(aligned(lines)) if lines else ""


def aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Align cells in columns, with a rule below the first line.

    A "?" replaces unprintable characters.
    """
    lines = [tuple(printable(cell) for cell in line) for line in lines]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    texts.insert(1, "-" * len(texts[0]))
    return texts
