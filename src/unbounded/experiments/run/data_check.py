"""What data a run was trained with: kept in its config.yaml, and compared with what is given now.

A run is named by its options, of which the place of its data is none: two files are not told apart
by name.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from unbounded.errors import CheckpointError
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.kept_config import data_of
from unbounded.tasks import Task

#: Hexadecimal digits that are kept of a SHA-256.
_DIGITS = 16


def data_used(config: RunConfig, task: Task) -> dict[str, str]:
    """What is kept of a run's data: of all of it, where the task says so, and of its symbols.

    Empty where a run has no data of a user's.
    """
    if config.machine.data is None:
        return {}
    symbols = json.dumps([task.input_vocabulary, task.output_vocabulary])
    kept = {"symbols": hashlib.sha256(symbols.encode()).hexdigest()[:_DIGITS]}
    if task.data_digest is not None:
        kept["data"] = task.data_digest[:_DIGITS]
    return kept


def check_data(folder: Path, config: RunConfig, task: Task) -> None:
    """Check that a run that goes on, or is finished, has the data that it began with.

    Raises:
        CheckpointError: it has other data; the message says where its own was.
    """
    before, here = data_of(folder), data_used(config, task)
    if not before or (
        (before["path"] is None) == (not here)
        and all(before.get(name, value) == value for name, value in here.items())
    ):
        return
    was = "none" if before["path"] is None else f"what was in {before['path']}"
    raise CheckpointError(
        f"{folder} was trained with other data than {config.machine.data or 'none'}: with {was}. "
        "Give that (--data), or another folder of runs (--runs); --overwrite trains the run anew"
    )


def task_of_run(folder: Path, config: RunConfig) -> Task:
    """The task of a run that is looked at, maybe on other data whose symbols are the same.

    Raises:
        CheckpointError: the data has other symbols, or the same in another order: the model would
            take one for another. ConfigError: the data cannot be read.
    """
    task = build_task(config)
    before, symbols = data_of(folder), data_used(config, task).get("symbols")
    if symbols is not None and before.get("symbols", symbols) != symbols:
        raise CheckpointError(
            f"the symbols of {config.machine.data} are not those that the model of {folder} has "
            f"learned, or stand in another order: it would take one for another. It was trained "
            f"with what was in {before['path']}"
        )
    return task


def scored_data(folder: Path, config: RunConfig, task: Task, is_named: bool) -> dict[str, str]:
    """What a report says of the data that it is of; nothing where the task has none.

    Args:
        is_named: whether the user named the data. Other data than that of training is scored only
            then.
    Raises:
        CheckpointError: the data has changed since training, and is not named.
    """
    before, used = data_of(folder).get("data"), data_used(config, task).get("data")
    if used is None:
        return {}
    if before not in (None, used) and not is_named:
        raise CheckpointError(
            f"{config.machine.data} has changed since {folder} was trained (SHA-256 {before} then, "
            f"{used} now). Give the data of training; --data {config.machine.data} scores it as it "
            "is now"
        )
    return {"data_sha256": used, "data_of_training_sha256": before or "unknown"}
