"""One run: a config in, a folder with checkpoints, metrics, report, model and figures out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.build import build_model, build_task, checked
from unbounded.experiments.claim import admit, check_begun, lock, made
from unbounded.experiments.config import RunConfig, TrainingConfig, model_name, run_name, to_dict
from unbounded.experiments.folder import read_config, read_report, save_model, write_config
from unbounded.experiments.scoring import Scorer, train_lengths, validation_lengths
from unbounded.experiments.tensorboard import tensorboard_listener
from unbounded.experiments.traces import write_trace
from unbounded.figures import draw_run
from unbounded.models.transduction import TransductionModel
from unbounded.tasks import LengthRange
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.files import json_text, storage_faults, write_text
from unbounded.training.loop import TrainingLoop
from unbounded.training.metrics_log import Listener, MetricsLog
from unbounded.training.optimizers import make_optimizer, make_schedule
from unbounded.training.progress import Progress, progress
from unbounded.training.signals import StopRequest, stop_requests
from unbounded.training.state import LoopState
from unbounded.training.stopping import StopRule, WhenConverged, WhenSolved, never


@dataclass(frozen=True)
class RunResult:
    """What a run left behind.

    Fields:
        folder: the run's folder.
        report: its report.json.
        fresh: False when the run had been finished before.
        first: whether this process, of several that share the run, is the one to speak.
    """

    folder: Path
    report: dict[str, Any]
    fresh: bool
    first: bool = True


def train_run(
    config: RunConfig,
    *,
    root: Path,
    resume: bool = False,
    anew: bool = True,
    overwrite: bool = False,
    quiet: bool = False,
    tensorboard: bool = False,
) -> RunResult:
    """Train what a config describes and report on the test split.

    Args:
        config: the run.
        root: the folder that run folders lie in.
        resume: go on where the folder's newest checkpoint stands; give back the report when the
            run is finished.
        anew: with `resume`, begin a run that is not there; False makes that an error.
        overwrite: replace the run of that name; it is deleted when the new one has its first
            checkpoint, and stays when that does not come to it.
        quiet: show nothing.
        tensorboard: also write the metrics for TensorBoard, in the folder's tensorboard/.
    Raises:
        ConfigError: the config has faults; all of them together.
        RunExistsError: the folder is there and neither `resume` nor `overwrite` was given, or it
            is no run's; RunBusyError: another process is at work in it.
        CheckpointError: no checkpoint of the folder can be used, or there is no run to resume.
        StorageError: the disk refused.
        NonFiniteError: the loss went bad.
        Interrupted: stopped by a signal; the run is saved.
    """
    checked(config)
    if resume and overwrite:
        raise ConfigError(["resume and overwrite exclude each other; give one of them"])
    folder = root / run_name(config)
    accelerator = _accelerator(config)
    main, processes = accelerator.is_main_process, accelerator.num_processes
    training = config.training
    if training.batch_size < processes:
        raise ConfigError(
            [
                f"training.batch_size: {training.batch_size} sequences cannot be shared "
                f"among {processes} processes"
            ]
        )
    with lock(folder) if main else nullcontext():
        if main:
            admit(folder, resume=resume, overwrite=overwrite)
            if resume and not anew:
                check_begun(folder)
        accelerator.wait_for_everyone()
        report = None if overwrite else read_report(folder)
        if report is not None:
            return RunResult(folder, report, fresh=False, first=main)
        listener = tensorboard_listener(folder / "tensorboard") if tensorboard and main else None
        # All that can fail for want of a sound config or of room comes before an old run is moved.
        run = _Run(config, folder, accelerator, listener)
        with _made(folder, overwrite, main) as saved:
            accelerator.wait_for_everyone()
            with (
                stop_requests() as request,
                progress(training.batches, training.batch_size, quiet or not main) as shown,
            ):
                report = run.complete(request, shown, saved)
        return RunResult(folder, report, fresh=True, first=main)


def _made(folder: Path, overwrite: bool, main: bool) -> AbstractContextManager[Callable[[], None]]:
    return made(folder, overwrite=overwrite) if main else nullcontext(lambda: None)


class _Run:
    """A run that is built: task, model, optimizer and schedule, and not a file yet."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        accelerator: Accelerator,
        listener: Listener | None,
    ) -> None:
        if config.machine.threads is not None:
            torch.set_num_threads(config.machine.threads)
        self._accelerator = accelerator
        self._config = config
        self._folder = folder
        self._log = MetricsLog(folder / "metrics.jsonl", listener)
        self._task = build_task(config)
        torch.manual_seed(config.seed)
        self._model = build_model(config, self._task)
        training = config.training
        trained = [parameter for parameter in self._model.parameters() if parameter.requires_grad]
        optimizer = make_optimizer(
            trained,
            name=training.optimizer,
            learning_rate=training.learning_rate,
            epsilon=training.epsilon,
        )
        schedule = make_schedule(optimizer, name=training.schedule, batches=training.batches)
        self._prepared = accelerator.prepare(self._model, optimizer, schedule)
        self._model = accelerator.unwrap_model(self._prepared[0])

    def complete(
        self, request: StopRequest, shown: Progress, saved: Callable[[], None]
    ) -> dict[str, Any]:
        """Train, report, save the model and draw; call `saved` after each checkpoint."""
        config, training = self._config, self._config.training
        accelerator = self._accelerator
        if accelerator.is_main_process:
            self._begin(shown)
        checkpoints = Checkpoints(
            self._folder / "checkpoints",
            accelerator,
            config=_json_config(self._model),
            run=self._folder.name,
            saved=saved,
        )
        state = checkpoints.load_newest(shown.say) or LoopState()
        if accelerator.is_main_process:
            self._cut_log(state, shown)
        if state.batch:
            shown.say(f"going on after batch {state.batch}")
        scorer = Scorer(config, self._task, self._model, accelerator, request)
        lengths = train_lengths(config, self._task)
        model, optimizer, schedule = self._prepared
        loop = TrainingLoop(
            self._task,
            model,
            optimizer,
            schedule,
            accelerator,
            log=self._log,
            checkpoints=checkpoints,
            assess=scorer.assess,
            stop_rule=_stop_rule(training, validation_lengths(config, self._task)),
            progress=shown,
            request=request,
            seed=config.seed,
            batch_size=training.batch_size,
            batches=training.batches,
            minutes=training.minutes,
            clip=training.clip,
            lengths=lengths,
            report_every=training.report_every,
            accuracy_every=training.accuracy_every,
            accuracy_lengths=(lengths, validation_lengths(config, self._task)),
            accuracy_count=training.accuracy_count,
            checkpoint_every=training.checkpoint_every,
        )
        state = loop.run(state)
        shown.say(f"stopped after batch {state.batch}: {state.finished}")
        report = scorer.report(state, shown)
        if accelerator.is_main_process:
            save_model(self._model, self._folder / "model")
            trace = self._folder / "traces" / "example.safetensors"
            write_trace(self._model, self._task, config.seed, trace)
            with storage_faults(self._folder / "figures", "drawing"):
                draw_run(self._folder)
            # Last of all: a run that has its report is finished.
            write_text(self._folder / "report.json", json_text(report, indent=2) + "\n")
        return report

    def _begin(self, shown: Progress) -> None:
        before = read_config(self._folder)
        here: dict[str, Any] = {"threads": torch.get_num_threads(), "kernels": kernels()}
        if self._config.machine.backend == "reference":
            here["kernels"] = "none"
        shown.say(
            f"training {model_name(self._config.model)} on {self._config.task} in {self._folder}; "
            f"kernels: {here['kernels']}, threads: {here['threads']}"
        )
        if before is None:
            write_config(self._folder, to_dict(self._config), here)
            return
        used = before.get("used", {})
        for name, value in here.items():
            if used.get(name, value) != value:
                shown.say(
                    f"warning: this run began with {name} {used[name]} and goes on with {value}; "
                    "its numbers may differ in the last bits"
                )

    def _cut_log(self, state: LoopState, shown: Progress) -> None:
        kept = self._log.cut(state.metrics_lines)
        if kept < state.metrics_lines:
            shown.say(
                f"warning: {self._log.path} has {kept} of the {state.metrics_lines} lines that the "
                "checkpoint counts; the others are missing from figures, and training is not "
                "touched by it"
            )
        state.metrics_lines = kept


def _stop_rule(training: TrainingConfig, lengths: LengthRange) -> StopRule:
    if training.stop == "solved":
        return WhenSolved(lengths, every=training.validate_every, count=training.validation_count)
    if training.stop == "converged":
        return WhenConverged(
            every=training.report_every,
            bound=training.converged_perplexity,
            times=training.converged_reports,
        )
    return never


def _accelerator(config: RunConfig) -> Accelerator:
    device = config.machine.device
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(["machine.device: cuda was asked for and torch finds no CUDA device"])
    # accelerate keeps the first run's choice of device and precision for the whole process.
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(
        cpu=device == "cpu",
        mixed_precision=config.training.precision,
        step_scheduler_with_optimizer=False,
    )


def _json_config(model: TransductionModel) -> dict[str, Any]:
    config = model._hub_mixin_config
    if not isinstance(config, dict):
        raise CheckpointError("the model has no config of plain values to save")
    return config
