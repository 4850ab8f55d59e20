"""What a run's metrics say over time: training perplexity and accuracies against batches."""

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

_GREATEST = 700  # nats whose perplexity is a float


@dataclass(frozen=True)
class Curves:
    """The measurements of one run, each as batch -> value.

    Fields:
        perplexity: training perplexity, the mean over the batches since the point before.
        coarse, fine: accuracies by the lengths of what was scored, e.g. "65:128".
        validation: perplexity on validation, where looks at it set the learning rate.
        learning_rate: of the first report, and of each one since whose rate was another.
    """

    perplexity: Points = field(default_factory=dict)
    coarse: dict[str, Points] = field(default_factory=dict)
    fine: dict[str, Points] = field(default_factory=dict)
    validation: Points = field(default_factory=dict)
    learning_rate: Points = field(default_factory=dict)

    @property
    def batches(self) -> int:
        """The last batch at which something was measured; 0 where nothing was."""
        measured = [self.perplexity, self.validation, *self.coarse.values(), *self.fine.values()]
        return max((batch for points in measured for batch in points), default=0)

    def to_json(self) -> dict[str, Any]:
        """Lists of [batch, value] pairs for a report file, values to six digits."""
        return {
            "perplexity": _pairs(self.perplexity),
            "coarse": {lengths: _pairs(points) for lengths, points in self.coarse.items()},
            "fine": {lengths: _pairs(points) for lengths, points in self.fine.items()},
            "validation": _pairs(self.validation),
            "learning_rate": _pairs(self.learning_rate),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Curves:
        """The curves that `to_json` wrote; reports of before 2026-11-27 have the first three."""
        return cls(
            dict(map(tuple, data["perplexity"])),
            {lengths: dict(map(tuple, pairs)) for lengths, pairs in data["coarse"].items()},
            {lengths: dict(map(tuple, pairs)) for lengths, pairs in data["fine"].items()},
            dict(map(tuple, data.get("validation", []))),
            dict(map(tuple, data.get("learning_rate", []))),
        )


def read_curves(run_folder: Path) -> Curves:
    """Read the curves of a run folder from its metrics.jsonl.

    Raises:
        CheckpointError: the folder holds no metrics.jsonl, or a line of it is no record (the last
            one may be cut short by a crash).
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
    """Sort metric records into curves; kinds of record that are no point of a curve are passed."""
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
            curves.coarse.setdefault(lengths, {})[batch] = float(record["accuracy_coarse"])
            curves.fine.setdefault(lengths, {})[batch] = float(record["accuracy_fine"])
    return curves


def _pairs(points: Points) -> list[list[float]]:
    return [[batch, float(f"{value:.6g}")] for batch, value in sorted(points.items())]
