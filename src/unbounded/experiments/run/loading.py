"""What a run folder holds, read back: its config, its model, the checkpoints that it kept."""

from __future__ import annotations

from pathlib import Path

from unbounded.errors import CheckpointError, CheckpointWarning, ConfigError, say_once
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.folder import read_config
from unbounded.models.memory_model import MemoryModel
from unbounded.models.saved_model import read_model
from unbounded.training.checkpoint import checkpoint_folders, newest_usable, verify


def load_config(folder: Path) -> RunConfig:
    """The config of a run folder.

    Raises:
        CheckpointError: the folder is not there or is no run's.
    """
    data = read_config(folder)
    if data is None:
        raise CheckpointError(f"{folder} is not a run folder: it has no config.yaml")
    try:
        return from_dict(data)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{folder / 'config.yaml'} is not a run's config: {error}. Delete it, and `unbounded "
            "train`, with the options that the run began with and --resume, writes it again"
        ) from error


def load_model(folder: Path, rounded: bool = False) -> tuple[MemoryModel, str]:
    """The model of a run folder, and the name of the folder inside it that the weights are from.

    Args:
        folder: of the run.
        rounded: whether the hardened model is asked for.
    Warns:
        CheckpointWarning: for each newer checkpoint that cannot be used, and why.
    Raises:
        CheckpointError: there is no sound model; the message names each file that is not.
    """
    config = load_config(folder)
    final = folder / ("model-rounded" if rounded else "model")
    resume = ""
    if not (folder / "report.json").is_file():
        resume = (
            f". The run is not finished: `unbounded train {config.task} --resume`, with the other "
            "options that it began with, goes on with it"
        )
    if rounded and not final.is_dir():
        raise CheckpointError(
            f"{folder} has no hardened model; `unbounded harden {folder}` makes one{resume}"
        )
    if final.is_dir():
        return read_model(final, MemoryModel), final.name
    other = "; its hardened one is there: --rounded" if (folder / "model-rounded").is_dir() else ""
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
        CheckpointError: it is not whole, or no model.
    """
    verify(folder)
    return read_model(folder, MemoryModel)


def kept_checkpoints(folder: Path) -> dict[int, Path]:
    """The checkpoints that a run kept of its course, by the batches before them, first to last.

    Raises:
        ConfigError: there is none.
    """
    found = checkpoint_folders(folder / "checkpoints")[::-1]
    if not found:
        raise ConfigError(
            [f"course: {folder} has no checkpoint; train with --training.keep_checkpoints"]
        )
    return {batches_before(each): each for each in found}


def batches_before(checkpoint: Path) -> int:
    """The batches after which a checkpoint was written, as its name says it."""
    return int(checkpoint.name.rpartition("-")[2])
