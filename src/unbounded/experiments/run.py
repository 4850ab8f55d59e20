"""One run: a config in, a folder with checkpoints, metrics, report, model and figures out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from unbounded.errors import ConfigError
from unbounded.evaluation import make_report
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.build import build_model, build_task, checked
from unbounded.experiments.claim import admit, check_begun, lock, made
from unbounded.experiments.config import RunConfig, model_name, run_name, to_dict
from unbounded.experiments.evaluate import named_lengths
from unbounded.experiments.folder import read_config, read_report, save_model, write_config
from unbounded.experiments.kinds import Judge, Sweep, kind_of
from unbounded.experiments.parts import (
    json_config,
    make_accelerator,
    make_extra,
    make_place,
    make_plateau,
    make_stop_rule,
)
from unbounded.experiments.tensorboard import tensorboard_listener
from unbounded.experiments.traces import write_trace
from unbounded.figures import draw_run
from unbounded.training.carry import Carry
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.files import json_text, storage_faults, write_text
from unbounded.training.loop import TrainingLoop
from unbounded.training.metrics_log import Listener, MetricsLog
from unbounded.training.optimizers import make_optimizer, make_schedule
from unbounded.training.progress import Progress, progress
from unbounded.training.signals import StopRequest, stop_requests
from unbounded.training.state import LoopState


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
    accelerator = make_accelerator(config)
    main, processes = accelerator.is_main_process, accelerator.num_processes
    if config.training.batch_size < processes:
        raise ConfigError(
            [
                f"training.batch_size: {config.training.batch_size} sequences cannot be shared "
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
        training = config.training
        unit = "sequences" if training.piece_steps is None else "streams"
        with _made(folder, overwrite, main) as saved:
            accelerator.wait_for_everyone()
            with (
                stop_requests() as request,
                progress(training.batches, training.batch_size, quiet or not main, unit) as shown,
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
        self._kind = kind_of(config.task)
        self._train_lengths = self._kind.train_lengths(config, self._task)
        self._validation_lengths = self._kind.validation_lengths(config, self._task)
        torch.manual_seed(config.seed)
        model = build_model(config, self._task)
        self._model_config = json_config(model)
        training = config.training
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = make_optimizer(
            trained,
            name=training.optimizer,
            learning_rate=training.learning_rate,
            epsilon=training.epsilon,
        )
        schedule = make_schedule(optimizer, name=training.schedule, batches=training.batches)
        self._prepared = accelerator.prepare(model, optimizer, schedule)
        self._model = accelerator.unwrap_model(self._prepared[0])

    def complete(
        self, request: StopRequest, shown: Progress, saved: Callable[[], None]
    ) -> dict[str, Any]:
        """Train, report, save the model and draw; call `saved` after each checkpoint."""
        config, training = self._config, self._config.training
        accelerator, prepared = self._accelerator, self._prepared
        if accelerator.is_main_process:
            self._begin(shown)
        judge = self._judge(request)
        plateau = make_plateau(training, self._model, prepared[1], prepared[2], judge)
        carry = Carry()
        checkpoints = Checkpoints(
            self._folder / "checkpoints",
            accelerator,
            config=self._model_config,
            run=self._folder.name,
            saved=saved,
            extra=make_extra(training, plateau, carry),
        )
        state = checkpoints.load_newest(shown.say) or LoopState()
        if accelerator.is_main_process:
            self._cut_log(state, shown)
        if state.batch:
            shown.say(f"going on after batch {state.batch}")
        loop = TrainingLoop(
            self._task,
            prepared[0],
            prepared[1],
            prepared[2],
            accelerator,
            log=self._log,
            checkpoints=checkpoints,
            assess=judge.assess,
            stop_rule=make_stop_rule(training, self._validation_lengths, plateau),
            progress=shown,
            request=request,
            seed=config.seed,
            batch_size=training.batch_size,
            batches=training.batches,
            minutes=training.minutes,
            clip=training.clip,
            clip_by=training.clip_by,
            piece_steps=training.piece_steps,
            carry=carry,
            average=training.average,
            update=training.update,
            lengths=self._kind.curriculum(config, self._task),
            report_every=training.report_every,
            accuracy_every=training.accuracy_every,
            accuracy_lengths=tuple(dict.fromkeys((self._train_lengths, self._validation_lengths))),
            accuracy_count=training.accuracy_count,
            checkpoint_every=training.checkpoint_every,
        )
        state = loop.run(state)
        shown.say(f"stopped after batch {state.batch}: {state.finished}")
        if plateau is not None:
            plateau.restore()
        report = self._report(state, judge, shown)
        if accelerator.is_main_process:
            save_model(self._model, self._folder / "model")
            example = self._kind.example(config, self._task)
            if example is not None:
                trace = self._folder / "traces" / "example.safetensors"
                write_trace(self._model, self._task, example, trace)
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
                "checkpoint counts; the figures will lack the others, the weights lack nothing"
            )
        state.metrics_lines = kept

    def _judge(self, request: StopRequest) -> Judge:
        place = make_place(self._accelerator, request)
        return self._kind.judge(self._config, self._task, self._model, place)

    def _report(self, state: LoopState, judge: Judge, shown: Progress) -> dict[str, Any]:
        config, evaluation = self._config, self._config.evaluation
        self._model.eval()
        sweep = Sweep(
            "test",
            config.seed,
            named_lengths(config),
            evaluation.count,
            evaluation.every,
            evaluation.streams,
            evaluation.carry,
            lambda lengths, count: shown.looking(state.batch, lengths, count),
        )
        return make_report(
            task=config.task,
            kind=self._kind.name,
            split="test",
            seed=config.seed,
            model=model_name(config.model),
            rows=judge.rows(sweep),
            batches=state.batch,
            minutes=state.elapsed_s / 60,
            stopped=state.finished,
            perplexity_train=state.perplexity,
            parameters=sum(p.numel() for p in self._model.parameters() if p.requires_grad),
            config=to_dict(config),
            **judge.facts(),
        )
