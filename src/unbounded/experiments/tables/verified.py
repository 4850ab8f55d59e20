"""What was verified of the runs of a tier: proven by enumeration, drawn, extrapolated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.experiments.run.verification import read_verification
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.results import AGAIN
from unbounded.experiments.trials.tiers import Tier, Trial

#: Each trial that is verified with the report of that.
Verified = Sequence[tuple[Trial, Mapping[str, Any]]]

_LEGEND = """\
"every" is the range of lengths of which every sequence was looked at (of words, over an alphabet of
so many symbols), and how many were right; "drawn" is right / looked at for each other length;
"margin" the least difference between the right answer's logit and the next, and "certainty" that of
the least decided decision; "first error" where the first one was met, at the shortest length of
training or beyond, or else where the trend of the margins says that it is to be expected."""


def read_verified(tier: Tier, out: Path) -> list[tuple[Trial, dict[str, Any]]]:
    """The verifications in `out/verified` of a tier's trials; of two phases of a run, of the last.

    Raises:
        CheckpointError: a file there is no verification; the message says what to do.
    """
    last = {trial.name: trial for trial in tier.trials}
    paths = {name: out / "verified" / f"{name}.json" for name in last}
    return [(last[name], read_kept(path)) for name, path in paths.items() if path.is_file()]


def read_kept(path: Path) -> dict[str, Any]:
    """A verification in `out/verified`.

    Raises:
        CheckpointError: the file is no verification; the message says what to do.
    """
    try:
        return read_verification(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}. {AGAIN}") from error


def verified_grid(verified: Verified, published: Published) -> str:
    """A row for each run, and what its columns mean."""
    if not verified:
        return "None is verified."
    header = ["run", "seed", "every", "right", "drawn", "margin", "certainty", "first error"]
    return (
        f"{grid(header, [_row(trial, found, published) for trial, found in verified])}\n\n{_LEGEND}"
    )


def _row(trial: Trial, found: Mapping[str, Any], published: Published) -> tuple[str, ...]:
    every = [row for row in found["rows"] if row["how"] == "every"]
    drawn = [row for row in found["rows"] if row["how"] == "drawn"]
    lengths = f"{every[0]['length']}:{every[-1]['length']}" if every else "–"
    if every and len(found["alphabet"]):
        lengths += f", {len(found['alphabet'])} symbols"
    right, count = (sum(row[name] for row in every) for name in ("right", "count"))
    least = [row["least_margin"] for row in found["rows"] if row["least_margin"] is not None]
    certainty, first = found["least_certainty"], found["first_error"]
    expected = (found["predicted"] or {}).get("first_error")
    return (
        f"{published.tasks[trial.task]}, {published.models[trial.model].title}",
        str(trial.config.seed),
        lengths,
        f"{right} of {count}" if every else "–",
        ", ".join(f"{row['length']}: {row['right']}/{row['count']}" for row in drawn) or "–",
        f"{min(least):.2f}" if least else "–",
        "–" if certainty is None else f"{certainty:.4f}",
        f"{first}" if first is not None else f"{expected} expected" if expected else "none seen",
    )
