"""One run: a config in, a folder with checkpoints, metrics, report, model and figures out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from unbounded.errors import ConfigError
from unbounded.evaluation import make_report
from unbounded.experiments.build import checked
from unbounded.experiments.built import Built, build_run
from unbounded.experiments.claim import admit, check_begun, lock, made
from unbounded.experiments.config import RunConfig, model_name, run_name, to_dict
from unbounded.experiments.evaluate import own_sweep
from unbounded.experiments.folder import begin, read_report, save_model
from unbounded.experiments.kinds import Judge, Model, Sweep
from unbounded.experiments.parts import (
    make_accelerator,
    make_extra,
    make_place,
    make_plateau,
    make_stop_rule,
)
from unbounded.experiments.rounding import MakeJudge, round_model
from unbounded.experiments.tensorboard import tensorboard_listener
from unbounded.experiments.traces import write_trace
from unbounded.figures import draw_run
from unbounded.training.carry import Carry
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.files import json_text, storage_faults, write_text
from unbounded.training.loop import TrainingLoop
from unbounded.training.metrics_log import Listener, MetricsLog
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
    if processes > 1 and config.rounding.batches:
        raise ConfigError(["rounding.batches: rounding is done by one process; give 0 for several"])
    with lock(folder) if main else nullcontext():
        if main:
            admit(folder, resume=resume, overwrite=overwrite)
            if resume and not anew:
                check_begun(folder)
        accelerator.wait_for_everyone()
        report = None if overwrite else read_report(folder)
        if report is not None:
            return RunResult(folder, report, fresh=False, first=main)
        board = folder / "tensorboard"
        listeners = None
        if tensorboard and main:
            # Rounding counts its batches from 1 again: a run of its own beside training's.
            listeners = (tensorboard_listener(board), tensorboard_listener(board / "rounding"))
        training = config.training
        unit = "sequences" if training.piece_steps is None else "streams"
        silent, size = quiet or not main, training.batch_size
        # All that can fail for want of a sound config or of room comes before an old run is moved.
        run = _Run(config, build_run(config, accelerator), folder, accelerator, listeners)
        with _made(folder, overwrite, main) as saved, stop_requests() as request:
            accelerator.wait_for_everyone()
            with progress(training.batches, size, silent, unit) as shown:
                report = run.train(request, shown, saved)
            if config.rounding.batches:
                with progress(config.rounding.batches, size, silent, unit) as shown:
                    report["rounded"] = run.round(request, shown)
            run.finish(report)
        return RunResult(folder, report, fresh=True, first=main)


def _made(folder: Path, overwrite: bool, main: bool) -> AbstractContextManager[Callable[[], None]]:
    return made(folder, overwrite=overwrite) if main else nullcontext(lambda: None)


class _Run:
    def __init__(
        self,
        config: RunConfig,
        built: Built,
        folder: Path,
        accelerator: Accelerator,
        listeners: tuple[Listener, Listener] | None,
    ) -> None:
        self._accelerator = accelerator
        self._config = config
        self._built = built
        self._task, self._kind = built.task, built.kind
        self._model: Any = built.model
        self._folder = folder
        self._listeners: tuple[Listener | None, Listener | None] = listeners or (None, None)
        self._log = MetricsLog(folder / "metrics.jsonl", self._listeners[0])

    def train(
        self, request: StopRequest, shown: Progress, saved: Callable[[], None]
    ) -> dict[str, Any]:
        """Train, and save the model; its report. `saved` is called after each checkpoint."""
        config, training, built = self._config, self._config.training, self._built
        accelerator = self._accelerator
        if accelerator.is_main_process:
            begin(self._folder, config, shown.say)
        model, optimizer, schedule = built.prepared
        judge = self._judge(request)(self._model)
        plateau = make_plateau(training, self._model, optimizer, schedule, judge)
        carry = Carry()
        checkpoints = Checkpoints(
            self._folder / "checkpoints",
            accelerator,
            config=built.model_config,
            run=self._folder.name,
            saved=saved,
            extra=make_extra(training, plateau, carry),
        )
        state = checkpoints.load_newest(shown.say) or LoopState()
        if accelerator.is_main_process:
            state.metrics_lines = self._log.cut(state.metrics_lines, shown.say)
        if state.batch:
            shown.say(f"going on after batch {state.batch}")
        loop = TrainingLoop(
            self._task,
            model,
            optimizer,
            schedule,
            accelerator,
            log=self._log,
            checkpoints=checkpoints,
            assess=judge.assess,
            stop_rule=make_stop_rule(training, built.validation_lengths, plateau),
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
            accuracy_lengths=tuple(dict.fromkeys((built.train_lengths, built.validation_lengths))),
            accuracy_count=training.accuracy_count,
            checkpoint_every=training.checkpoint_every,
        )
        state = loop.run(state)
        shown.say(f"stopped after batch {state.batch}: {state.finished}")
        if plateau is not None:
            plateau.restore()
        report = self._report(state, judge, shown)
        if accelerator.is_main_process:
            self._keep(self._model, "model", "example")
        return report

    def round(self, request: StopRequest, shown: Progress) -> dict[str, Any]:
        """Round the model that was trained, and save it; what the report says of it."""
        # The config has been checked: only streams and their models are rounded.
        task: Any = self._task
        machine, facts = round_model(
            self._config,
            task,
            self._model,
            self._folder / "rounding",
            make_accelerator(self._config),
            self._judge(request),
            progress=shown,
            request=request,
            listener=self._listeners[1],
        )
        judge = self._judge(request)(machine)
        rows = judge.rows(self._sweep(facts["batches"], shown))
        self._keep(machine, "model-rounded", "rounded")
        return {**facts, "rows": rows, **judge.facts()}

    def finish(self, report: dict[str, Any]) -> None:
        """Draw, and write the report."""
        if self._accelerator.is_main_process:
            with storage_faults(self._folder / "figures", "drawing"):
                draw_run(self._folder)
            # Last of all: a run that has its report is finished.
            write_text(self._folder / "report.json", json_text(report, indent=2) + "\n")

    def _keep(self, model: Model, name: str, example: str) -> None:
        """Save a model, and the trace of what it does with an example."""
        save_model(model, self._folder / name)
        batch = self._kind.example(self._config, self._task)
        if batch is not None:
            path = self._folder / "traces" / f"{example}.safetensors"
            write_trace(model, self._task, batch, path)

    def _judge(self, request: StopRequest) -> MakeJudge:
        place = make_place(self._accelerator, request)
        return lambda model: self._kind.judge(self._config, self._task, model, place)

    def _sweep(self, batch: int, shown: Progress) -> Sweep:
        return own_sweep(self._config, lambda name, count: shown.looking(batch, name, count))

    def _report(self, state: LoopState, judge: Judge, shown: Progress) -> dict[str, Any]:
        config = self._config
        self._model.eval()
        return make_report(
            task=config.task,
            kind=self._kind.name,
            split="test",
            seed=config.seed,
            model=model_name(config.model),
            rows=judge.rows(self._sweep(state.batch, shown)),
            batches=state.batch,
            minutes=state.elapsed_s / 60,
            stopped=state.finished,
            perplexity_train=state.perplexity,
            parameters=sum(p.numel() for p in self._model.parameters() if p.requires_grad),
            config=to_dict(config),
            **judge.facts(),
        )
