"""The parts of a model card that a run knows: task, training, scores, limits and use."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from unbounded.custom_components import NO_MEMORY, is_path
from unbounded.evaluation.provenance import provenance
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.plan import Plan
from unbounded.experiments.tables.markdown import grid
from unbounded.files import markdown_cell
from unbounded.tasks import TASKS


def run_card(planned: Plan, report: Mapping[str, Any], *, hardened: bool = False) -> dict[str, str]:
    """The keywords of `MemoryModel.generate_model_card` for a run's model.

    Args:
        planned: the run.
        report: the run's report, or its part on the hardened model.
        hardened: whether the model was hardened after training.
    """
    title = f"{model_name(planned.config.model)} on {planned.config.task['name']}"
    return {
        "title": f"{title}, hardened" if _is_saturated(report, hardened) else title,
        "sections": (
            f"{_training(planned, report, hardened)}\n\n"
            f"{_scores(planned, report)}\n\n"
            f"{_limits(planned, report, hardened)}"
        ),
        "usage": _usage(planned),
    }


def _training(planned: Plan, report: Mapping[str, Any], hardened: bool) -> str:
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
    origin = provenance()
    facts["made with"] = ", ".join(f"{name} {text}" for name, text in origin["versions"].items())
    facts |= {"commit of unbounded": origin["commit"]} if origin["commit"] else {}
    what = inspect.getdoc(TASKS.get(config.task["name"], type(task))) or ""
    described = f"{markdown_cell(what.partition(chr(10))[0])}\n\n" if what else ""
    return f"## Task and training\n\n{described}{grid(['property', 'value'], list(facts.items()))}"


def _scores(planned: Plan, report: Mapping[str, Any]) -> str:
    heading, *lines = planned.metric_set.lines(report["rows"])
    notes = "".join(f"\n* {note}" for note in planned.metric_set.notes(report["rows"]))
    return (
        f"## Scores\n\nOn the test split, which chose nothing:\n\n{grid(heading, lines)}\n{notes}"
    ).rstrip()


def _limits(planned: Plan, report: Mapping[str, Any], hardened: bool) -> str:
    """What the model cannot do, as far as the run knows."""
    rows, metric_set, task = report["rows"], planned.metric_set, planned.task
    limits = []
    if metric_set.success and metric_set.succeeded(rows) is False:
        limits.append(f"It does not solve the task. Solved means: {metric_set.success}.")
    wrong = [
        f"{_share(1 - row['exact_match'])} at {row['lengths']}"
        for row in rows
        if "lengths" in row and row.get("exact_match", 1) < 1
    ]
    if wrong:
        limits.append(f"Wrong sequences by length: {', '.join(wrong)}.")
    if task.has_lengths and (longest := _longest(rows)):
        limits.append(f"No sequence longer than {longest} was scored.")
    has_gates = planned.config.model.memory["name"] != NO_MEMORY
    if has_gates and not _is_saturated(report, hardened):
        limits.append(
            "Its gates take values between 0 and 1, so that errors can add up over the steps."
        )
    limits.append(f"It knows the {len(task.input_vocabulary)} input symbols of its task, no other.")
    limits.append("It is the result of one seed. Another seed may not learn the task.")
    return "## What it cannot do\n\n" + "\n".join(f"* {line}" for line in limits)


def _usage(planned: Plan) -> str:
    """How to run the model on its task; empty for inputs of bits, which no command reads."""
    config, task = planned.config, planned.task
    if task.objective == "bits":
        return ""
    if is_path(config.task["name"]) or task.data_digest or task.objective != "cross_entropy":
        return (
            "With the whole folder of the run, `unbounded predict RUN FILE` reads lines of input."
        )
    options = "".join(f", {key}={value!r}" for key, value in config.task.items() if key != "name")
    lengths = str(planned.train_lengths) if task.has_lengths else ""
    drawn = f', LengthRange.parse("{lengths}")' if lengths else ""
    imported = "LengthRange, make_task" if lengths else "make_task"
    fed = "" if task.layout == "answer" else ", each output after the correct symbols before it"
    return f"""Targets and outputs of one test sequence{fed}:

```python
from unbounded.tasks import {imported}

task = make_task("{config.task["name"]}"{options})
batch = task.batch({config.seed}, "test", 0, 1{drawn})
logits, _ = model(batch.inputs, lengths=batch.lengths)
for tokens in (batch.targets[batch.mask], logits[batch.mask].argmax(-1)):
    print(" ".join(task.output_vocabulary[token] for token in tokens))  # targets, then outputs
```"""


def _longest(rows: Sequence[Mapping[str, Any]]) -> int:
    """The largest length in the ranges of the rows, such as "8:64" or "64"; 0 without rows."""
    return max((int(row["lengths"].split(":")[-1]) for row in rows if "lengths" in row), default=0)


def _share(part: float) -> str:
    return "under 0.1 %" if part < 0.001 else f"{100 * part:.1f} %"


def _is_saturated(report: Mapping[str, Any], hardened: bool) -> bool:
    return hardened and not report.get("harm") and report.get("saturated") is not False


def _hardening(report: Mapping[str, Any]) -> str:
    if report.get("harm"):
        return "it made the model worse, so these are the weights before hardening"
    if report.get("saturated") is False:
        return "some gates are not saturated"
    return "every gate is saturated (0 or 1)"
