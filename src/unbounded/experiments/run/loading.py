"""Read the config, model and checkpoints of a run folder."""

from __future__ import annotations

from pathlib import Path

from unbounded.errors import CheckpointError, CheckpointWarning, ConfigError, say_once
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.folder import read_config, without_used
from unbounded.models.memory_model import MemoryModel
from unbounded.models.saved_model import read_model
from unbounded.training.checkpoint import checkpoint_folders, newest_usable, verify


def load_config(folder: Path) -> RunConfig:
    """The config of a run folder.

    Raises:
        CheckpointError: the folder does not exist or is not a run's.
    """
    data = read_config(folder)
    if data is None:
        raise CheckpointError(f"{folder} is not a run folder: it has no config.yaml")
    try:
        return from_dict(without_used(data))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{folder / 'config.yaml'} is not a run's config, or of another version: {error}. "
            "Use the version of unbounded that wrote it. If the file was damaged, delete it, and "
            "`unbounded train` with the run's original options and --resume writes it again"
        ) from error


def load_model(folder: Path, hardened: bool = False) -> tuple[MemoryModel, str]:
    """The model of a run folder, and the subfolder of its weights.

    Args:
        folder: the run's folder.
        hardened: whether to load the hardened model.
    Warns:
        CheckpointWarning: for each newer checkpoint that cannot be used, with the reason.
    Raises:
        CheckpointError: there is no usable model; the message names each unusable file.
    """
    config = load_config(folder)
    final = folder / ("model-hardened" if hardened else "model")
    resume = ""
    if not (folder / "report.json").is_file():
        resume = (
            f". The run is not finished: `unbounded train {config.task['name']} --resume`, with "
            "its other original options, continues it"
        )
    if hardened and not final.is_dir():
        raise CheckpointError(
            f"{folder} has no hardened model; `unbounded harden {folder}` makes one{resume}"
        )
    if final.is_dir():
        return read_model(final, MemoryModel), final.name
    other = (
        "; it has a hardened model: give --hardened" if (folder / "model-hardened").is_dir() else ""
    )
    try:
        taken = newest_usable(folder / "checkpoints", read_checkpoint)
    except CheckpointError as error:
        lines = str(error).partition("\n")[2]
        raise CheckpointError(
            f"{folder} has no model that can be used{other}{resume}:\n{lines}"
        ) from error
    if taken is None:
        raise CheckpointError(f"{folder} has no model that can be used{other}{resume}")
    for line in taken.passed_over:
        say_once(line, CheckpointWarning)
    return taken.content, f"checkpoints/{taken.folder.name}"


def read_checkpoint(folder: Path) -> MemoryModel:
    """The model of one checkpoint.

    Raises:
        CheckpointError: the checkpoint is incomplete, or not a model.
    """
    verify(folder)
    return read_model(folder, MemoryModel)


def kept_checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints of a run by their batches, first to last.

    Raises:
        ConfigError: there is none.
    """
    checkpoints = checkpoint_folders(folder / "checkpoints")[::-1]
    if not checkpoints:
        raise ConfigError(
            [f"course: {folder} has no checkpoint; train with --training.keep_checkpoints"]
        )
    return {batches_before(checkpoint): checkpoint for checkpoint in checkpoints}


def batches_before(checkpoint: Path) -> int:
    """The number of batches before a checkpoint, from its name."""
    return int(checkpoint.name.rpartition("-")[2])
