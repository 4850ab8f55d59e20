"""A trained run, or a model and its task, as the plain data of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.data_check import task_of_run
from unbounded.experiments.run.folder import read_report
from unbounded.experiments.run.loading import (
    kept_checkpoints,
    load_config,
    load_model,
    read_checkpoint,
)
from unbounded.experiments.run.plan import plan
from unbounded.explorer.agreement import weights_data
from unbounded.explorer.model_data import model_data
from unbounded.explorer.task_data import samples_of, task_data
from unbounded.explorer.trace_data import traced_run
from unbounded.figures.curves import read_curves
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import LengthRange, Task, TextTask

#: Samples of a run in its page, and the longest that a reader still follows.
SAMPLES: Final = 8
_READABLE: Final = 24
#: Moments of a training in its page, at the most.
MOMENTS: Final = 6


def run_data(
    model: MemoryModel,
    task: Task,
    name: str,
    *,
    title: str = "",
    seed: int = 0,
    lengths: LengthRange | None = None,
    weights: str = "half",
    curves: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A model and its task as the plain data of a page.

    Args:
        model: on the CPU. task: that it was trained on.
        name, title: as the page shows them.
        seed, lengths: of the samples; None for the task's own lengths of training.
        weights: "int8" or "half", which are taken where the answers to some test words are then the
            same, and else the next larger; "float32" or "float64".
        curves: of training.
    Raises:
        ConfigError: the page cannot run the model or show the task.
        ChoiceError: there are no such weights.
    """
    if isinstance(task, TextTask):
        return {**traced_run(model, task, name, title or name), "curves": curves or []}
    trained = task.train_lengths if lengths is None else lengths
    shown = LengthRange(trained.minimum, max(trained.minimum, min(trained.maximum, _READABLE)))
    task_part, model_part = task_data(task, shown.maximum), model_data(model)
    if model_part["inputs"] != len(task.input_vocabulary):
        raise ConfigError(
            [
                f"model: it reads {model_part['inputs']} symbols, task {task.name} has "
                f"{len(task.input_vocabulary)}"
            ]
        )
    stored, note = weights_data(model, task, seed, trained, weights)
    return {
        "name": name,
        "title": title or name,
        "note": note,
        "task": task_part,
        "model": model_part,
        "weights": stored,
        "samples": samples_of(task, seed, shown, SAMPLES),
        "curves": curves or [],
    }


def run_of_folder(
    folder: Path, *, rounded: bool = False, data: str | None = None, weights: str = "half"
) -> dict[str, Any]:
    """The data of a run folder's page.

    Args:
        folder: of a run, finished or with a checkpoint.
        rounded: take the machine that hardening made.
        data: folder of the corpus, if it has moved.
        weights: as for `run_data`.
    Raises:
        CheckpointError: the folder is no run, or holds no model that can be used.
        ConfigError: the page cannot run the model or show the task.
    """
    config = load_config(folder)
    if data is not None:
        config.machine.data = data
    planned = plan(config, task_of_run(folder, config))
    curves, damage = _curves(folder)
    model, source = load_model(folder, rounded)
    made = run_data(
        model,
        planned.task,
        folder.resolve().name,
        title=f"{model_name(config.model)} on {config.task}"
        + (_how_hard(folder) if rounded else ""),
        seed=config.seed,
        lengths=planned.train_lengths,
        weights=weights,
        curves=curves,
    )
    made["note"] = damage + made["note"]
    if source.startswith("checkpoints"):
        made["note"] = f"Not finished: weights of {source}. {made['note']}"
    elif fault := _report_fault(folder):
        made["note"] = f"{fault} {made['note']}"
    return made


def _report_fault(folder: Path) -> str:
    """What is wrong with the report of a run that has a model; empty where nothing is."""
    try:
        missing = read_report(folder) is None
    except CheckpointError as error:
        return f"Its report is damaged: {error}."
    return "It has no report.json, so that what it was found to do is not known." if missing else ""


def _how_hard(folder: Path) -> str:
    """What a title says of a hardened model, as far as its report says it."""
    try:
        report = read_report(folder) or {}
    except CheckpointError:
        report = {}
    part = report.get("rounded") or {}
    if part.get("harm"):
        return ", as trained: hardening made it no better"
    is_machine = part.get("decided", True)
    return ", hardened" if is_machine else ", hardened as far as it went"


def course_of_folder(
    folder: Path, *, data: str | None = None, weights: str = "half"
) -> list[dict[str, Any]]:
    """A run at several moments of its training, each as a run of a page: those that it kept.

    Args:
        folder: of a run whose checkpoints were kept (training.keep_checkpoints).
        data, weights: as above.
    Raises:
        ConfigError: it has no checkpoint. CheckpointError: one cannot be used.
    """
    kept = list(kept_checkpoints(folder).items())
    count = min(MOMENTS, len(kept))
    chosen = [kept[(len(kept) - 1) * place // max(1, count - 1)] for place in range(count)]
    config = load_config(folder)
    if data is not None:
        config.machine.data = data
    planned = plan(config, task_of_run(folder, config))
    curves, damage = _curves(folder)
    runs = [
        run_data(
            read_checkpoint(checkpoint),
            planned.task,
            f"{folder.resolve().name}/{checkpoint.name}",
            title=f"{model_name(config.model)} after {batches} batches",
            seed=config.seed,
            lengths=planned.train_lengths,
            weights=weights,
            curves=curves if checkpoint is chosen[0][1] else None,
        )
        for batches, checkpoint in chosen
    ]
    return [
        {**run, "note": damage + run["note"], "after_batches": batches}
        for run, (batches, _) in zip(runs, chosen, strict=True)
    ]


def _curves(folder: Path) -> tuple[list[dict[str, Any]], str]:
    """What was measured in training, a curve each, and what is wrong with the file of it."""
    if not (folder / "metrics.jsonl").is_file():
        return [], ""
    try:
        curves = read_curves(folder)
    except CheckpointError as error:
        return [], f"There are no curves of its training: {error}. "
    named = {"training perplexity": curves.perplexity}
    named |= {f"words right, {lengths}": points for lengths, points in curves.coarse.items()}
    drawn = [
        {
            "name": name,
            "unit": "perplexity" if name == "training perplexity" else "share",
            "batches": sorted(points),
            "values": [float(f"{points[batch]:.5g}") for batch in sorted(points)],
        }
        for name, points in named.items()
        if points
    ]
    return drawn, ""
