"""config.yaml of a run: written when it begins, compared with what is trained when it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.config.identity import config_hash, model_name
from unbounded.experiments.config.schema import RunConfig, from_dict, to_dict
from unbounded.experiments.run.device import device_of
from unbounded.experiments.run.folder import read_config, read_report, write_config
from unbounded.training.checkpoint import checkpoint_folders
from unbounded.training.state import LoopState


def begin(
    folder: Path,
    config: RunConfig,
    data: Mapping[str, str],
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Write config.yaml where it is not there; say what runs, and what differs from before.

    One that no longer says what is trained, because it is damaged or was edited, is told, and
    `renew_config` writes it again when that is trained.

    Args:
        data: what is kept of the run's data (`data_check.data_used`).
    Raises:
        CheckpointError: there is a config.yaml that is no run's. StorageError: the disk refused.
        ConfigError: the run began with products of another precision.
    """
    before = read_config(folder)
    here = threads_and_kernels(config)
    say(
        f"training {model_name(config.model)} on {config.task} in {folder}; "
        f"kernels: {here['kernels']}, threads: {here['threads']}"
    )
    if before is None:
        if data and checkpoint_folders(folder / "checkpoints"):
            warn(
                f"warning: {folder / 'config.yaml'} was gone, so that it is not known whether the "
                "run began with this data"
            )
        write_config(folder, to_dict(config), {**here, **data})
        return
    if not _is_config_of(before, config):
        warn(
            f"warning: {folder / 'config.yaml'} is damaged or was edited: it is not what this run "
            "is trained with, and is written again when training is over"
        )
    _check_precision(before, config)
    used = _used(before)
    for name, value in here.items():
        if used.get(name, value) != value:
            warn(
                f"warning: this run began with {name} {used[name]} and goes on with {value}; "
                "its numbers may differ in the last bits"
            )


def _check_precision(before: Mapping[str, Any], config: RunConfig) -> None:
    """Refuse to go on with another precision: its report would name one of two."""
    machine = before.get("machine")
    there = machine.get("matmul_precision") if isinstance(machine, dict) else None
    began, own = there or "highest", config.machine.matmul_precision or "highest"
    if began != own:
        raise ConfigError(
            [
                f"machine.matmul_precision: this run began with {began}, and {own} is asked for; "
                f"give {began}, or begin anew with --overwrite"
            ]
        )


def _is_config_of(data: dict[str, Any], config: RunConfig) -> bool:
    try:
        found = from_dict(data)
        return found.seed == config.seed and config_hash(found) == config_hash(config)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False


def keep_config(folder: Path, config: RunConfig, data: Mapping[str, str]) -> None:
    """Write config.yaml again where it was deleted meanwhile: without it the run is no run."""
    if not (folder / "config.yaml").is_file():
        write_config(folder, to_dict(config), {**threads_and_kernels(config), **data})


def renew_config(folder: Path, config: RunConfig, data: Mapping[str, str]) -> None:
    """Write config.yaml again where it is not what was trained.

    A run is known by its options, whose hash its name has. Not before: a training that is refused,
    because the checkpoints are another run's, leaves the file as it was.
    """
    try:
        before = read_config(folder) or {}
    except CheckpointError:
        before = {}
    if not _is_config_of(before, config):
        write_config(
            folder, to_dict(config), _used(before) or {**threads_and_kernels(config), **data}
        )


def began_with(folder: Path) -> dict[str, Any]:
    """The threads and kernels that config.yaml says a run began with; None where it does not."""
    used = _used(read_config(folder) or {})
    return {name: used.get(name) for name in ("threads", "kernels")}


def trained_elsewhere(state: LoopState, config: RunConfig) -> list[dict[str, Any]]:
    """All that a state notes of what trained; empty where that is what this process has."""
    here = threads_and_kernels(config)
    is_here = len(state.trained_with) < 2 and state.last_used() in (None, here)
    return [] if is_here else state.trained_with


def threads_and_kernels(config: RunConfig) -> dict[str, Any]:
    """The threads and kernels that a run of this process has."""
    used = "none" if config.machine.backend == "reference" else kernels(device_of(config))
    return {"threads": torch.get_num_threads(), "kernels": used}


def _used(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a config.yaml says that the run began with; empty where it does not."""
    used = data.get("used")
    return dict(used) if isinstance(used, dict) else {}


def data_of(folder: Path) -> dict[str, Any]:
    """What is known of a run's data: "path", None where it had none, and what is kept of it.

    From config.yaml, or where that is gone or damaged from the report. Empty where none says it.
    """
    try:
        before = read_config(folder)
    except CheckpointError:
        before = None
    used = _used(before or {})
    if before is None:
        try:
            report = read_report(folder) or {}
        except CheckpointError:
            report = {}
        before, used = report.get("config", {}), report.get("data", {})
    machine = before.get("machine")
    if not isinstance(machine, dict):
        return {}
    kept: dict[str, Any] = {name: used[name] for name in ("symbols", "data") if name in used}
    return {"path": machine.get("data"), **kept}
