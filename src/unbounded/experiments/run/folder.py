"""The files of a run folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from unbounded.errors import CheckpointError, StorageError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.report_check import REMADE, check_report
from unbounded.files import file_digest, read_text, storage_errors, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.models.saved_model import DIGEST

_SHOWN = 10
#: Advice for a damaged config.yaml of an existing run.
_REMADE = (
    "Delete it, and `unbounded train` with the run's original options and --resume writes it again"
)


def folder_of(root: Path, config: RunConfig) -> Path:
    """The folder of a run, named by its config."""
    return root / run_name(config)


def find_run(name: str | Path, root: Path = Path("runs")) -> Path:
    """Find a run folder by its path, or by a unique prefix of its name.

    Args:
        name: path of a folder, or a unique prefix of its name in `root`.
        root: the folder of the run folders.
    Raises:
        CheckpointError: no run or several runs match; the message lists the existing runs.
    """
    folder = Path(name)
    if (folder / "config.yaml").is_file():
        return folder
    if folder.name == "config.yaml" and folder.is_file():
        return folder.parent
    where = folder.parent if folder.parent.is_dir() and folder.parent != Path() else root
    inside = _runs_in(folder)  # if a folder of runs was named instead of a run
    where, runs = (folder, inside) if inside else (where, _runs_in(where))
    begins = [run for run in runs if folder.name and run.name.startswith(folder.name)]
    if len(begins) == 1 and not folder.exists():
        return begins[0]
    listed = "".join(f"\n  {run}" for run in (begins or runs)[:_SHOWN])
    more = len(begins or runs) - _SHOWN
    listed += f"\n  and {more} more" if more > 0 else ""
    there = f"Runs in {where}:{listed}" if runs else f"{where} holds no run."
    if len(begins) > 1:
        raise CheckpointError(f"{name} is a prefix of several runs; name one:{listed}")
    raise CheckpointError(f"{name} is not a run folder: it has no config.yaml. {there}")


def _runs_in(folder: Path) -> list[Path]:
    runs = (path.parent for path in folder.glob("*/config.yaml") if path.parent.name[0] != ".")
    return sorted(runs, key=lambda path: path.name)


def write_config(folder: Path, config: dict[str, Any], used: dict[str, Any]) -> None:
    """Write config.yaml, with the threads and kernels at the run's start."""
    write_text(folder / "config.yaml", plain_yaml.dump({**config, "used": used}))


def without_used(data: Mapping[str, Any]) -> dict[str, Any]:
    """The config in a run's config.yaml, without what the run used of the hardware."""
    return {name: value for name, value in data.items() if name != "used"}


def read_config(folder: Path) -> dict[str, Any] | None:
    """The data of config.yaml; None if there is no such file.

    Raises:
        CheckpointError: the file is not a run's config.
        StorageError: the file cannot be read.
    """
    path = folder / "config.yaml"
    if not path.exists():
        return None
    try:
        data = plain_yaml.load(read_text(path))
    except yaml.YAMLError as error:
        raise CheckpointError(
            f"{path} is not YAML{plain_yaml.yaml_error(error)}. {_REMADE}"
        ) from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not YAML: {error}. {_REMADE}") from error
    if not isinstance(data, dict) or "task" not in data:
        raise CheckpointError(f"{path} is not the config of a run: it names no task. {_REMADE}")
    return data


def read_report(folder: Path) -> dict[str, Any] | None:
    """The report of a run; None while the run is not finished.

    Raises:
        CheckpointError: report.json is not a report, or damaged; the message says what to do.
        StorageError: the file cannot be read.
    """
    path = folder / "report.json"
    if not path.exists():
        return None
    try:
        report = load_report(path)
    except CheckpointError as error:
        raise CheckpointError(f"{error}. {REMADE}") from error
    check_report(report, path)
    return report


def load_report(path: Path) -> dict[str, Any]:
    """Read a report from its file.

    Raises:
        CheckpointError: the file is not a report; the message names it.
        StorageError: the file cannot be read.
    """
    try:
        data: Any = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not a report: {error}") from error
    if not isinstance(data, dict) or data.get("format") != "unbounded-report":
        raise CheckpointError(f"{path} is not a report")
    return data


def save_model(model: MemoryModel, folder: Path, sections: str = "") -> None:
    """Write a model's folder atomically with `save_pretrained`.

    Args:
        model: the model.
        folder: the folder to write.
        sections: Markdown sections of its model card, on task, training and scores.
    Raises:
        StorageError: the folder cannot be written.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    with storage_errors(folder, "saving model"):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            model.save_pretrained(partial, model_card_kwargs={"sections": sections})
            digest = file_digest(partial / "model.safetensors")
            write_text(partial / DIGEST, f"{digest}  model.safetensors\n")
        except Exception as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise StorageError(f"saving model {folder} failed: {error}") from error
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(partial, folder)


def weights_digest(folder: Path) -> str:
    """The SHA-256 of a model's weights, in hexadecimal digits.

    Args:
        folder: the model's folder, such as RUN/model.
    Raises:
        StorageError: the file cannot be read.
    """
    path = folder / "model.safetensors"
    with storage_errors(path, "reading"):
        return file_digest(path)
