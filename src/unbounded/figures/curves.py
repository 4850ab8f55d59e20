"""What a run's metrics say over time: training perplexity and accuracies against batches."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError

Points = dict[int, float]


@dataclass(frozen=True)
class Curves:
    """The measurements of one run, each as batch -> value.

    Fields:
        perplexity: training perplexity, the mean over the batches since the point before.
        coarse, fine: accuracies by the lengths of what was scored, e.g. "65:128".
    """

    perplexity: Points = field(default_factory=dict)
    coarse: dict[str, Points] = field(default_factory=dict)
    fine: dict[str, Points] = field(default_factory=dict)

    @property
    def batches(self) -> int:
        """The last batch at which something was measured; 0 where nothing was."""
        ranges = [*self.coarse.values(), *self.fine.values()]
        return max((batch for points in [self.perplexity, *ranges] for batch in points), default=0)

    def to_json(self) -> dict[str, Any]:
        """Lists of [batch, value] pairs for a report file, values to six digits."""
        return {
            "perplexity": _pairs(self.perplexity),
            "coarse": {lengths: _pairs(points) for lengths, points in self.coarse.items()},
            "fine": {lengths: _pairs(points) for lengths, points in self.fine.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Curves:
        """The curves that `to_json` wrote."""
        return cls(
            dict(map(tuple, data["perplexity"])),
            {lengths: dict(map(tuple, pairs)) for lengths, pairs in data["coarse"].items()},
            {lengths: dict(map(tuple, pairs)) for lengths, pairs in data["fine"].items()},
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
        lines = path.read_text(encoding="utf-8").split("\n")
        return curves_of(json.loads(line) for line in lines[:-1])
    except (OSError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is not a metrics file: {error!r}") from error


def curves_of(records: Iterable[Mapping[str, Any]]) -> Curves:
    """Sort metric records into curves; kinds of record that are no point of a curve are passed."""
    curves = Curves()
    for record in records:
        batch = int(record["batch"])
        if record["kind"] == "train" and record["perplexity"] is not None:
            curves.perplexity[batch] = float(record["perplexity"])
        elif record["kind"] == "accuracy":
            lengths = str(record["lengths"])
            curves.coarse.setdefault(lengths, {})[batch] = float(record["accuracy_coarse"])
            curves.fine.setdefault(lengths, {})[batch] = float(record["accuracy_fine"])
    return curves


def _pairs(points: Points) -> list[list[float]]:
    return [[batch, float(f"{value:.6g}")] for batch, value in sorted(points.items())]
