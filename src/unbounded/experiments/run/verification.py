"""Verifying a run that was trained before."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation.provenance import provenance
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.data_check import task_of_run
from unbounded.experiments.run.folder import load_report, weights_digest
from unbounded.experiments.run.loading import load_config, load_model
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.report_check import REMADE
from unbounded.files import json_text, read_text, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Task, TransductionTask
from unbounded.verification import Finding, VerifyOptions, findings_of, report_of
from unbounded.verification.report import FORMAT, VERSION
from unbounded.verification.verify import Look


def finished_run(
    folder: Path, rounded: bool | None = None
) -> tuple[RunConfig, Task, MemoryModel, str]:
    """Config, task and model of a run that is finished, and the model's folder in it.

    Args:
        folder: of the run.
        rounded: whether the model whose decisions were hardened is taken; None takes it where it
            is there, and the trained one otherwise.
    Raises:
        CheckpointError: the folder is no run, is not finished, its report is damaged, or it has no
            such model.
    """
    config = load_config(folder)
    if not (folder / "report.json").is_file():
        raise CheckpointError(
            f"{folder} is not finished: it has no report.json. `unbounded train {config.task} "
            "--resume`, with the other options that it began with, goes on with it."
        )
    try:
        load_report(folder / "report.json")
    except CheckpointError as error:
        raise CheckpointError(f"{error}. {REMADE}") from error
    if rounded is None:
        rounded = (folder / "model-rounded").is_dir()
    model, source = load_model(folder, rounded)
    return config, task_of_run(folder, config), model.eval(), source


def verification_of(folder: Path) -> dict[str, Any] | None:
    """The report of a verification of a run's model, the hardened one where there is one.

    Returns:
        None where it was not verified, or has other weights since.
    Raises:
        CheckpointError: the file is no such report.
    """
    source = "model-rounded" if (folder / "model-rounded").is_dir() else "model"
    path = folder / f"verification-{source}.json"
    report = read_verification(path) if path.is_file() else None
    return None if report is None or is_stale(report, folder / source) else report


def is_verified(folder: Path, options: Mapping[str, Any]) -> bool:
    """Whether a run was verified to the end, with such options, and has the same weights still.

    Args:
        folder: of the run.
        options: of `VerifyOptions`; those that are not named may be any.
    Raises:
        CheckpointError: the file is no such report.
    """
    report = verification_of(folder)
    return report is not None and is_whole(report, options)


def is_whole(report: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether a verification was brought to its end with such options.

    Args:
        report: as `read_verification` gives it.
        options: of `VerifyOptions`; those that are not named may be any.
    """
    used = report.get("options", {})
    return bool(report["finished"]) and all(
        used.get(name) == value for name, value in options.items()
    )


def is_stale(report: Mapping[str, Any], model: Path) -> bool:
    """Whether what was found is of other weights than a model has now.

    Args:
        report: of a verification or a machine; without a SHA-256 it is of before one was kept.
        model: folder of the model.
    """
    digest = report.get("weights_sha256")
    return digest is not None and digest != weights_digest(model)


def read_verification(path: Path) -> dict[str, Any]:
    """The report of a verification.

    Raises:
        CheckpointError: the file is no such report.
    """
    try:
        data: Any = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no verification: {error}") from error
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise CheckpointError(f"{path} is no verification of version {VERSION}")
    rows = data.get("rows")
    whole = isinstance(rows, list) and all(
        isinstance(row, dict)
        and isinstance(row.get("how"), str)
        and all(type(row.get(name)) is int for name in ("length", "count", "right"))
        for row in rows
    )
    if not whole or "finished" not in data or not isinstance(data.get("options", {}), dict):
        raise CheckpointError(f"{path} is damaged: its rows are not those of a verification")
    return data


def _says_more(folder: Path, source: str, options: VerifyOptions, finished: bool) -> bool:
    """Whether a verification of before, of the same weights, was whole and looked at more.

    One that is damaged says nothing.
    """
    path = folder / f"verification-{source}.json"
    try:
        before = read_verification(path) if path.is_file() else None
    except CheckpointError:
        return False
    if before is None or not before["finished"] or is_stale(before, folder / source):
        return False
    if not finished:
        return True
    used = before.get("options", {})
    amounts = ("most", "symbols_each", "alphabet", "count")
    try:
        is_less = [getattr(options, name) < used[name] for name in amounts]
        is_more = [getattr(options, name) > used[name] for name in amounts]
        is_less.append(set(options.times) < set(used["times"]))
        is_more.append(not set(options.times) <= set(used["times"]))
    except (KeyError, TypeError):
        return False
    return any(is_less) and not any(is_more)


def verify_run(
    folder: Path,
    options: VerifyOptions,
    *,
    rounded: bool | None = None,
    overwrite: bool = False,
    look: Look,
    shown: Callable[[Mapping[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Verify a finished run.

    Args:
        folder: its folder.
        options: how much is looked at.
        rounded: as for `finished_run`.
        overwrite: write the report also where that of before, of the same weights, says more: it
            was brought to its end and this one was not, or looked at less and at nothing more.
        look: told what is looked at, and which share of it is done; a KeyboardInterrupt that it
            raises ends the looking, and what was found until then is reported.
        shown: given the report before it is written, so that a disk that refuses costs nothing.
    Returns:
        The report, with "file", where it also stands in the folder, verification-MODEL.json; None
        where that of before stays.
    Raises:
        CheckpointError: as for `finished_run`.
        ConfigError: the task has no rule, or nothing is to be looked at.
        StorageError: the disk refused.
    """
    config, task, model, source = finished_run(folder, rounded)
    digest = weights_digest(folder / source)
    findings: list[Finding] = []
    finished = False
    try:
        # What is there when it is interrupted stays.
        findings.extend(findings_of(model, task, options, look))
        finished = True
    except KeyboardInterrupt:
        if not findings:
            raise
    if not findings:
        raise ConfigError(
            ["options: nothing is to be looked at; give lengths, such as --most 100 or --times 2"]
        )
    alphabet: list[str] = []
    if isinstance(task, TransductionTask):
        alphabet = list(task.pairs.alphabet(options.alphabet))
    path = folder / f"verification-{source}.json"
    report = report_of(
        findings,
        plan(config, task).train_lengths.minimum,
        finished,
        task=config.task,
        run=folder.name,
        model=model_name(config.model),
        weights=source,
        weights_sha256=digest,
        layout=task.layout,
        train_lengths=str(plan(config, task).train_lengths),
        alphabet=alphabet,
        options=vars(options),
        **provenance(),
    )
    if shown is not None:
        shown(report)
    if not overwrite and _says_more(folder, source, options, finished):
        return {**report, "file": None}
    write_text(path, json_text(report, indent=1) + "\n")
    return {**report, "file": str(path)}
