"""Write a run's config.yaml at the start, and compare it with the config on resumption."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.config.identity import config_hash, model_name, run_name
from unbounded.experiments.config.schema import RunConfig, from_dict, to_dict
from unbounded.experiments.run.numerics import device_of
from unbounded.experiments.run.run_folder import RunFolder, without_used
from unbounded.training.checkpoint import checkpoint_folders
from unbounded.training.state import LoopState


def begin(
    folder: RunFolder,
    config: RunConfig,
    data: Mapping[str, str],
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Write config.yaml if it is missing, and report the run and its changes since its start.

    A damaged or edited config.yaml causes a warning; `renew_config` replaces the file after
    training.

    Args:
        data: digests of the run's data (`data_check.data_used`).
    Raises:
        CheckpointError: config.yaml is not a run's config.
        StorageError: config.yaml cannot be written.
        ConfigError: the run started with another precision of float32 products.
    """
    before = folder.read_config()
    here = threads_and_kernels(config)
    say(
        f"training {model_name(config.model)} on {config.task['name']} in {folder}; "
        f"kernels: {here['kernels']}, threads: {here['threads']}"
    )
    if before is None:
        if data and checkpoint_folders(folder.checkpoints):
            warn(
                f"warning: {folder.config_file} is missing, so it is unknown whether the run "
                "started with this data"
            )
        folder.write_config(to_dict(config), {**here, **data})
        return
    if not _is_config_of(before, config):
        warn(
            f"warning: {folder.config_file} is damaged or was edited: it is not the config of "
            "this run, and is written again after training"
        )
    _check_precision(before, config)
    used = _used(before)
    for name, value in here.items():
        if used.get(name, value) != value:
            warn(
                f"warning: this run started with {name} {used[name]} and continues with {value}; "
                "its numbers may differ in the last bits"
            )


def _check_precision(before: Mapping[str, Any], config: RunConfig) -> None:
    """Refuse to continue with another precision, because the report names only one."""
    hardware = before.get("hardware")
    there = hardware.get("matmul_precision") if isinstance(hardware, dict) else None
    began, own = there or "highest", config.hardware.matmul_precision or "highest"
    if began != own:
        raise ConfigError(
            f"hardware.matmul_precision: expected {began}, with which this run started, got "
            f"{own}; give {began}, or replace the run with --overwrite"
        )


def _is_config_of(data: dict[str, Any], config: RunConfig) -> bool:
    try:
        other = from_dict(without_used(data))
        return other.seed == config.seed and config_hash(other) == config_hash(config)
    except (TypeError, ValueError, KeyError, AttributeError):
        return False


def check_same_run(folder: RunFolder, config: RunConfig) -> None:
    """Refuse to resume a run whose id was given with another config.

    A name that contains the hash of its config does not count as a given id. The config.yaml of
    such a folder may be damaged or edited; `begin` warns of these.

    Raises:
        ConfigError: the folder has another config; the message names the options.
    """
    if folder.name == run_name(replace(config, id=None)):
        return
    try:
        before = from_dict(without_used(folder.read_config() or {}))
    except (CheckpointError, ConfigError):
        return
    if before.seed == config.seed and config_hash(before) == config_hash(config):
        return
    options = ", ".join(_differing(to_dict(before), to_dict(config)))
    raise ConfigError(
        f"id: {folder} has another config ({options}); give that config, another id, or --overwrite"
    )


def _differing(before: Mapping[str, Any], here: Mapping[str, Any], where: str = "") -> list[str]:
    """The dotted names of options that differ, without the hardware."""
    names: list[str] = []
    for name in dict.fromkeys([*before, *here]):
        left, right = before.get(name), here.get(name)
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            names += _differing(left, right, f"{where}{name}.")
        elif left != right:
            names.append(f"{where}{name}")
    return [name for name in names if not name.startswith("hardware.") and name != "id"]


def keep_config(folder: RunFolder, config: RunConfig, data: Mapping[str, str]) -> None:
    """Write config.yaml again if it was deleted meanwhile; a run folder needs it."""
    if not folder.is_run:
        folder.write_config(to_dict(config), {**threads_and_kernels(config), **data})


def renew_config(folder: RunFolder, config: RunConfig, data: Mapping[str, str]) -> None:
    """Replace config.yaml if it is not the trained config.

    Call this function after training. If the checkpoints belong to another run, training fails, and
    the file must stay unchanged.
    """
    try:
        before = folder.read_config() or {}
    except CheckpointError:
        before = {}
    if not _is_config_of(before, config):
        folder.write_config(
            to_dict(config), _used(before) or {**threads_and_kernels(config), **data}
        )


def trained_elsewhere(state: LoopState, config: RunConfig) -> list[dict[str, Any]]:
    """The threads and kernels that a state records; empty if only the current ones were used."""
    here = threads_and_kernels(config)
    is_here = len(state.trained_with) < 2 and state.last_used() in (None, here)
    return [] if is_here else state.trained_with


def threads_and_kernels(config: RunConfig) -> dict[str, Any]:
    """The threads and kernels of this process."""
    used = "none" if config.hardware.backend == "reference" else kernels(device_of(config))
    return {"threads": torch.get_num_threads(), "kernels": used}


def _used(data: Mapping[str, Any]) -> dict[str, Any]:
    """The section `used` of a config.yaml; empty if the section is missing."""
    used = data.get("used")
    return dict(used) if isinstance(used, dict) else {}


def data_of(folder: RunFolder) -> dict[str, Any]:
    """The "path" of a run's data, None if it had none, and the digests of the data.

    The path and digests are read from config.yaml, or from the report if config.yaml is missing or
    damaged. Empty if unknown.
    """
    try:
        before = folder.read_config()
    except CheckpointError:
        before = None
    used = _used(before or {})
    if before is None:
        try:
            report = folder.report() or {}
        except CheckpointError:
            report = {}
        before, used = report.get("config", {}), report.get("data", {})
    hardware = before.get("hardware")
    if not isinstance(hardware, dict):
        return {}
    kept: dict[str, Any] = {name: used[name] for name in ("symbols", "data") if name in used}
    return {"path": hardware.get("data"), **kept}
