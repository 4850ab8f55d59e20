"""The verifications of a study's runs, by enumeration, samples and extrapolation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError
from unbounded.experiments.run.verification import check_verification
from unbounded.experiments.tables.markdown import grid, number_cell
from unbounded.experiments.tables.published import Published
from unbounded.experiments.tables.runs_file import AGAIN, VERIFIED, read_runs_file
from unbounded.experiments.trials.paper_studies import Study
from unbounded.experiments.trials.trial import Trial

#: Pairs of a verified trial and its verification report.
Verified = Sequence[tuple[Trial, Mapping[str, Any]]]

_LEGEND = """\
"every" is the range of lengths at which every sequence was checked, followed by the number of
symbols if the strings have an alphabet. "correct" counts the correct ones of these sequences.
"drawn" is correct / checked random sequences at each further length. "margin" is the least
difference between the logit of the correct answer and the next one. "certainty" is the certainty of
the least saturated gate. "first error" is the length of the first error, from the shortest training
length on. If no error was found, it is the length at which the trend of the margins predicts one
("expected")."""


def read_verified(study: Study, out: Path) -> list[tuple[Trial, dict[str, Any]]]:
    """Read the verifications of a study's trials.

    If a run has two phases, its verification belongs to the last one.

    Raises:
        CheckpointError: the file of verifications is damaged; the message says what to do.
    """
    kept = verifications(out)
    last = {trial.name: trial for trial in study.trials}
    return [(trial, kept[name]) for name, trial in last.items() if name in kept]


def verifications(out: Path) -> dict[str, dict[str, Any]]:
    """Read the verifications in the folder of a table, by the name of the run.

    Raises:
        CheckpointError: the file of verifications is damaged; the message says what to do.
    """
    path = out / VERIFIED
    kept = read_runs_file(path)
    for data in kept.values():
        try:
            check_verification(data, path)
        except CheckpointError as error:
            raise CheckpointError(f"{error}. {AGAIN}") from error
    return kept


def verified_grid(verified: Verified, published: Published) -> str:
    """A row for each verified run, and the meaning of the columns."""
    if not verified:
        return "No run is verified."
    header = ["run", "seed", "every", "correct", "drawn", "margin", "certainty", "first error"]
    rows = [_row(trial, report, published) for trial, report in verified]
    return f"{grid(header, rows)}\n\n{_LEGEND}"


def _row(trial: Trial, report: Mapping[str, Any], published: Published) -> tuple[str, ...]:
    every = [row for row in report["rows"] if row["how"] == "every"]
    drawn = [row for row in report["rows"] if row["how"] == "drawn"]
    lengths = f"{every[0]['length']}:{every[-1]['length']}" if every else "–"
    if every and len(report["alphabet"]):
        lengths += f", {len(report['alphabet'])} symbols"
    correct, count = (sum(row[name] for row in every) for name in ("correct", "count"))
    least = [row["least_margin"] for row in report["rows"] if row["least_margin"] is not None]
    certainty, first = report["least_certainty"], report["first_error"]
    expected = (report["predicted"] or {}).get("first_error")
    return (
        f"{published.tasks[trial.task]}, {published.models[trial.model].title}",
        str(trial.config.seed),
        lengths,
        f"{correct} of {count}" if every else "–",
        ", ".join(f"{row['length']}: {row['correct']}/{row['count']}" for row in drawn) or "–",
        f"{min(least):.2f}" if least else "–",
        number_cell(certainty, 4),
        f"{first}" if first is not None else f"{expected} expected" if expected else "none seen",
    )
