"""What a table takes from a run's report: its numbers, what chooses among runs, and success."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unbounded.experiments.config import from_dict
from unbounded.experiments.kinds import kind_of
from unbounded.tasks import TASKS

#: What chooses among the runs of one kind, the less the better; never a number of the test split.
MERITS = {
    "pairs": "training perplexity",
    "streams": "validation nats per determined symbol",
    "text": "validation perplexity",
}
#: What counts as success, by kind.
SUCCESSES = {
    "pairs": "test coarse 1.00",
    "streams": "every length mastered",
    "text": "",
}
#: The columns of each kind, with the digits they are shown to.
COLUMNS = {
    "pairs": {"train_coarse": 2, "train_fine": 2, "test_coarse": 2, "test_fine": 2},
    "streams": {"percent": 1},
    "text": {"validation": 1, "test": 1},
}


@dataclass(frozen=True)
class Measures:
    """The numbers of one run.

    Fields:
        kind: pairs, streams or text.
        values: column -> number; the columns are those of COLUMNS.
        longer: lengths -> numbers, for every further row of the report.
        merit: what chooses among runs (MERITS), the less the better; infinite where it is missing.
        success: whether it does what a table counts (SUCCESSES); None where nothing is counted.
        lengths: the range that the last column is of, e.g. "65:128"; empty for a text.
    """

    kind: str
    values: Mapping[str, float]
    longer: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    merit: float = math.inf
    success: bool | None = None
    lengths: str = ""


def measures(report: Mapping[str, Any], phase: str = "trained") -> Measures:
    """The numbers of a report.

    Args:
        report: of a finished run.
        phase: "trained", or "rounded" for what the same run was after rounding.
    Raises:
        KeyError, TypeError, ValueError: the report has another form, or no such phase.
    """
    config = from_dict(report["config"])
    part = report if phase == "trained" else report[phase]
    return _MEASURES[kind_of(config.task).name](part, config)


def _pairs(report: Mapping[str, Any], config: Any) -> Measures:
    # Only the lengths are asked for: the task's vocabularies do not matter.
    task: Any = TASKS[config.task](**config.task_options)
    train = config.training.lengths or str(task.train_lengths)
    test = config.training.validation_lengths or str(task.test_lengths)
    rows = {
        row["lengths"]: (float(row["accuracy_coarse"]), float(row["accuracy_fine"]))
        for row in report["rows"]
    }
    numbers = (*rows.pop(train), *rows.pop(test))
    values = dict(zip(COLUMNS["pairs"], numbers, strict=True))
    merit = report["perplexity_train"]
    return Measures(
        "pairs",
        values,
        rows,
        math.inf if merit is None else float(merit),
        # As the paper prints it, to two digits.
        f"{values['test_coarse']:.2f}" == "1.00",
        test,
    )


def _streams(report: Mapping[str, Any], config: Any) -> Measures:
    first, *more = report["rows"]
    return Measures(
        "streams",
        {"percent": float(first["percent_of_lengths"])},
        {row["lengths"]: (float(row["percent_of_lengths"]),) for row in more},
        float(report["validation"]["determined_nats_per_token"]),
        first["lengths_mastered"] == first["lengths_scored"],
        first["lengths"],
    )


def _text(report: Mapping[str, Any], config: Any) -> Measures:
    validation = float(report["validation"]["perplexity"])
    values = {"validation": validation, "test": float(report["rows"][0]["perplexity"])}
    return Measures("text", values, {}, validation, None)


_MEASURES = {"pairs": _pairs, "streams": _streams, "text": _text}
