"""Figures of everything in a run folder."""

from __future__ import annotations

import json
from pathlib import Path

from unbounded.errors import CheckpointError
from unbounded.evaluation.answers import Answer, answers_from_json
from unbounded.figures.actions import draw_actions, has_actions, read_actions
from unbounded.figures.convergence import draw_convergence
from unbounded.figures.curves import read_curves
from unbounded.figures.keys import draw_keys, has_keys
from unbounded.figures.marked_answers import draw_answers
from unbounded.figures.memory import draw_memory
from unbounded.figures.tape import draw_tape
from unbounded.figures.traces import has_strengths
from unbounded.rnn import load_trace


def draw_run(run_folder: Path) -> list[Path]:
    """Draw a run's curves and its traces into `run_folder/figures`.

    metrics.jsonl becomes `convergence`, and answers.json `answers`. Each trace in `traces` becomes
    a figure with the same name. The figure of a trace shows the memory's strengths, the actions of
    superposition stacks or lists, the heads of a tape, or the keys and gates of a Lie-access
    memory. Traces of other memories and missing files are skipped. Existing figures are replaced.

    Returns:
        The paths written, an SVG of each figure; empty for a run without measurements.
    Raises:
        CheckpointError: `run_folder` is not a folder, or metrics or a trace cannot be read.
        StorageError: the disk refused.
    """
    if not run_folder.is_dir():
        raise CheckpointError(f"there is no run folder {run_folder}")
    figures = run_folder / "figures"
    paths: list[Path] = []
    if (run_folder / "metrics.jsonl").is_file():
        curves = read_curves(run_folder)
        if curves.batches:
            paths += draw_convergence({"this run": [curves]}, figures, title=run_folder.name)
    for trace_file in _traces(run_folder / "traces"):
        trace = load_trace(trace_file)
        if has_actions(trace):
            rows = read_actions(trace)
            paths += draw_actions(rows, figures, trace_file.stem, title=run_folder.name)
        elif has_keys(trace):
            paths += draw_keys(trace, figures, trace_file.stem, title=run_folder.name)
        elif has_strengths(trace):
            paths += draw_memory(trace, figures, trace_file.stem)
        elif "write_weights" in trace.arrays:
            paths += draw_tape(trace, figures, trace_file.stem, title=run_folder.name)
    answers = run_folder / "answers.json"
    if answers.is_file():
        paths += draw_answers(_read_answers(answers), figures, title=run_folder.name)
    return paths


def _traces(folder: Path) -> list[Path]:
    """The traces in both versions, by name. Version 2 takes precedence."""
    paths = [*folder.glob("*.safetensors"), *folder.glob("*.json")]
    files = {path.stem: path for path in paths}
    return [files[name] for name in sorted(files)]


def _read_answers(path: Path) -> list[Answer]:
    try:
        return answers_from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, CheckpointError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
