"""What was verified of the runs of a study: proven by enumeration, drawn, extrapolated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.experiments.run.verification import check_verification
from unbounded.experiments.tables.markdown import grid
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.study_file import AGAIN, VERIFIED, read_study_file
from unbounded.experiments.trials.studies import Study, Trial

#: Each trial that is verified with the report of that.
Verified = Sequence[tuple[Trial, Mapping[str, Any]]]

_LEGEND = """\
"every" is the range of lengths of which every sequence was looked at (of words, over an alphabet of
so many symbols), and how many were right; "drawn" is right / looked at for each other length;
"margin" the least difference between the right answer's logit and the next, and "certainty" that of
the least saturated gate; "first error" where the first one was met, at the shortest length of
training or beyond, or else where the trend of the margins says that it is to be expected."""


def read_verified(study: Study, out: Path) -> list[tuple[Trial, dict[str, Any]]]:
    """The verifications of a study's trials; of two phases of a run, of the last.

    Raises:
        CheckpointError: the file of verifications is damaged; the message says what to do.
    """
    kept = verifications(out)
    last = {trial.name: trial for trial in study.trials}
    return [(trial, kept[name]) for name, trial in last.items() if name in kept]


def verifications(out: Path) -> dict[str, dict[str, Any]]:
    """The verifications in the folder of a table, by the name of the run.

    Raises:
        CheckpointError: the file of verifications is damaged; the message says what to do.
    """
    path = out / VERIFIED
    kept = read_study_file(path)
    for data in kept.values():
        try:
            check_verification(data, path)
        except CheckpointError as error:
            raise CheckpointError(f"{error}. {AGAIN}") from error
    return kept


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
