"""The files of a run folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import yaml

from unbounded.errors import CheckpointError, StorageError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.identity import config_hash, run_name
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.config.upgrade import upgraded_report
from unbounded.experiments.run.report_check import REMADE, check_report
from unbounded.files import file_digest, read_text, storage_faults, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.models.saved_model import DIGEST

_SHOWN = 10
#: What to do about a damaged config.yaml of a run that is there.
_REMADE = (
    "Delete it, and `unbounded train` with the options that the run began with and --resume writes "
    "it again"
)


def folder_of(root: Path, config: RunConfig) -> Path:
    """The folder of a run: named by its config, or by what its config was named in version 0.1."""
    folder = root / run_name(config)
    if folder.exists():
        return folder
    for other in sorted(root.glob(f"{config.task}-*-seed{config.seed}/config.yaml")):
        try:
            data = read_config(other.parent)
            same = data is not None and config_hash(from_dict(data)) == config_hash(config)
        except (CheckpointError, StorageError, TypeError, ValueError, KeyError, AttributeError):
            continue
        if same:
            return other.parent
    return folder


def find_run(name: str | Path, root: Path = Path("runs")) -> Path:
    """The run folder that a name stands for: a path, or the beginning of one run's name.

    Args:
        name: of a folder, or what its name in `root` begins with, of one run alone.
        root: the folder that run folders lie in.
    Raises:
        CheckpointError: there is none, or there are several; the message names the runs there are.
    """
    folder = Path(name)
    if (folder / "config.yaml").is_file():
        return folder
    if folder.name == "config.yaml" and folder.is_file():
        return folder.parent
    where = folder.parent if folder.parent.is_dir() and folder.parent != Path() else root
    inside = _runs_in(folder)  # of a folder of runs, which is named for one of them
    where, runs = (folder, inside) if inside else (where, _runs_in(where))
    begins = [run for run in runs if folder.name and run.name.startswith(folder.name)]
    if len(begins) == 1 and not folder.exists():
        return begins[0]
    listed = "".join(f"\n  {run}" for run in (begins or runs)[:_SHOWN])
    more = len(begins or runs) - _SHOWN
    listed += f"\n  and {more} more" if more > 0 else ""
    there = f"Runs in {where}:{listed}" if runs else f"{where} holds no run."
    if len(begins) > 1:
        raise CheckpointError(f"{name} is the beginning of several runs; name one:{listed}")
    raise CheckpointError(f"{name} is not a run folder: it has no config.yaml. {there}")


def _runs_in(folder: Path) -> list[Path]:
    found = (path.parent for path in folder.glob("*/config.yaml") if path.parent.name[0] != ".")
    return sorted(found, key=lambda path: path.name)


def write_config(folder: Path, config: dict[str, Any], used: dict[str, Any]) -> None:
    """Write config.yaml, and in it the threads and kernels that the run began with."""
    write_text(folder / "config.yaml", plain_yaml.dump({**config, "used": used}))


def read_config(folder: Path) -> dict[str, Any] | None:
    """What config.yaml says; None when there is none.

    Raises:
        CheckpointError: the file is not such a config. StorageError: it may not be read.
    """
    path = folder / "config.yaml"
    if not path.exists():
        return None
    try:
        data = plain_yaml.load(read_text(path))
    except yaml.YAMLError as error:
        raise CheckpointError(f"{path} is not YAML{plain_yaml.fault(error)}. {_REMADE}") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not YAML: {error}. {_REMADE}") from error
    if not isinstance(data, dict) or "task" not in data:
        raise CheckpointError(f"{path} is not the config of a run: it names no task. {_REMADE}")
    return data


def read_report(folder: Path) -> dict[str, Any] | None:
    """The report of a finished run; None while it is not finished.

    Raises:
        CheckpointError: report.json is not a report, or damaged; the message says what to do.
        StorageError: it may not be read.
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
    """A report from its file, also as older versions wrote it.

    Raises:
        CheckpointError: it is not a report; the message names the file.
        StorageError: it may not be read.
    """
    try:
        data: Any = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not a report: {error}") from error
    if not isinstance(data, dict) or data.get("format") != "unbounded-report":
        raise CheckpointError(f"{path} is not a report")
    if "config" not in data:  # of an evaluation alone
        return data
    try:
        return upgraded_report(data)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} is no report of a run: {error!r}") from error


def save_model(model: MemoryModel, folder: Path, sections: str = "") -> None:
    """`save_pretrained` into a folder that appears whole or not at all.

    Args:
        model: what is saved.
        folder: of the model.
        sections: of its model card, on task, training and scores.
    Raises:
        StorageError: the disk refused.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    with storage_faults(folder, "saving model"):
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
        folder: of the model, such as RUN/model.
    Raises:
        StorageError: the file cannot be read.
    """
    path = folder / "model.safetensors"
    with storage_faults(path, "reading"):
        return file_digest(path)
