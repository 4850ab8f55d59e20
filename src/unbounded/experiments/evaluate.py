"""Scoring a run that was trained before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation import Score, make_report, score, sweep
from unbounded.experiments.build import build_task
from unbounded.experiments.config import RunConfig, from_dict, model_name
from unbounded.experiments.folder import read_config
from unbounded.models.transduction import TransductionModel
from unbounded.tasks import LengthRange
from unbounded.training.checkpoint import checkpoint_folders, verify


def evaluate_run(
    folder: Path,
    *,
    lengths: Sequence[LengthRange] | None,
    split: str,
    count: int,
    seed: int | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Score the model of a run folder over length ranges.

    Args:
        folder: the run's folder; a finished run's model, or else its newest sound checkpoint.
        lengths: the ranges; None for the training and the test range of the task.
        split: "train", "validation" or "test".
        count: sequences a range.
        seed: of the examples; None for the run's own.
        device: where to compute.
    Returns:
        The report.
    Raises:
        CheckpointError: the folder is no run, or holds no model that can be used.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(["device: cuda was asked for and torch finds no CUDA device"])
    config = load_config(folder)
    task = build_task(config)
    model, source = load_model(folder)
    model.to(device).eval()
    chosen_seed = config.seed if seed is None else seed

    def score_range(each: LengthRange) -> Score:
        return score(
            model,
            task,
            seed=chosen_seed,
            split=split,
            lengths=each,
            count=count,
            device=torch.device(device),
        )

    return make_report(
        task=config.task,
        split=split,
        seed=chosen_seed,
        model=model_name(config.model),
        weights=source,
        rows=sweep(lengths or (task.train_lengths, task.test_lengths), score_range),
    )


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
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{folder / 'config.yaml'} is not a run's config: {error}") from error


def load_model(folder: Path) -> tuple[TransductionModel, str]:
    """The model of a run folder, and the name of the folder inside it that the weights are from.

    Raises:
        CheckpointError: there is no sound model; the message names each file that is not.
    """
    final = folder / "model"
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
    raise CheckpointError(f"{folder} has no model that can be used{':' if faults else ''}{listed}")


def _read(folder: Path) -> TransductionModel:
    path = folder / "config.json"
    try:
        model = TransductionModel(**json.loads(path.read_text(encoding="utf-8")))
        path = folder / "model.safetensors"
        weights = load_file(path)
        # Several processes save the model inside its wrapper.
        model.load_state_dict({key.removeprefix("module."): weights[key] for key in weights})
    except Exception as error:
        reason = str(error).split("\n", 1)[0]
        raise CheckpointError(f"{path} cannot be used: {type(error).__name__}: {reason}") from error
    return model
