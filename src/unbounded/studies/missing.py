"""The reason why a study has no numbers of a metric: no scored range has the metric's role."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from unbounded.evaluation.metric_sets.base import roles_of
from unbounded.experiments.config.check import checked, evaluation_of, ranges
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.plan import plan
from unbounded.studies.run_results import StudyRun, known_metrics
from unbounded.tasks import LengthRange

#: How a range gets each role.
_HELP: Final = {
    "train": 'The role "train" is for the training range. Add it to `evaluation.lengths`.',
    "test": 'The role "test" is for the range of `task.test_lengths`, or else of '
    "`training.validation_lengths`. Set one of them to a range of `evaluation.lengths`, or choose "
    "the metric of another role.",
    "longer": 'The role "longer" is for other ranges that go beyond the training range. Add one to '
    "`evaluation.lengths`.",
}  # fmt: skip


def missing_notes(runs: Iterable[StudyRun], shown: Sequence[str]) -> list[str]:
    """A note for each task, on the metrics that its finished runs should have and lack.

    Args:
        runs: all runs of a study.
        shown: the metrics that a table or a plot shows.
    """
    tasks: dict[str, list[StudyRun]] = {}
    for run in runs:
        if run.numbers is not None:
            tasks.setdefault(run.task, []).append(run)
    notes = []
    for task, own in tasks.items():
        known = {name for run in own for name in known_metrics(run)}
        names = [
            name
            for name in shown
            if name in known and all(run.values().get(name) is None for run in own)
        ]
        if names:
            numbers = [run.numbers for run in own if run.numbers is not None]
            roles = {pair for each in numbers for pair in each.roles.items()}
            which = f" of {task}" if len(tasks) > 1 else ""
            text = f"No finished run{which} has {' or '.join(names)}."
            notes.append(" ".join([text, *_reasons(sorted(roles, key=_place), names)]))
    return notes


def role_warnings(configs: Iterable[RunConfig]) -> list[str]:
    """A warning for each task of which no scored range has the role "test".

    Args:
        configs: of the runs, without errors.
    """
    found: dict[str, None] = {}
    seen: set[str] = set()
    for config in configs:
        training, evaluation = config.training, evaluation_of(config)
        key = repr((config.task, training.lengths, training.validation_lengths, evaluation))
        # By default the test range is scored.
        if key in seen or evaluation.lengths is None:
            continue
        seen.add(key)
        planned = plan(config, checked(config))
        if "lengths" not in planned.metric_set.fields or "test" not in planned.metric_set.roles:
            continue
        longest = planned.train_lengths.maximum
        scored = [*ranges(evaluation.lengths)]
        scored += [LengthRange(n * longest, n * longest) for n in evaluation.multiples or ()]
        roles = [(str(each), role) for each, role in roles_of(planned, scored).items()]
        if "test" not in dict(roles).values():
            reasons = " ".join(_reasons(roles, ["test"]))
            found[f'task {config.task["name"]}: no scored range has the role "test". {reasons}'] = (
                None
            )
    return list(found)


def _reasons(roles: Sequence[tuple[str, str]], names: Sequence[str]) -> list[str]:
    """The scored ranges with their roles, and how a range gets the role that is missing."""
    there = {role for _, role in roles}
    lacking = [
        role
        for role in _HELP
        if role not in there
        and (any(role in name for name in names) or (role == "test" and "success" in names))
    ]
    if not roles or not lacking:
        return []
    scored = ", ".join(f"{lengths} ({role})" for lengths, role in roles)
    return [f"The scored ranges and their roles: {scored}.", *(_HELP[role] for role in lacking)]


def _place(lengths_and_role: tuple[str, str]) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", lengths_and_role[0])))
