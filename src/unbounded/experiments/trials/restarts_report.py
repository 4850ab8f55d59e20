"""The results of one config's seeds: all of them, and the best by the selection metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from unbounded.evaluation.metric_sets import MetricSet, metric_set_of
from unbounded.evaluation.provenance import provenance
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.device import device_of
from unbounded.experiments.run.matmul_precision import matmul_precision
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.measures import Measures, measures
from unbounded.files import json_text, storage_errors, write_text

FORMAT = "unbounded-restarts"
VERSION = 1


@dataclass(frozen=True)
class Restarts:
    """The results of the seeds of one config.

    Fields:
        folder: folder of restarts.json and restarts.md.
        text: the table, as in restarts.md.
        data: the data of restarts.json.
    """

    folder: Path
    text: str
    data: dict[str, Any]


def report_restarts(
    configs: Sequence[RunConfig], reports: Sequence[Mapping[str, Any]], root: Path
) -> Restarts:
    """Choose the best restart by its selection metric, never by test data; report all of them.

    Args:
        configs: one config per seed.
        reports: the reports of the finished runs, in the same order.
        root: the folder of the run folders; it also gets the table's folder, one per first seed.
    Raises:
        StorageError: a file cannot be written.
    """
    numbers = [measures(report) for report in reports]
    metric_set = metric_set_of(numbers[0].metric_set)
    parts = [_part(result, report) for result, report in zip(numbers, reports, strict=True)]
    over, chosen_by = _over(numbers), metric_set.selection_metric
    final = numbers
    if all("hardened" in report for report in reports):
        # Choose among the hardened models, the final result of the runs.
        final = [measures(report, "hardened") for report in reports]
        chosen_by = f"{chosen_by}, hardened"
        over["hardened"] = _over(final)
        for part, result, report in zip(parts, final, reports, strict=True):
            part["hardened"] = _part(result, report["hardened"])
    measured = [
        place for place, result in enumerate(final) if math.isfinite(result.selection_metric)
    ]
    best = min(measured, key=lambda place: final[place].selection_metric) if measured else None
    with matmul_precision(configs[0].hardware.matmul_precision):
        origin = provenance(device_of(configs[0]))
    data = {
        "format": FORMAT,
        "version": VERSION,
        "task": configs[0].task["name"],
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
    text = restarts_table(data, metric_set)
    first = run_name(configs[0])
    if configs[0].seed == RunConfig().seed:
        first = first.rpartition("-seed")[0]
    folder = root / f"{first}-restarts"
    with storage_errors(folder, "making folder"):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "restarts.json", json_text(data, indent=2) + "\n")
    write_text(folder / "restarts.md", text + "\n")
    return Restarts(folder, text, data)


def _part(numbers: Measures, report: Mapping[str, Any]) -> dict[str, Any]:
    """The results of one phase of a restart."""
    ends = {name: report[name] for name in ("batches", "minutes", "stopped")}
    return {
        "selection_metric": numbers.selection_metric,
        "success": numbers.success,
        **numbers.values,
        **ends,
    }


def _over(runs: Sequence[Measures]) -> dict[str, Any]:
    """Statistics of one phase over all restarts; a column that no report has is null."""
    values = {
        name: [number for run in runs if (number := run.values[name]) is not None]
        for name in runs[0].values
    }
    return {
        what: {name: function(column) if column else None for name, column in values.items()}
        for what, function in (("median", median), ("least", min), ("greatest", max))
    } | {"successes": sum(run.success is True for run in runs)}


def restarts_table(data: Mapping[str, Any], metric_set: MetricSet) -> str:
    """The table of all restarts, with best, median and spread; also for the hardened models.

    Args:
        data: the data of restarts.json.
        metric_set: the task's metric set.
    """
    columns = metric_set.columns
    labels = {"": data, ", hardened": data["hardened"]} if "hardened" in data else {"": data}
    names = [f"{name}{label}" for label in labels for name in columns]
    lines = []
    for restart in data["restarts"]:
        parts = [restart, restart["hardened"]] if "hardened" in restart else [restart]
        numbers = [_text(part[name], digits) for part in parts for name, digits in columns.items()]
        mark = " (best)" if restart["run"] == data["best"] else ""
        selection_metric = (
            f"{parts[-1]['selection_metric']:.4g}"
            if math.isfinite(parts[-1]["selection_metric"])
            else "–"
        )
        # The costs of the phases add up.
        batches, minutes = (sum(part[name] for part in parts) for name in ("batches", "minutes"))
        seed, ended = f"{restart['seed']}{mark}", parts[-1]["stopped"]
        lines.append([seed, selection_metric, *numbers, str(batches), f"{minutes:.1f}", ended])
    over = []
    for label, part in labels.items():
        for name, digits in columns.items():
            middle, low, high = (
                _text(part[what][name], digits) for what in ("median", "least", "greatest")
            )
            over.append(f"{name}{label}: median {middle}, from {low} to {high}")
        if metric_set.success:
            over.append(f"{metric_set.success}{label}: {part['successes']} of {len(lines)}")
    best = (
        data["best"] or "none: no restart has a value (its budget is below training.report_every)"
    )
    text = f"{data['task']}, {len(lines)} restarts, the best by {data['chosen_by']}: {best}"
    header = ["seed", data["chosen_by"], *names, "batches", "minutes", "ended"]
    return "\n\n".join([text, grid(header, lines, lined_up=True), "; ".join(over)])


def _text(number: float | None, digits: int) -> str:
    return "–" if number is None else f"{number:.{digits}f}"
