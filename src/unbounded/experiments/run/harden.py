"""Hardening of a run that is finished already."""

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
from unbounded.experiments.config.harden import with_hardening
from unbounded.experiments.config.schema import RoundingConfig
from unbounded.experiments.run.build import build_run, make_accelerator
from unbounded.experiments.run.data_check import check_data
from unbounded.experiments.run.denormals import denormals_are_zero
from unbounded.experiments.run.folder import read_report
from unbounded.experiments.run.loading import load_config, load_model
from unbounded.experiments.run.matmul_precision import matmul_precision
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run import Run
from unbounded.experiments.run.run_lock import lock
from unbounded.files import json_text, read_text, refuse_links, storage_faults, write_text
from unbounded.training.progress import progress
from unbounded.training.signals import stop_requests

_OPTIONS = "options.json"
#: Beside them while a run that is hardened is hardened anew; what it was before stands until then.
_ANEW = "anew"


def harden_run(
    folder: Path,
    changes: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    data: str | None = None,
) -> dict[str, Any]:
    """Harden the trained model of a run; its report then has "rounded", and the folder the machine.

    The trained model stays beside it. A hardening that was interrupted goes on where it was; the
    machine of before, and what is known of it, stay until another takes its place.

    Args:
        folder: of a finished run.
        changes: options of `RoundingConfig` that differ from those that the run was trained with
            or, where it was trained without a hardening, from those of `train --harden`.
        overwrite: harden anew a run that is hardened, or that was to be hardened otherwise.
        quiet: show nothing.
        data: file or folder of the task's data, if it has moved.
    Returns:
        the run's report.
    Raises:
        CheckpointError: the run is not finished, or damaged.
        ConfigError: an option is out of range, its memory decides nothing, or its task is never
            right or wrong.
        RunExistsError: it is hardened already, or was to be with other options, without
            `overwrite`. RunBusyError: another process is at work in it.
        StorageError, NonFiniteError, Interrupted: as for `train_run`.
    """
    report = read_report(folder)
    if report is None:
        raise CheckpointError(
            f"{folder} is not finished; `unbounded train ... --resume` goes on with it, and with "
            "--harden hardens it at the end"
        )
    trained = load_config(folder)
    place = replace(trained.machine, data=data or trained.machine.data)
    # Which are the same where there is one, and do not fail where there is none.
    if place.device == "cuda":
        place.device = "auto"
    if place.backend in ("cpu", "cuda"):
        place.backend = "auto"
    own = dict(changes or {})
    if own.get("batches") == 0:
        raise ConfigError(["batches: expected at least 1, got 0"])
    if trained.rounding.batches:  # it was trained with a hardening of its own
        config = replace(trained, rounding=replace(trained.rounding, **own), machine=place)
    else:
        config = with_hardening(
            replace(trained, rounding=RoundingConfig(**own), machine=place), said=own.keys()
        )
    planned = plan(config, checked(config))
    check_data(folder, config, planned.task)
    where = folder / "rounding"
    with lock(folder):
        accelerator = make_accelerator(config)
        built = build_run(planned, accelerator)
        model, _ = load_model(folder)
        built.model.load_state_dict(model.state_dict())
        for name in ("model-rounded", "rounding"):
            refuse_links(folder / name)  # before the hardening, and not after its minutes
        _begin(folder, where, asdict(config.rounding), "rounded" in report, overwrite)
        run = Run(built, folder, accelerator)
        size, unit = config.training.batch_size, "sequences"
        if config.training.piece_steps is not None:
            unit = "streams"
        with (
            stop_requests() as request,
            progress(config.rounding.batches, size, quiet, unit) as shown,
            denormals_are_zero(),  # the number of threads is set by now
            matmul_precision(config.machine.matmul_precision),
        ):
            report["rounded"] = {
                **run.round(request, shown, report["batches"]),
                "options": asdict(config.rounding),
                "commit": commit(),  # the report's own is of the training
            }
        with storage_faults(folder, "forgetting the machine of before in"):
            # What was found out about that is not true of the next one.
            if (folder / "machine").exists():
                shutil.rmtree(folder / "machine")
            (folder / "verification-model-rounded.json").unlink(missing_ok=True)
        run.finish(report)
        (where / _ANEW).unlink(missing_ok=True)
    return report


def _begin(
    folder: Path, where: Path, options: dict[str, Any], hardened: bool, overwrite: bool
) -> None:
    """Make room for a hardening, or see that it goes on with the one that was begun."""
    if hardened and not overwrite and not (where / _ANEW).exists():
        raise RunExistsError(f"{folder} is hardened already; --overwrite hardens it anew")
    begun = where / _OPTIONS
    if begun.is_file() and not overwrite:
        try:
            before: dict[str, Any] = dict(json.loads(read_text(begun)))
        except (ValueError, TypeError) as error:
            raise CheckpointError(f"{begun} is not what a hardening began with: {error}") from error
        # Options that are newer than what was begun had their defaults.
        if {**asdict(RoundingConfig()), **before} != options:
            raise RunExistsError(
                f"{where} was begun with other options ({begun}); give these, or --overwrite to "
                "begin anew"
            )
        return
    with storage_faults(where, "beginning a hardening"):
        if where.exists():
            shutil.rmtree(where)
        where.mkdir()
        if hardened:
            (where / _ANEW).touch()
    write_text(begun, json_text(options, indent=2) + "\n")
