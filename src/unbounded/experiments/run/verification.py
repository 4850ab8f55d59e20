"""Verify a finished run."""

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
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run_folder import REMADE, AnyPath, RunFolder, load_report
from unbounded.files import json_text, read_text, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Task, TransductionTask
from unbounded.verification import Finding, VerifyOptions, findings_of, report_of
from unbounded.verification.report import FORMAT, VERSION
from unbounded.verification.verify import Look, count_of


def finished_run(
    folder: AnyPath, hardened: bool | None = None
) -> tuple[RunConfig, Task, MemoryModel, str]:
    """Return config, task and model of a finished run, and the model's subfolder.

    Args:
        folder: the run's folder.
        hardened: whether to load the hardened model; None loads it if it exists.
    Raises:
        CheckpointError: the folder is not a finished run, its report is damaged, or the model is
            missing.
    """
    folder = RunFolder(folder)
    config = folder.config()
    if not folder.is_finished:
        raise CheckpointError(
            f"{folder} is not finished: it has no report.json. "
            f"`unbounded train {config.task['name']} --resume`, with its other original options, "
            "continues it."
        )
    try:
        load_report(folder.report_file)
    except CheckpointError as error:
        raise CheckpointError(f"{error}. {REMADE}") from error
    if hardened is None:
        hardened = folder.is_hardened
    model, source = folder.load_model(hardened)
    return config, task_of_run(folder, config), model.eval(), source


def verification_of(folder: AnyPath) -> dict[str, Any] | None:
    """The verification report of a run's hardened model, or of its trained model without one.

    Returns:
        The report; None without a verification of the current weights.
    Raises:
        CheckpointError: the file is not a verification report.
    """
    folder = RunFolder(folder)
    source = folder.model_folder().name
    path = folder.verification_file(source)
    report = read_verification(path) if path.is_file() else None
    return None if report is None or is_stale(report, folder, source) else report


def is_verified(folder: AnyPath, options: Mapping[str, Any]) -> bool:
    """Whether a run has a complete verification of its current weights with these options.

    Args:
        folder: the run's folder.
        options: options of `VerifyOptions`; others may have any value.
    Raises:
        CheckpointError: the file is not a verification report.
    """
    report = verification_of(folder)
    return report is not None and is_whole(report, options)


def is_whole(report: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether a verification is complete and has these options.

    Args:
        report: from `read_verification`.
        options: options of `VerifyOptions`; others may have any value.
    """
    used = report.get("options", {})
    return bool(report["finished"]) and all(
        used.get(name) == value for name, value in options.items()
    )


def is_stale(report: Mapping[str, Any], folder: RunFolder, source: str) -> bool:
    """Whether a report was made with other weights than the model's current ones.

    Args:
        report: report of a verification or an automaton. Old reports lack a SHA-256 and count as
            current.
        folder: the run's folder.
        source: name of the model's folder in it.
    """
    digest = report.get("weights_sha256")
    return digest is not None and digest != folder.weights_digest(source)


def read_verification(path: Path) -> dict[str, Any]:
    """Read the report of a verification.

    Raises:
        CheckpointError: the file is not a verification report.
    """
    data: dict[str, Any]
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not a verification report: {error}") from error
    check_verification(data, path)
    return data


def check_verification(data: Any, path: Path) -> None:
    """Check that data from a file is the report of a verification.

    Raises:
        CheckpointError: they are not; the message names the file.
    """
    if not isinstance(data, dict) or (data.get("format"), data.get("version")) != (FORMAT, VERSION):
        raise CheckpointError(f"{path} is not a verification report of version {VERSION}")
    rows = data.get("rows")
    whole = isinstance(rows, list) and all(
        isinstance(row, dict)
        and isinstance(row.get("how"), str)
        and all(type(row.get(name)) is int for name in ("length", "count", "correct"))
        for row in rows
    )
    if not whole or "finished" not in data or not isinstance(data.get("options", {}), dict):
        raise CheckpointError(f"{path} is damaged: a row of the verification is malformed")


def _says_more(folder: RunFolder, source: str, options: VerifyOptions, finished: bool) -> bool:
    """Whether an earlier verification of the same weights is complete and has more tests.

    A damaged report counts as missing.
    """
    path = folder.verification_file(source)
    try:
        before = read_verification(path) if path.is_file() else None
    except CheckpointError:
        return False
    if before is None or not before["finished"] or is_stale(before, folder, source):
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


def _nothing_tested(task: Task, options: VerifyOptions) -> str:
    """The error that no length was tested."""
    counts = (count_of(task, length, options.alphabet) for length in range(1, options.most + 1))
    if None in counts:
        return (
            f"options: expected lengths to test, got none; task {task.name!r} cannot list its "
            "sequences, so they are only drawn: give --times 2"
        )
    return "options: expected lengths to test, got none; give --most 100 or --times 2"


def verify_run(
    folder: AnyPath,
    options: VerifyOptions,
    *,
    hardened: bool | None = None,
    overwrite: bool = False,
    look: Look,
    shown: Callable[[Mapping[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Verify a finished run.

    Args:
        folder: the run's folder.
        options: what to test.
        hardened: as for `finished_run`.
        overwrite: replace an earlier report of the same weights even if it is more complete. The
            more complete report is the only finished one, or it tested more and omitted nothing.
        look: called with the current activity and its finished share. A KeyboardInterrupt from it
            ends the verification, and the results so far are reported.
        shown: called with the report before it is written, so that a write error loses nothing.
    Returns:
        The report, with "file", its path verification-MODEL.json in the folder; None if the earlier
        report stays.
    Raises:
        CheckpointError: as for `finished_run`.
        ConfigError: the task has no rule, or the options select no tests.
        StorageError: the report cannot be written.
    """
    folder = RunFolder(folder)
    config, task, model, source = finished_run(folder, hardened)
    digest = folder.weights_digest(source)
    train_lengths = plan(config, task).train_lengths
    findings: list[Finding] = []
    finished = False
    try:
        # After an interruption, the findings so far are kept.
        findings.extend(findings_of(model, task, options, look, train_lengths))
        finished = True
    except KeyboardInterrupt:
        if not findings:
            raise
    if not findings:
        raise ConfigError(_nothing_tested(task, options))
    alphabet: list[str] = []
    if isinstance(task, TransductionTask):
        alphabet = list(task.pairs.alphabet(options.alphabet))
    path = folder.verification_file(source)
    report = report_of(
        findings,
        # Training strings from length 1 on include the empty string, if it is an example.
        0 if task.has_empty and train_lengths.minimum == 1 else train_lengths.minimum,
        finished,
        task=config.task["name"],
        run=folder.name,
        model=model_name(config.model),
        weights=source,
        weights_sha256=digest,
        layout=task.layout,
        train_lengths=str(train_lengths),
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
