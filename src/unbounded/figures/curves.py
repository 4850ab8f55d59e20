"""Curves of a run's metrics: training perplexity and accuracies against batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp
from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError, StorageError
from unbounded.files import read_text

Points = dict[int, float]

_GREATEST = 700  # in nats; a larger perplexity overflows


@dataclass(frozen=True)
class Curves:
    """The measurements of one run, each as a mapping from batch to value.

    Fields:
        perplexity: training perplexity, the mean over the batches since the point before.
        exact_match, partial_accuracy: accuracies by length range, e.g. "65:128".
        validation: validation perplexity, where the learning rate depends on it.
        learning_rate: the rate of the first report, and of each later report with a changed rate.
    """

    perplexity: Points = field(default_factory=dict)
    exact_match: dict[str, Points] = field(default_factory=dict)
    partial_accuracy: dict[str, Points] = field(default_factory=dict)
    validation: Points = field(default_factory=dict)
    learning_rate: Points = field(default_factory=dict)

    @property
    def batches(self) -> int:
        """The last batch with a measurement; 0 without one."""
        measured = [
            self.perplexity,
            self.validation,
            *self.exact_match.values(),
            *self.partial_accuracy.values(),
        ]
        return max((batch for points in measured for batch in points), default=0)

    def to_json(self) -> dict[str, Any]:
        """Lists of [batch, value] pairs for a report file, with values to six digits."""
        return {
            "perplexity": _pairs(self.perplexity),
            "exact_match": {
                lengths: _pairs(points) for lengths, points in self.exact_match.items()
            },
            "partial_accuracy": {
                lengths: _pairs(points) for lengths, points in self.partial_accuracy.items()
            },
            "validation": _pairs(self.validation),
            "learning_rate": _pairs(self.learning_rate),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Curves:
        """Read the curves that `to_json` wrote.

        Reports before 2026-11-27 have only the first three.
        """
        return cls(
            dict(map(tuple, data["perplexity"])),
            {lengths: dict(map(tuple, pairs)) for lengths, pairs in data["exact_match"].items()},
            {
                lengths: dict(map(tuple, pairs))
                for lengths, pairs in data["partial_accuracy"].items()
            },
            dict(map(tuple, data.get("validation", []))),
            dict(map(tuple, data.get("learning_rate", []))),
        )


def read_curves(run_folder: Path) -> Curves:
    """Read the curves of a run folder from its metrics.jsonl.

    Raises:
        CheckpointError: the folder has no metrics.jsonl, or a line of it is not a record (the last
            one may be truncated by a crash).
    """
    path = run_folder / "metrics.jsonl"
    if not path.is_file():
        raise CheckpointError(f"{run_folder} holds no metrics.jsonl; is it a run folder?")
    try:
        lines = read_text(path).split("\n")
        return curves_of(json.loads(line) for line in lines[:-1])
    except StorageError as error:
        raise CheckpointError(str(error)) from error
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is not a metrics file: {error!r}") from error


def curves_of(records: Iterable[Mapping[str, Any]]) -> Curves:
    """Sort metric records into curves. Other kinds of records are ignored."""
    curves = Curves()
    rate = None
    for record in records:
        batch = int(record["batch"])
        if record["kind"] == "train":
            if record["perplexity"] is not None:
                curves.perplexity[batch] = float(record["perplexity"])
            if record.get("learning_rate", rate) != rate:
                rate = curves.learning_rate[batch] = float(record["learning_rate"])
        elif record["kind"] == "plateau":
            nats = record.get("validation_nats_per_token")
            if nats is not None and nats < _GREATEST:
                curves.validation[batch] = exp(nats)
        elif record["kind"] == "accuracy":
            lengths = str(record["lengths"])
            curves.exact_match.setdefault(lengths, {})[batch] = float(record["exact_match"])
            curves.partial_accuracy.setdefault(lengths, {})[batch] = float(
                record["partial_accuracy"]
            )
    return curves


def _pairs(points: Points) -> list[list[float]]:
    return [[batch, float(f"{value:.6g}")] for batch, value in sorted(points.items())]
