"""Scoring a run that was trained before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation import make_report
from unbounded.evaluation.room import warn_of_room
from unbounded.evaluation.scorings import Place
from unbounded.experiments.config.check import build_task, scoring_faults
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.config.old_models import upgraded_keywords
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run.folder import check_weights, read_config
from unbounded.experiments.run.other_memory import with_memory
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.ram_check import count_faults
from unbounded.experiments.run.scored import own_sweep, used_memory
from unbounded.models.discrete import discretized
from unbounded.models.memory_model import MemoryModel
from unbounded.models.without_weights import without_weights
from unbounded.tasks import LengthRange
from unbounded.training.checkpoint import checkpoint_folders, verify

#: What several processes save stands inside.
_WRAPPER = "module."


def evaluate_run(
    folder: Path,
    *,
    lengths: Sequence[LengthRange] | None = None,
    split: str = "test",
    count: int | None = None,
    seed: int | None = None,
    every: int | None = None,
    data: str | None = None,
    rounded: bool = False,
    discretize: bool = False,
    device: str = "cpu",
    memory: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Score the model of a run folder over length ranges.

    Args:
        folder: the run's folder; a finished run's model, or else its newest sound checkpoint.
        lengths: the ranges; None for those of the run's own report, where it names none for the
            task's.
        split: "train", "validation" or "test".
        count: sequences a range, or of streams for each n; None for the run's own, of which long
            ranges have no more than `evaluation.symbols` allows.
        seed: of the examples; None for the run's own.
        every: of streams, the step from one n to the next; None for the run's own.
        data: folder of a text's files; None for where they were in training.
        rounded: take the machine that rounding made.
        discretize: take the likeliest action of each stack or list to the full weight.
        device: where to compute.
        memory: options of its memory that change no parameter, for example {"slots": 256}.
    Returns:
        The report.
    Raises:
        CheckpointError: the folder is no run, or holds no model that can be used.
        ConfigError: an option has no meaning for the run's task, or CUDA is not there.
    """
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ConfigError(["device: cuda was asked for and torch finds no CUDA device"])
    config = load_config(folder)
    chosen = {"every": every, "count": count}
    given = {name: value for name, value in chosen.items() if value is not None}
    for name, value in given.items():
        setattr(config.evaluation, name, value)
    if data is not None:
        config.machine.data = data
    planned = plan(config, build_task(config))
    # What does not fit the run's task is named as in a config.
    found = scoring_faults(config, planned.scoring, given)
    if found:
        raise ConfigError(found)
    model, source = load_model(folder, rounded)
    if memory:
        model = with_memory(model, memory)
    if discretize:
        model = discretized(model)
    model.to(device).eval()
    exam = planned.exam(model, Place(torch.device(device)))
    sweep = own_sweep(config)
    sweep = replace(sweep, split=split, seed=config.seed if seed is None else seed)
    if lengths is not None:
        sweep = replace(sweep, lengths=lengths, multiples=())
    if count is not None:
        sweep = replace(sweep, symbols=None)
    if planned.task.has_lengths:
        found = count_faults("count", sweep.count, sweep.lengths or ())
    if found:
        raise ConfigError(found)
    warn_of_room(model, planned.task, sweep.lengths or ())
    return make_report(
        task=config.task,
        scoring=planned.task.scoring,
        split=split,
        seed=sweep.seed,
        model=model_name(config.model),
        weights=source,
        weights_batch=_batch(source),
        discretized=discretize,
        memory_options=dict(memory or {}),
        rows=planned.scoring.rows(exam, sweep),
        **used_memory(planned, exam, sweep, lengths),
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
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{folder / 'config.yaml'} is not a run's config: {error}") from error


def load_model(folder: Path, rounded: bool = False) -> tuple[MemoryModel, str]:
    """The model of a run folder, and the name of the folder inside it that the weights are from.

    Args:
        folder: of the run.
        rounded: whether the hardened model is asked for.
    Raises:
        CheckpointError: there is no sound model; the message names each file that is not.
    """
    load_config(folder)
    final = folder / ("model-rounded" if rounded else "model")
    if rounded and not final.is_dir():
        raise CheckpointError(
            f"{folder} has no hardened model; `unbounded harden {folder}` makes one"
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
    raise CheckpointError(f"{folder} has no model that can be used{':' if faults else ''}{listed}")


def read_checkpoint(folder: Path) -> MemoryModel:
    """The model of one checkpoint.

    Raises:
        CheckpointError: it is not whole, or no model.
    """
    verify(folder)
    return _read(folder)


def _batch(source: str) -> int | None:
    """The batch after which a checkpoint was written; None where the weights are a model's."""
    folder, _, name = source.partition("/")
    return int(name.rpartition("-")[2]) if folder == "checkpoints" else None


def _read(folder: Path) -> MemoryModel:
    check_weights(folder)
    path = folder / "config.json"
    try:
        keywords = upgraded_keywords(json.loads(path.read_text(encoding="utf-8")))
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
        raise CheckpointError(f"{path} cannot be used: {type(error).__name__}: {reason}") from error
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
        for name in file.keys():  # noqa: SIM118
            own, there = name.removeprefix(_WRAPPER), file.get_slice(name).get_shape()
            if wanted.get(own) != list(there):
                raise CheckpointError(
                    f"{path} cannot be used: {own} has shape {list(there)} in it, and "
                    f"{wanted.get(own, 'is not there')} by config.json"
                )
