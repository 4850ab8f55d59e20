"""The machines that lie in the package, so that there is something to watch before anyone trains.

Three were trained and hardened (results/machines in the repository has their run folders), three
are golden machines, whose weights are set by hand (docs/machines.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from unbounded.experiments.run.folder import read_report
from unbounded.experiments.run.verification import verification_of
from unbounded.explorer.run_data import run_data, run_of_folder
from unbounded.machines import MACHINES
from unbounded.tasks import LengthRange, make_task

#: The run folders of the trained machines, in a checkout.
RUNS: Final = Path(__file__).parents[3] / "results" / "machines"
#: By the name of the run folder, the titles.
_TRAINED: Final = {
    "copy": "Copy with a queue, trained",
    "reversal": "Reversal with a stack, trained",
    "anbn": "a^n b^n with superposition stacks, trained",
}
#: Task, its options, options of the machine, lengths of the samples, and a title.
_BY_HAND: Final[tuple[tuple[str, dict[str, Any], dict[str, Any], str, str], ...]] = (
    ("copy", {"symbols": 8}, {"symbols": 8}, "3:10", "Copy with a queue, set by hand"),
    ("reversal", {"symbols": 8}, {"symbols": 8}, "3:10", "Reversal with a stack, set by hand"),
    ("anbn", {}, {}, "2:8", "a^n b^n with a superposition stack, set by hand"),
)


def built_in_data() -> list[dict[str, Any]]:
    """What machines.json holds: `python -m unbounded.explorer.built_in > machines.json` writes it.

    Raises:
        CheckpointError: this is no checkout, with the run folders in it.
    """
    return [*_trained(), *_by_hand()]


def _trained() -> list[dict[str, Any]]:
    runs = []
    for name, title in _TRAINED.items():
        made = run_of_folder(RUNS / name, rounded=True, weights="int8")
        report = read_report(RUNS / name)
        made["title"] = title
        made["note"] = f"{_training(report or {})}{_wrong(RUNS / name)} {made['note']}"
        runs.append(made)
    return runs


def _training(report: Mapping[str, Any]) -> str:
    """How a machine came about, and how far it was found to be right."""
    longest = max(report["rounded"]["rows"], key=lambda row: int(row["lengths"].split(":")[-1]))
    first, last = report["train_lengths"].split(":")
    return (
        f"Trained on lengths {first} to {last} for {report['batches']} batches (seed "
        f"{report['seed']}), then hardened: its pushes and pops are decisions. Of test words of "
        f"length {longest['lengths'].split(':')[-1]}, {longest['right']} of {longest['count']} "
        "are right."
    )


def _wrong(folder: Path) -> str:
    """Of what lengths a verification found words to be wrong; empty where none was."""
    rows = (verification_of(folder) or {"rows": []})["rows"]
    wrong = [row for row in rows if row["right"] < row["count"]]
    said = [f"{row['right']} of {row['count']} of length {row['length']}" for row in wrong]
    return f" Not all are right of these: {', '.join(said)} are." if said else ""


def _by_hand() -> list[dict[str, Any]]:
    runs = []
    for name, task_options, options, lengths, title in _BY_HAND:
        ranges = {"train_lengths": lengths, "test_lengths": lengths}
        task = make_task(name, **task_options, **ranges)
        made = run_data(
            MACHINES[name](**options), task, name, title=title, lengths=LengthRange.parse(lengths)
        )
        made["note"] = f"Not trained: its weights are set by hand. {made['note']}"
        runs.append(made)
    return runs


if __name__ == "__main__":
    import json

    print(json.dumps(built_in_data(), indent=None, separators=(",", ":")))
