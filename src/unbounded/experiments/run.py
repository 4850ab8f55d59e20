"""One run: a config in, a folder with checkpoints, metrics, report, model and figures out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from unbounded.errors import ConfigError
from unbounded.evaluation import make_report
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.build import build_model, build_task, checked
from unbounded.experiments.config import RunConfig, model_name, run_name, to_dict
from unbounded.experiments.evaluate import own_sweep
from unbounded.experiments.folder import lock, read_config, read_report, save_model, write_config
from unbounded.experiments.kinds import Judge, Model, Place, Sweep, kind_of
from unbounded.experiments.parts import (
    json_config,
    make_accelerator,
    make_extra,
    make_plateau,
    make_stop_rule,
)
from unbounded.experiments.rounding import MakeJudge, round_model
from unbounded.experiments.tensorboard import tensorboard_listener
from unbounded.experiments.traces import write_trace
from unbounded.figures import draw_run
from unbounded.tasks import Task
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
    overwrite: bool = False,
    quiet: bool = False,
    tensorboard: bool = False,
) -> RunResult:
    """Train what a config describes and report on the test split.

    Args:
        config: the run.
        root: the folder that run folders lie in.
        resume: go on where the folder's newest checkpoint stands; begin when there is none; give
            back the report when the run is finished.
        overwrite: delete a folder of that name first.
        quiet: show nothing.
        tensorboard: also write the metrics for TensorBoard, in the folder's tensorboard/.
    Raises:
        ConfigError: the config has faults; all of them together.
        RunExistsError: the folder is there and neither `resume` nor `overwrite` was given.
        CheckpointError: no checkpoint of the folder can be used.
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
    with lock(folder, resume=resume, overwrite=overwrite) if main else nullcontext():
        accelerator.wait_for_everyone()
        report = read_report(folder)
        if report is not None:
            return RunResult(folder, report, fresh=False, first=main)
        listener = tensorboard_listener(folder / "tensorboard") if tensorboard and main else None
        run = _Run(config, build_task(config), folder, accelerator, listener)
        training = config.training
        unit = "sequences" if training.piece_steps is None else "streams"
        silent, size = quiet or not main, training.batch_size
        with stop_requests() as request:
            with progress(training.batches, size, silent, unit) as shown:
                report = run.train(request, shown)
            if config.rounding.batches:
                with progress(config.rounding.batches, size, silent, unit) as shown:
                    report["rounded"] = run.round(request, shown)
            run.finish(report)
        return RunResult(folder, report, fresh=True, first=main)


class _Run:
    def __init__(
        self,
        config: RunConfig,
        task: Task,
        folder: Path,
        accelerator: Accelerator,
        listener: Listener | None,
    ) -> None:
        self._accelerator = accelerator
        self._config = config
        self._task = task
        self._folder = folder
        self._log = MetricsLog(folder / "metrics.jsonl", listener)
        self._kind = kind_of(config.task)
        self._train_lengths = self._kind.train_lengths(config, task)
        self._validation_lengths = self._kind.validation_lengths(config, task)

    def train(self, request: StopRequest, shown: Progress) -> dict[str, Any]:
        """Train, and save the model; its report."""
        config, training = self._config, self._config.training
        if config.machine.threads is not None:
            torch.set_num_threads(config.machine.threads)
        accelerator = self._accelerator
        if accelerator.is_main_process:
            self._begin(shown)
        torch.manual_seed(config.seed)
        model = build_model(config, self._task)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = make_optimizer(
            trained,
            name=training.optimizer,
            learning_rate=training.learning_rate,
            epsilon=training.epsilon,
        )
        schedule = make_schedule(optimizer, name=training.schedule, batches=training.batches)
        prepared = accelerator.prepare(model, optimizer, schedule)
        self._model = accelerator.unwrap_model(prepared[0])
        judge = self._judge(request)(self._model)
        plateau = make_plateau(training, self._model, prepared[1], prepared[2], judge)
        carry = Carry()
        checkpoints = Checkpoints(
            self._folder / "checkpoints",
            accelerator,
            config=json_config(model),
            run=self._folder.name,
            extra=make_extra(training, plateau, carry),
        )
        state = checkpoints.load_newest(shown.say) or LoopState()
        if accelerator.is_main_process:
            self._log.cut(state.metrics_lines)
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

    def _begin(self, shown: Progress) -> None:
        before = read_config(self._folder)
        here: dict[str, Any] = {"threads": torch.get_num_threads(), "kernels": kernels()}
        if self._config.machine.backend == "reference":
            here["kernels"] = "none"
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

    def _judge(self, request: StopRequest) -> MakeJudge:
        accelerator = self._accelerator
        alone = accelerator.num_processes == 1
        place = Place(
            accelerator.device,
            (accelerator.process_index, accelerator.num_processes),
            lambda part: accelerator.reduce(part, reduction="sum"),
            # One of several processes giving up would leave the others waiting.
            request.check if alone else None,
        )
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
