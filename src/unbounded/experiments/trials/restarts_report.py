"""What the seeds of one config came to: all of them, and the best by its scoring's merit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.evaluation.provenance import provenance
from unbounded.evaluation.scorings import Scoring, scoring_of
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.device import device_of
from unbounded.experiments.run.matmul_precision import matmul_precision
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.measures import Measures, measures
from unbounded.files import json_text, storage_faults, write_text

FORMAT = "unbounded-restarts"
VERSION = 1


@dataclass(frozen=True)
class Restarts:
    """What the seeds of one config came to.

    Fields:
        folder: with restarts.json and restarts.md.
        text: the table, as in restarts.md.
        data: what restarts.json holds.
    """

    folder: Path
    text: str
    data: dict[str, Any]


def report_restarts(
    configs: Sequence[RunConfig], reports: Sequence[Mapping[str, Any]], root: Path
) -> Restarts:
    """Choose the best restart by its scoring's merit, never by test, and write down all of them.

    Args:
        configs: one for each seed.
        reports: of the finished runs, in the same order.
        root: the folder of the run folders; the table goes beside them, into a folder of its own
            for each first seed.
    Raises:
        StorageError: the disk refused.
    """
    numbers = [measures(report) for report in reports]
    scoring = scoring_of(numbers[0].scoring)
    parts = [_part(own, report) for own, report in zip(numbers, reports, strict=True)]
    over, chosen_by = _over(numbers), scoring.merit
    final = numbers
    if all("rounded" in report for report in reports):
        # What is chosen among are the machines that the runs end with.
        final = [measures(report, "rounded") for report in reports]
        chosen_by = f"{chosen_by}, rounded"
        over["rounded"] = _over(final)
        for part, own, report in zip(parts, final, reports, strict=True):
            part["rounded"] = _part(own, report["rounded"])
    measured = [place for place, own in enumerate(final) if math.isfinite(own.merit)]
    best = min(measured, key=lambda place: final[place].merit) if measured else None
    with matmul_precision(configs[0].machine.matmul_precision):
        origin = provenance(device_of(configs[0]))
    data = {
        "format": FORMAT,
        "version": VERSION,
        "task": configs[0].task,
        "config": to_dict(configs[0]),
        "chosen_by": chosen_by,
        "best": None if best is None else run_name(configs[best]),
        "restarts": [
            {"run": run_name(config), "seed": config.seed, **part}
            for config, part in zip(configs, parts, strict=True)
        ],
        **over,
        **origin,
    }
    text = restarts_table(data, scoring)
    first = run_name(configs[0])
    if configs[0].seed == RunConfig().seed:
        first = first.rpartition("-seed")[0]
    folder = root / f"{first}-restarts"
    with storage_faults(folder, "making folder"):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "restarts.json", json_text(data, indent=2) + "\n")
    write_text(folder / "restarts.md", text + "\n")
    return Restarts(folder, text, data)


def _part(numbers: Measures, report: Mapping[str, Any]) -> dict[str, Any]:
    """What one phase of a restart came to."""
    ends = {name: report[name] for name in ("batches", "minutes", "stopped")}
    return {"merit": numbers.merit, "success": numbers.success, **numbers.values, **ends}


def _over(runs: Sequence[Measures]) -> dict[str, Any]:
    """What one phase of all restarts came to; a column that no report has is null."""
    values = {
        name: [number for run in runs if (number := run.values[name]) is not None]
        for name in runs[0].values
    }
    return {
        what: {name: function(own) if own else None for name, own in values.items()}
        for what, function in (("median", median), ("least", min), ("greatest", max))
    } | {"successes": sum(run.success is True for run in runs)}


def restarts_table(data: Mapping[str, Any], scoring: Scoring) -> str:
    """Every restart, then the best, the median and the spread; after rounding too, if it was done.

    Args:
        data: what restarts.json holds.
        scoring: of the task.
    """
    columns = scoring.columns
    labels = {"": data, ", rounded": data["rounded"]} if "rounded" in data else {"": data}
    names = [f"{name}{label}" for label in labels for name in columns]
    lines = []
    for restart in data["restarts"]:
        parts = [restart, restart["rounded"]] if "rounded" in restart else [restart]
        numbers = [_text(part[name], digits) for part in parts for name, digits in columns.items()]
        mark = " (best)" if restart["run"] == data["best"] else ""
        merit = f"{parts[-1]['merit']:.4g}" if math.isfinite(parts[-1]["merit"]) else "–"
        # What a later phase cost comes on top of the training before it.
        batches, minutes = (sum(part[name] for part in parts) for name in ("batches", "minutes"))
        seed, ended = f"{restart['seed']}{mark}", parts[-1]["stopped"]
        lines.append([seed, merit, *numbers, str(batches), f"{minutes:.1f}", ended])
    over = []
    for label, part in labels.items():
        for name, digits in columns.items():
            middle, low, high = (
                _text(part[what][name], digits) for what in ("median", "least", "greatest")
            )
            over.append(f"{name}{label}: median {middle}, from {low} to {high}")
        if scoring.success:
            over.append(f"{scoring.success}{label}: {part['successes']} of {len(lines)}")
    best = data["best"] or "none, for no restart has one (a budget below training.report_every)"
    text = f"{data['task']}, {len(lines)} restarts, the best by {data['chosen_by']}: {best}"
    header = ["seed", data["chosen_by"], *names, "batches", "minutes", "ended"]
    return "\n\n".join([text, grid(header, lines, lined_up=True), "; ".join(over)])


def _text(number: float | None, digits: int) -> str:
    return "–" if number is None else f"{number:.{digits}f}"
