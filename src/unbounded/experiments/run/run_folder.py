"""A run's folder: names of its files, and methods that read and write them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from unbounded.errors import (
    CheckpointError,
    CheckpointWarning,
    ConfigError,
    StorageError,
    UnboundedError,
    say_once,
)
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.evaluation.report import VERSION, details, table
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.files import file_digest, read_text, storage_errors, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.models.saved_model import DIGEST, read_model
from unbounded.training.checkpoint import checkpoint_folders, newest_usable, verify

_NEEDED: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "metric_set": str,
    "split": str,
    "seed": int,
    "model": str,
    "batches": int,
    "minutes": (int, float),
    "stopped": str,
    "rows": list,
    "config": dict,
}
#: Advice in messages on a damaged report of an existing run.
REMADE = (
    "Delete it, and --resume makes it again from the newest checkpoint; for a run of a study, the "
    "study's command does"
)
#: Exceptions that damaged values cause in the code that reads these values.
OUTCOMES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    RecursionError,
    UnboundedError,
)


def check_report(report: dict[str, Any], path: Path) -> None:
    """Check the report of a finished run by formatting it as for the terminal and the tables.

    Raises:
        CheckpointError: the report has another version, or an entry is missing or invalid; the
            message names it and the file, and says what to do.
    """
    if report.get("version", VERSION) != VERSION:
        raise CheckpointError(
            f"{path} is a report of version {report['version']}, and this is unbounded with "
            f"version {VERSION}. Use the version of unbounded that wrote it, or train the run again"
        )
    wrong = [name for name, kind in _NEEDED.items() if not isinstance(report.get(name), kind)]
    reason = f"missing or invalid: {', '.join(wrong)}" if wrong else ""
    if not wrong:
        try:
            from_dict(report["config"])
            _look(report)
            if "hardened" in report:
                _look({**report, **report["hardened"]})
        except OUTCOMES as error:
            reason = str(error).split("\n", 1)[0] or type(error).__name__
    if reason:
        raise CheckpointError(f"{path} is damaged, or not a run's report ({reason}). {REMADE}")


def _look(report: dict[str, Any]) -> None:
    metric_set = metric_set_of(report["metric_set"])
    table(report)
    details(report)
    metric_set.values(report)
    metric_set.further(report["rows"])
    metric_set.label(report["rows"])


#: The path of a run folder, or a RunFolder.
AnyPath = str | os.PathLike[str]

_SHOWN = 10
#: Advice in messages on a damaged config.yaml of an existing run.
_REMADE = (
    "Delete it, and `unbounded train` with the run's original options and --resume writes it again"
)


class RunFolder:
    """The folder of a run; docs/formats.md describes its files.

    An object holds no state except its path, so several objects may refer to one run.

    Args:
        path: the folder, which may be missing.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self.config_file = self.path / "config.yaml"
        self.report_file = self.path / "report.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.answers_file = self.path / "answers.json"
        self.checkpoints = self.path / "checkpoints"
        self.hardening = self.path / "hardening"
        self.traces = self.path / "traces"
        self.figures = self.path / "figures"
        self.automaton = self.path / "automaton"

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @classmethod
    def of(cls, root: Path, config: RunConfig) -> RunFolder:
        """The folder of a run in the folder of runs; its name follows from the config."""
        return cls(root / run_name(config))

    @classmethod
    def find(cls, name: AnyPath, root: Path = Path("runs")) -> RunFolder:
        """Find a run folder by its path, or by a unique prefix of its name.

        Args:
            name: path of a folder, or a unique prefix of its name in `root`.
            root: the folder of the run folders.
        Raises:
            CheckpointError: no run or several runs match; the message lists the existing runs.
        """
        folder = Path(name)
        if (folder / "config.yaml").is_file():
            return cls(folder)
        if folder.name == "config.yaml" and folder.is_file():
            return cls(folder.parent)
        where = folder.parent if folder.parent.is_dir() and folder.parent != Path() else root
        inside = _runs_in(folder)  # the path may be a folder of runs
        where, runs = (folder, inside) if inside else (where, _runs_in(where))
        begins = [run for run in runs if folder.name and run.name.startswith(folder.name)]
        if len(begins) == 1 and not folder.exists():
            return cls(begins[0])
        listed = "".join(f"\n  {run}" for run in (begins or runs)[:_SHOWN])
        more = len(begins or runs) - _SHOWN
        listed += f"\n  and {more} more" if more > 0 else ""
        there = f"Runs in {where}:{listed}" if runs else f"{where} holds no run."
        if len(begins) > 1:
            raise CheckpointError(f"{name} is a prefix of several runs; name one:{listed}")
        why = "is not a run folder: it has no config.yaml" if folder.exists() else "does not exist"
        raise CheckpointError(f"{name} {why}. {there}")

    @property
    def is_run(self) -> bool:
        """Whether there is a config.yaml."""
        return self.config_file.is_file()

    @property
    def is_finished(self) -> bool:
        """Whether there is a report, which is written last."""
        return self.report_file.is_file()

    @property
    def is_hardened(self) -> bool:
        """Whether there is a hardened model."""
        return self.model_folder(hardened=True).is_dir()

    @property
    def can_resume(self) -> bool:
        """Whether there is a config or a checkpoint."""
        return self.is_run or bool(checkpoint_folders(self.checkpoints))

    @property
    def is_trained(self) -> bool:
        """Whether the run has recorded metrics or a checkpoint."""
        is_measured = self.metrics_file.exists() and self.metrics_file.stat().st_size > 0
        return is_measured or bool(checkpoint_folders(self.checkpoints))

    def model_folder(self, hardened: bool | None = None) -> Path:
        """The folder of one of the run's models.

        Args:
            hardened: which model; None for the hardened one if it exists.
        """
        if hardened is None:
            hardened = self.is_hardened
        return self.path / ("model-hardened" if hardened else "model")

    def verification_file(self, source: str) -> Path:
        """The path of a model's verification, for the name of the model's folder."""
        return self.path / f"verification-{source}.json"

    def write_config(self, config: Mapping[str, Any], used: Mapping[str, Any]) -> None:
        """Write config.yaml, with the threads and kernels at the run's start."""
        write_text(self.config_file, plain_yaml.dump({**config, "used": dict(used)}))

    def read_config(self) -> dict[str, Any] | None:
        """The data of config.yaml; None if there is no such file.

        Raises:
            CheckpointError: the file is not a run's config.
            StorageError: the file cannot be read.
        """
        path = self.config_file
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

    def config(self, data: str | None = None) -> RunConfig:
        """The run's config.

        Args:
            data: place of the data, if it moved.
        Raises:
            CheckpointError: the folder does not exist or is not a run's.
        """
        stored = self.read_config()
        if stored is None:
            raise CheckpointError(f"{self} is not a run folder: it has no config.yaml")
        try:
            config = from_dict(without_used(stored))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise CheckpointError(
                f"{self.config_file} is not a run's config, or of another version: {error}. "
                "Use the version of unbounded that wrote it. If the file was damaged, delete it, "
                "and `unbounded train` with the run's original options and --resume writes it again"
            ) from error
        if data is not None:
            config.hardware.data = data
        return config

    def report(self) -> dict[str, Any] | None:
        """The report of the run; None if the run is not finished.

        Raises:
            CheckpointError: report.json is not a report, or damaged; the message says what to do.
            StorageError: the file cannot be read.
        """
        if not self.report_file.exists():
            return None
        try:
            report = load_report(self.report_file)
        except CheckpointError as error:
            raise CheckpointError(f"{error}. {REMADE}") from error
        check_report(report, self.report_file)
        return report

    def save_model(
        self,
        model: MemoryModel,
        *,
        hardened: bool = False,
        card: Mapping[str, str] | None = None,
    ) -> None:
        """Write the folder of a model atomically with `save_pretrained`.

        Args:
            model: the model.
            hardened: which model it is.
            card: keywords of its model card (`MemoryModel.generate_model_card`).
        Raises:
            StorageError: the folder cannot be written.
        """
        folder = self.model_folder(hardened)
        partial = folder.with_name(f".{folder.name}.partial")
        with storage_errors(folder, "saving model"):
            shutil.rmtree(partial, ignore_errors=True)
            try:
                model.save_pretrained(partial, model_card_kwargs=dict(card or {}))
                digest = file_digest(partial / "model.safetensors")
                write_text(partial / DIGEST, f"{digest}  model.safetensors\n")
            except Exception as error:
                shutil.rmtree(partial, ignore_errors=True)
                raise StorageError(f"saving model {folder} failed: {error}") from error
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(partial, folder)

    def load_model(self, hardened: bool = False) -> tuple[MemoryModel, str]:
        """The model, or else the newest usable checkpoint's, and the subfolder of its weights.

        Args:
            hardened: whether to load the hardened model.
        Warns:
            CheckpointWarning: for each newer checkpoint that cannot be used, with the reason.
        Raises:
            CheckpointError: there is no usable model; the message names each unusable file.
        """
        config, final = self.config(), self.model_folder(hardened)
        resume = ""
        if not self.is_finished:
            resume = (
                f". The run is not finished: `unbounded train {config.task['name']} --resume`, "
                "with its other original options, continues it"
            )
        if hardened and not final.is_dir():
            raise CheckpointError(
                f"{self} has no hardened model; `unbounded harden {self}` makes one{resume}"
            )
        if final.is_dir():
            return read_model(final, MemoryModel), final.name
        other = "; it has a hardened model: give --hardened" if self.is_hardened else ""
        try:
            taken = newest_usable(self.checkpoints, read_checkpoint)
        except CheckpointError as error:
            lines = str(error).partition("\n")[2]
            raise CheckpointError(
                f"{self} has no model that can be used{other}{resume}:\n{lines}"
            ) from error
        if taken is None:
            raise CheckpointError(f"{self} has no model that can be used{other}{resume}")
        for line in taken.passed_over:
            say_once(line, CheckpointWarning)
        return taken.content, f"checkpoints/{taken.folder.name}"

    def weights_digest(self, source: str) -> str:
        """The SHA-256 of a model's weights, in hexadecimal digits.

        Args:
            source: name of the model's folder.
        Raises:
            StorageError: the file cannot be read.
        """
        path = self.path / source / "model.safetensors"
        with storage_errors(path, "reading"):
            return file_digest(path)

    def kept_checkpoints(self) -> dict[int, Path]:
        """The checkpoints by their number of batches, in rising order.

        Raises:
            ConfigError: there is none.
        """
        checkpoints = checkpoint_folders(self.checkpoints)[::-1]
        if not checkpoints:
            raise ConfigError(
                f"course: {self} has no checkpoint; train with --training.keep_checkpoints"
            )
        return {batches_before(checkpoint): checkpoint for checkpoint in checkpoints}


def _runs_in(folder: Path) -> list[Path]:
    runs = (path.parent for path in folder.glob("*/config.yaml") if path.parent.name[0] != ".")
    return sorted(runs, key=lambda path: path.name)


def without_used(data: Mapping[str, Any]) -> dict[str, Any]:
    """The config in a run's config.yaml, without the section on the used hardware."""
    return {name: value for name, value in data.items() if name != "used"}


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


def read_checkpoint(folder: Path) -> MemoryModel:
    """The model of one checkpoint.

    Raises:
        CheckpointError: the checkpoint is incomplete, or not a model.
    """
    verify(folder)
    return read_model(folder, MemoryModel)


def batches_before(checkpoint: Path) -> int:
    """The number of batches before a checkpoint, parsed from the checkpoint's name."""
    return int(checkpoint.name.rpartition("-")[2])
