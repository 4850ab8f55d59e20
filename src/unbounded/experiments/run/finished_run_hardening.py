"""Harden a finished run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unbounded.errors import CheckpointError, ConfigError, RunExistsError
from unbounded.evaluation.provenance import commit
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.components import component_errors
from unbounded.experiments.config.compose import with_hardening
from unbounded.experiments.run.build import build_run, make_accelerator
from unbounded.experiments.run.data_check import check_data
from unbounded.experiments.run.numerics import denormals_are_zero, matmul_precision
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run import Run
from unbounded.experiments.run.run_folder import AnyPath, RunFolder
from unbounded.experiments.run.run_lock import lock
from unbounded.files import json_text, read_text, refuse_links, storage_errors, write_text
from unbounded.signals import stop_requests
from unbounded.training.progress import progress

_OPTIONS = "options.json"
#: Marker file that exists while a hardened run is hardened again. The former results are kept until
#: the end.
_ANEW = "anew"


def harden_run(
    folder: AnyPath,
    changes: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    data: str | None = None,
) -> dict[str, Any]:
    """Harden the model of a run, add "hardened" to its report, and save the hardened model.

    The trained model is kept. An interrupted hardening resumes. An earlier hardened model and its
    results are kept until they are replaced.

    Args:
        folder: folder of a finished run.
        changes: options of `HardeningConfig` to replace. The other options come from the run's
            config, or from the task's preset if the run was trained without hardening.
        overwrite: replace an existing hardening, or an interrupted one with other options.
        quiet: show nothing.
        data: file or folder of the task's data, if it moved.
    Returns:
        The run's report.
    Raises:
        CheckpointError: the run is not finished, or damaged.
        ConfigError: an option is out of range, the memory has no gates, or the task has no correct
            outputs.
        RunExistsError: the run is hardened already, or a hardening with other options was
            interrupted, and `overwrite` is False.
        RunBusyError: another process uses the run.
        StorageError, NonFiniteError, Interrupted: as for `train_run`.
    """
    folder = RunFolder(folder)
    report = folder.report()
    if report is None:
        raise CheckpointError(
            f"{folder} is not finished; `unbounded train ... --resume` continues it, and with "
            "--harden hardens it at the end"
        )
    trained = folder.config()
    place = replace(trained.hardware, data=data or trained.hardware.data)
    # "auto" chooses the training's device and kernels if they exist, and does not fail otherwise.
    if place.device == "cuda":
        place.device = "auto"
    if place.backend in ("cpu", "cuda"):
        place.backend = "auto"
    config = with_hardening(replace(trained, hardware=place), changes)
    if errors := component_errors(config, "hardening"):
        raise ConfigError(errors)
    planned = plan(config, checked(config))
    hardening = planned.hardening()
    check_data(folder, config, planned.task)
    where = folder.hardening
    with lock(folder):
        accelerator = make_accelerator(config)
        built = build_run(planned, accelerator)
        model, _ = folder.load_model()
        built.model.load_state_dict(model.state_dict())
        for name in ("model-hardened", "hardening"):
            refuse_links(folder / name)  # fail before minutes of hardening
        _begin(folder, where, asdict(hardening), "hardened" in report, overwrite)
        run = Run(built, folder, accelerator)
        size, unit = config.training.batch_size, "sequences"
        if config.training.chunk_steps is not None:
            unit = "streams"
        with (
            stop_requests() as request,
            progress(hardening.batches, size, quiet, unit) as shown,
            denormals_are_zero(),  # needs the final number of threads
            matmul_precision(config.hardware.matmul_precision),
        ):
            report["hardened"] = {
                **run.harden(request, shown, report["batches"]),
                "options": asdict(hardening),
                "commit": commit(),  # the commit in the report belongs to the training
            }
        with storage_errors(folder.path, "deleting the earlier automaton in"):
            # Automaton and verification belong to the earlier hardened model.
            if folder.automaton.exists():
                shutil.rmtree(folder.automaton)
            folder.verification_file("model-hardened").unlink(missing_ok=True)
        run.finish(report)
        (where / _ANEW).unlink(missing_ok=True)
    return report


def _begin(
    folder: RunFolder, where: Path, options: dict[str, Any], hardened: bool, overwrite: bool
) -> None:
    """Prepare the folder of a hardening, or check that the existing one can resume."""
    if hardened and not overwrite and not (where / _ANEW).exists():
        raise RunExistsError(f"{folder} is hardened already; --overwrite hardens it again")
    begun = where / _OPTIONS
    if begun.is_file() and not overwrite:
        try:
            before: dict[str, Any] = dict(json.loads(read_text(begun)))
        except (ValueError, TypeError) as error:
            raise CheckpointError(
                f"{begun} does not hold the options of a hardening: {error}"
            ) from error
        if before != options:
            raise RunExistsError(
                f"{where} was begun with other options ({begun}); give the same options, or "
                "--overwrite to start again"
            )
        return
    with storage_errors(where, "starting a hardening"):
        if where.exists():
            shutil.rmtree(where)
        where.mkdir()
        if hardened:
            (where / _ANEW).touch()
    write_text(begun, json_text(options, indent=2) + "\n")
