"""The sections of a run's model card: task, training and scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unbounded.experiments.run.plan import Plan
from unbounded.experiments.tables.markdown import grid


def card_sections(planned: Plan, report: Mapping[str, Any], *, hardened: bool = False) -> str:
    """Sections of a model card, as Markdown.

    Args:
        planned: the run.
        report: the run's report, or its part on the hardened model.
        hardened: whether the model was hardened after training.
    """
    config, task = planned.config, planned.task
    options = ", ".join(f"{name} {value}" for name, value in config.task.items() if name != "name")
    facts = {"task": config.task["name"], "options of the task": options or "the defaults"}
    if task.has_lengths:
        facts["lengths of training"] = str(planned.train_lengths)
    if hardened:
        facts["hardening"] = _hardening(report)
    unit = "batches of hardening" if hardened else "batches of training"
    facts |= {"seed": str(config.seed), unit: str(report["batches"])}
    facts |= {"ended": str(report["stopped"])} if "stopped" in report else {}
    heading, *lines = planned.metric_set.lines(report["rows"])
    notes = "".join(f"\n* {note}" for note in planned.metric_set.notes(report["rows"]))
    return (
        f"## Task and training\n\n{grid(['property', 'value'], list(facts.items()))}\n\n"
        "## Scores\n\n"
        "On the test split, which chose nothing:\n\n"
        f"{grid(heading, lines)}\n{notes}"
    )


def _hardening(report: Mapping[str, Any]) -> str:
    if report.get("harm"):
        return "it made the model worse, which is as it was trained"
    if report.get("saturated") is False:
        return "some gates did not come to 0 or 1"
    return "its gates were driven to 0 or 1 after training"
