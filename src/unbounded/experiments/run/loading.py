"""What a run folder holds, read back: its config, its model, the checkpoints that it kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.config.old_models import upgraded_keywords
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.folder import check_weights, read_config
from unbounded.models.memory_model import MemoryModel
from unbounded.models.without_weights import without_weights
from unbounded.training.checkpoint import checkpoint_folders, verify

#: What several processes save stands inside.
_WRAPPER = "module."


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
        return _read(final), final.name
    faults = []
    for checkpoint in checkpoint_folders(folder / "checkpoints"):
        try:
            verify(checkpoint)
            return _read(checkpoint), f"checkpoints/{checkpoint.name}"
        except CheckpointError as error:
            faults.append(str(error))
    listed = "".join(f"\n  {fault}" for fault in faults)
    other = "; its hardened one is there: --rounded" if (folder / "model-rounded").is_dir() else ""
    raise CheckpointError(
        f"{folder} has no model that can be used{other}{resume}{':' if faults else ''}{listed}"
    )


def read_checkpoint(folder: Path) -> MemoryModel:
    """The model of one checkpoint.

    Raises:
        CheckpointError: it is not whole, or no model.
    """
    verify(folder)
    return _read(folder)


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


def _read(folder: Path) -> MemoryModel:
    check_weights(folder)
    path = folder / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError(f"expected an object of keywords, got {type(found).__name__}")
        keywords = upgraded_keywords(found)
        with without_weights():
            sizes = MemoryModel(**keywords).state_dict()
        path = folder / "model.safetensors"
        _check_shapes(sizes, path)
        model = MemoryModel(**keywords)
        weights = load_file(path)
        # Several processes save the model inside its wrapper.
        model.load_state_dict({key.removeprefix(_WRAPPER): weights[key] for key in weights})
    except (CheckpointError, ConfigError):
        raise  # a part of the user's own that was not imported, for one: the message says it
    except Exception as error:
        reason = str(error).split("\n", 1)[0]
        raise CheckpointError(
            f"{path} cannot be used: {type(error).__name__}: {reason}. If it is damaged, move the "
            f"folder {folder.name} away, to go on with another checkpoint of the run"
        ) from error
    bad = [name for name, weight in model.named_parameters() if not bool(weight.isfinite().all())]
    if bad:
        raise CheckpointError(
            f"{path} holds numbers that are NaN or infinite, in {', '.join(bad[:3])}: the training "
            "went bad, or the file is damaged"
        )
    return model


def _check_shapes(sizes: Mapping[str, torch.Tensor], path: Path) -> None:
    """Check the sizes of config.json against the header of the weights, before memory is taken.

    Raises:
        CheckpointError: they disagree; the message names the first weight.
    """
    wanted = {name: list(weight.shape) for name, weight in sizes.items()}
    with safe_open(str(path), framework="pt") as file:
        for name in sorted(file.keys()):
            own, there = name.removeprefix(_WRAPPER), file.get_slice(name).get_shape()
            if wanted.get(own) != list(there):
                raise CheckpointError(
                    f"{path} cannot be used: {own} has shape {list(there)} in it, and "
                    f"{wanted.get(own, 'is not there')} by config.json"
                )
