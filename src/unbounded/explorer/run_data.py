"""Convert a trained run, or a model and its task, to the plain data of a page."""

from __future__ import annotations

from typing import Any, Final

from unbounded.checks import check_choice
from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.data_check import task_of_run
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run_folder import AnyPath, RunFolder, read_checkpoint
from unbounded.explorer.model_data import model_data
from unbounded.explorer.task_data import samples_of, task_data
from unbounded.explorer.trace_data import has_only_traces, traced_run
from unbounded.explorer.weights import CHOICES, weights_data
from unbounded.figures.curves import read_curves
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import LengthRange, Task

#: Number of samples of a run in a page, and their maximum length.
SAMPLES: Final = 8
_READABLE: Final = 24
#: Maximum number of checkpoints of a training in a page.
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
        model: a model on the CPU.
        task: its task.
        name, title: name and title in the page.
        seed, lengths: those of the samples; None for the task's training lengths.
        weights: "int8" or "half", used if no output on test strings changes, else the next larger;
            "float32" or "float64".
        curves: training curves.
    Raises:
        ConfigError: the page cannot run the model or show the task.
        ChoiceError: unknown weights.
    """
    check_choice("weights", weights, CHOICES)
    trained = task.train_lengths if lengths is None else lengths
    shortest = task.shortest_in(trained)
    shown = LengthRange(trained.minimum, max(shortest, min(trained.maximum, _READABLE)))
    if has_only_traces(model, task):
        traced = traced_run(model, task, name, title or name, seed, shown, SAMPLES)
        if weights != "half":
            traced["note"] += f" So the option {weights} of the weights has no effect."
        return {**traced, "curves": curves or []}
    task_part, model_part = task_data(task, shown.maximum), model_data(model)
    if model_part["inputs"] != len(task.input_vocabulary):
        raise ConfigError(
            f"model: it reads {model_part['inputs']} symbols, but task {task.name} has "
            f"{len(task.input_vocabulary)}"
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
    folder: AnyPath, *, hardened: bool = False, data: str | None = None, weights: str = "half"
) -> dict[str, Any]:
    """The data of a run folder's page.

    Args:
        folder: folder of a run, finished or with a checkpoint.
        hardened: show the hardened model.
        data: folder of the corpus, if it moved.
        weights: as for `run_data`.
    Raises:
        CheckpointError: the folder is not a run, or has no usable model.
        ConfigError: the page cannot run the model or show the task.
    """
    folder = RunFolder(folder)
    config = folder.config(data)
    planned = plan(config, task_of_run(folder, config))
    curves, damage = _curves(folder)
    model, source = folder.load_model(hardened)
    run = run_data(
        model,
        planned.task,
        folder.path.resolve().name,
        title=f"{model_name(config.model)} on {config.task['name']}"
        + (_how_hard(folder) if hardened else ""),
        seed=config.seed,
        lengths=planned.train_lengths,
        weights=weights,
        curves=curves,
    )
    run["note"] = damage + run["note"]
    if source.startswith("checkpoints"):
        run["note"] = f"Not finished: weights of {source}. {run['note']}"
    elif error := _report_error(folder):
        run["note"] = f"{error} {run['note']}"
    return run


def _report_error(folder: RunFolder) -> str:
    """A note on a missing or damaged report of a run with a model; empty for a valid report."""
    try:
        missing = folder.report() is None
    except CheckpointError as error:
        return f"Its report is damaged: {error}."
    return "It has no report.json, so its scores are unknown." if missing else ""


def _how_hard(folder: RunFolder) -> str:
    """The part of a title on the hardening, from the report."""
    try:
        report = folder.report() or {}
    except CheckpointError:
        report = {}
    part = report.get("hardened") or {}
    if part.get("harm"):
        return ", as trained: the hardened model was not better"
    return ", hardened" if part.get("saturated", True) else ", hardened in part"


def course_of_folder(
    folder: AnyPath, *, data: str | None = None, weights: str = "half"
) -> list[dict[str, Any]]:
    """The kept checkpoints of a run, at most MOMENTS, each as a separate run of a page.

    Args:
        folder: folder of a run with kept checkpoints (training.keep_checkpoints).
        data, weights: as for `run_of_folder`.
    Raises:
        ConfigError: the run has no checkpoint.
        CheckpointError: a checkpoint cannot be used.
    """
    folder = RunFolder(folder)
    kept = list(folder.kept_checkpoints().items())
    count = min(MOMENTS, len(kept))
    chosen = [kept[(len(kept) - 1) * place // max(1, count - 1)] for place in range(count)]
    config = folder.config(data)
    planned = plan(config, task_of_run(folder, config))
    curves, damage = _curves(folder)
    runs = [
        run_data(
            read_checkpoint(checkpoint),
            planned.task,
            f"{folder.path.resolve().name}/{checkpoint.name}",
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


def _curves(folder: RunFolder) -> tuple[list[dict[str, Any]], str]:
    """The training curves, and a note if their file is damaged."""
    if not folder.metrics_file.is_file():
        return [], ""
    try:
        curves = read_curves(folder.path)
    except CheckpointError as error:
        return [], f"There are no curves of its training: {error}. "
    named = {"training perplexity": curves.perplexity}
    named |= {
        f"exact match, length {lengths}": points for lengths, points in curves.exact_match.items()
    }
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
