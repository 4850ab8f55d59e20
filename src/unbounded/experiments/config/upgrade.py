"""Configs and reports as older versions wrote them, read as this one writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unbounded.old_models import upgraded_model

#: The tasks of version 1 whose reports are of sequences right to the end, with its default ranges.
PAIRS = ("copy", "reversal", "bigram_flip", "svo_sov", "gender")
_TRAIN, _TEST = "8:64", "65:128"
_STREAMS = {"binary_addition": "1:19", "penn_treebank": ""}
_KINDS = {"pairs": "sequences", "streams": "lengths", "text": "perplexity"}


def upgraded_config(data: Mapping[str, Any]) -> dict[str, Any]:
    """A config whose model is in parts; one that is so already is given back."""
    model = data["model"]
    if not isinstance(model, Mapping) or not isinstance(model.get("memory", "queue"), str):
        return dict(data)
    streams = data["task"] not in PAIRS
    return {**data, "model": upgraded_model({**_DEFAULTS, **model}, streams=streams)}


#: What a config of version 1 had where it said nothing of a field.
_DEFAULTS = {"memory": "queue", "controller": "lstm", "hidden_size": 256}


def upgraded_report(data: Mapping[str, Any]) -> dict[str, Any]:
    """A report whose rows say their role, and which says its scoring, merit and success.

    Raises:
        KeyError, TypeError, ValueError: the report has another form.
    """
    if "scoring" in data:
        return dict(data)
    config = data["config"]
    kind = data.get("kind", "pairs" if config["task"] in PAIRS else "streams")
    report = {**data, "scoring": _KINDS[kind], "train_lengths": _trained(config)}
    report.update(_OF_KIND[kind](data, config, data))
    if "rounded" in data:
        rounded = data["rounded"]
        report["rounded"] = {**rounded, **_OF_KIND[kind](rounded, config, data)}
    return report


def _trained(config: Mapping[str, Any]) -> str:
    """The training range; what the task's own was then, where the config names none."""
    task = config["task"]
    own = _TRAIN if task in PAIRS else _STREAMS.get(task, "2:19")
    return str(config["training"]["lengths"] or config["task_options"].get("train_lengths", own))


def _pairs(
    part: Mapping[str, Any], config: Mapping[str, Any], whole: Mapping[str, Any]
) -> dict[str, Any]:
    options, training = config["task_options"], config["training"]
    test = str(training["validation_lengths"] or options.get("test_lengths", _TEST))
    roles = {_trained(config): "train", test: "test"}
    rows = [{**row, "role": roles.get(row["lengths"], "longer")} for row in part["rows"]]
    tested = [row["accuracy_coarse"] for row in rows if row["role"] == "test"]
    return {
        "rows": rows,
        "merit": whole["perplexity_train"],
        "success": bool(tested) and f"{tested[0]:.2f}" == "1.00",
    }


def _streams(
    part: Mapping[str, Any], config: Mapping[str, Any], whole: Mapping[str, Any]
) -> dict[str, Any]:
    rows = [
        {**row, "role": "longer" if number else "test"} for number, row in enumerate(part["rows"])
    ]
    return {
        "rows": rows,
        "merit": part["validation"]["determined_nats_per_token"],
        "success": rows[0]["lengths_mastered"] == rows[0]["lengths_scored"],
    }


def _text(
    part: Mapping[str, Any], config: Mapping[str, Any], whole: Mapping[str, Any]
) -> dict[str, Any]:
    rows = [{**row, "role": "test"} for row in part["rows"]]
    return {"rows": rows, "merit": part["validation"]["perplexity"], "success": None}


_OF_KIND = {"pairs": _pairs, "streams": _streams, "text": _text}
