"""The built-in networks of the package, for the page without a run.

Three were trained and hardened; their run folders are in results/explorer. Three are
constructed networks, with weights set by hand (docs/constructions.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from unbounded.constructions import CONSTRUCTIONS
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.verification import verification_of
from unbounded.explorer.run_data import run_data, run_of_folder
from unbounded.tasks import LengthRange, make_task

#: The run folders of the trained networks, in a checkout of the repository.
RUNS: Final = Path(__file__).parents[3] / "results" / "explorer"
#: Titles by the name of the run folder.
_TRAINED: Final = {
    "copy": "Copy with a queue, trained",
    "reversal": "Reversal with a stack, trained",
    "anbn": "a^n b^n with superposition stacks, trained",
}
#: For each constructed network: task, task options, options of the construction, lengths of
#: samples, and title.
_BY_HAND: Final[tuple[tuple[str, dict[str, Any], dict[str, Any], str, str], ...]] = (
    ("copy", {"symbols": 8}, {"symbols": 8}, "3:10", "Copy with a queue, set by hand"),
    ("reversal", {"symbols": 8}, {"symbols": 8}, "3:10", "Reversal with a stack, set by hand"),
    ("anbn", {}, {}, "2:8", "a^n b^n with a superposition stack, set by hand"),
)


def built_in_data() -> list[dict[str, Any]]:
    """The content of machines.json, which `python -m unbounded.explorer.built_in` prints.

    Raises:
        CheckpointError: the run folders are missing, because this is not a checkout.
    """
    return [*_trained(), *_by_hand()]


def _trained() -> list[dict[str, Any]]:
    runs = []
    for name, title in _TRAINED.items():
        run = run_of_folder(RUNS / name, hardened=True, weights="int8")
        report = RunFolder(RUNS / name).report()
        run["title"] = title
        run["note"] = f"{_training(report or {})}{_wrong(RUNS / name)} {run['note']}"
        runs.append(run)
    return runs


def _training(report: Mapping[str, Any]) -> str:
    """A note on a network's training and test scores."""
    longest = max(report["hardened"]["rows"], key=lambda row: int(row["lengths"].split(":")[-1]))
    first, last = report["train_lengths"].split(":")
    return (
        f"Trained on lengths {first} to {last} for {report['batches']} batches (seed "
        f"{report['seed']}), then hardened: its gates are 0 or 1. At length "
        f"{longest['lengths'].split(':')[-1]}, {longest['correct']} of {longest['count']} test "
        "strings are exact matches."
    )


def _wrong(folder: Path) -> str:
    """A note on the lengths with incorrect strings in the verification; empty if there are none."""
    rows = (verification_of(folder) or {"rows": []})["rows"]
    wrong = [row for row in rows if row["correct"] < row["count"]]
    parts = [
        f"at length {row['length']}, {row['correct']} of {row['count']} strings are exact matches"
        for row in wrong
    ]
    return f" Lengths with errors: {'; '.join(parts)}." if parts else ""


def _by_hand() -> list[dict[str, Any]]:
    runs = []
    for name, task_options, options, lengths, title in _BY_HAND:
        ranges = {"train_lengths": lengths, "test_lengths": lengths}
        task = make_task(name, **task_options, **ranges)
        run = run_data(
            CONSTRUCTIONS[name](**options),
            task,
            name,
            title=title,
            lengths=LengthRange.parse(lengths),
        )
        run["note"] = f"Not trained: its weights are set by hand. {run['note']}"
        runs.append(run)
    return runs


if __name__ == "__main__":
    import json

    print(json.dumps(built_in_data(), indent=None, separators=(",", ":")))
