"""The machines that lie in the package: golden machines, so that there is something to watch."""

from __future__ import annotations

from typing import Any, Final

from unbounded.explorer.run_data import run_data
from unbounded.machines import MACHINES
from unbounded.tasks import LengthRange, make_task

#: Task, its options, options of the machine, lengths of the samples, and a title.
_BUILT_IN: Final[tuple[tuple[str, dict[str, Any], dict[str, Any], str, str], ...]] = (
    ("copy", {"symbols": 8}, {"symbols": 8}, "3:10", "Copy with a queue"),
    ("reversal", {"symbols": 8}, {"symbols": 8}, "3:10", "Reversal with a stack"),
    ("anbn", {}, {}, "2:8", "a^n b^n with a superposition stack"),
)


def built_in_data() -> list[dict[str, Any]]:
    """What machines.json holds: `python -m unbounded.explorer.built_in > machines.json` writes it.

    The machines are written down, not trained (docs/machines.md), and exact at any length.
    """
    runs = []
    for name, task_options, options, lengths, title in _BUILT_IN:
        ranges = {"train_lengths": lengths, "test_lengths": lengths}
        task = make_task(name, **task_options, **ranges)
        made = run_data(
            MACHINES[name](**options), task, name, title=title, lengths=LengthRange.parse(lengths)
        )
        made["note"] = f"A golden machine: its weights are written down. {made['note']}"
        runs.append(made)
    return runs


if __name__ == "__main__":
    import json

    print(json.dumps(built_in_data(), indent=None, separators=(",", ":")))
