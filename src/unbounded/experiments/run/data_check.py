"""Digests of a run's training data: stored in config.yaml and compared with the current data.

The run's name does not include the path of its data, so it cannot distinguish two data files.
"""

from __future__ import annotations

import hashlib
import json

from unbounded.errors import CheckpointError
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.kept_config import data_of
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.tasks import Task

#: Number of hexadecimal digits of a SHA-256 to keep.
_DIGITS = 16


def data_used(config: RunConfig, task: Task) -> dict[str, str]:
    """Digests of a run's symbols and, if the task provides one, of its data.

    Empty if the run has no user data.
    """
    if config.hardware.data is None:
        return {}
    symbols = json.dumps([task.input_vocabulary, task.output_vocabulary])
    kept = {"symbols": hashlib.sha256(symbols.encode()).hexdigest()[:_DIGITS]}
    if task.data_digest is not None:
        kept["data"] = task.data_digest[:_DIGITS]
    return kept


def check_data(folder: RunFolder, config: RunConfig, task: Task) -> None:
    """Check that a resumed or finished run has its original data.

    Raises:
        CheckpointError: the data differ; the message names the path of the original data.
    """
    before, here = data_of(folder), data_used(config, task)
    if not before or (
        (before["path"] is None) == (not here)
        and all(before.get(name, value) == value for name, value in here.items())
    ):
        return
    was = "none" if before["path"] is None else f"what was in {before['path']}"
    raise CheckpointError(
        f"{folder} was trained with other data than {config.hardware.data or 'none'}: with {was}. "
        "Give the original data with --data, or another folder of runs with --runs; --overwrite "
        "replaces the run"
    )


def task_of_run(folder: RunFolder, config: RunConfig) -> Task:
    """The task of an existing run, possibly with other data with the same symbols.

    Raises:
        CheckpointError: the data have other symbols, or the same in another order, so the model
            would confuse them.
        ConfigError: the data cannot be read.
    """
    task = build_task(config)
    before, symbols = data_of(folder), data_used(config, task).get("symbols")
    if symbols is not None and before.get("symbols", symbols) != symbols:
        raise CheckpointError(
            f"{config.hardware.data} has other symbols than the training data of {folder}, or the "
            f"same symbols in another order, so the model would confuse them. Its training data "
            f"came from {before['path']}"
        )
    return task


def scored_data(folder: RunFolder, config: RunConfig, task: Task, is_named: bool) -> dict[str, str]:
    """The report's entries on the scored data; empty if the task has no data.

    Args:
        is_named: whether the user named the data. Data that differ from the training data are
            scored only then.
    Raises:
        CheckpointError: the data have changed since training and are not named.
    """
    before, used = data_of(folder).get("data"), data_used(config, task).get("data")
    if used is None:
        return {}
    if before not in (None, used) and not is_named:
        raise CheckpointError(
            f"{config.hardware.data} has changed since {folder} was trained (SHA-256 {before} "
            f"then, {used} now). Give the training data; --data {config.hardware.data} scores the "
            "changed data"
        )
    return {"data_sha256": used, "data_of_training_sha256": before or "unknown"}
