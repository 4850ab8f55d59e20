"""One run: a config in, a folder with checkpoints, metrics, report, model and figures out."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from unbounded.errors import CheckpointError, ConfigError
from unbounded.evaluation import Score, make_report, score, sweep
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.build import build_model, build_task, checked, ranges
from unbounded.experiments.config import RunConfig, model_name, run_name, to_dict
from unbounded.experiments.folder import lock, read_config, read_report, save_model, write_config
from unbounded.experiments.tensorboard import tensorboard_listener
from unbounded.experiments.traces import write_trace
from unbounded.figures import draw_run
from unbounded.models.transduction import TransductionModel
from unbounded.tasks import LengthRange, Task
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.files import json_text, storage_faults, write_text
from unbounded.training.loop import TrainingLoop
from unbounded.training.metrics_log import Listener, MetricsLog
from unbounded.training.optimizers import make_optimizer, make_schedule
from unbounded.training.progress import Progress, progress
from unbounded.training.signals import StopRequest, stop_requests
from unbounded.training.state import LoopState
from unbounded.training.stopping import Score as AnyScore
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
    accelerator = _accelerator(config)
    main, processes = accelerator.is_main_process, accelerator.num_processes
    if config.training.batch_size < processes:
        raise ConfigError(
            [
                f"training.batch_size: {config.training.batch_size} sequences cannot be shared "
                f"among {processes} processes"
            ]
        )
    with lock(folder, resume=resume, overwrite=overwrite) if main else nullcontext():
        accelerator.wait_for_everyone()
        report = read_report(folder)
        if report is not None:
            return RunResult(folder, report, fresh=False, first=main)
        listener = tensorboard_listener(folder / "tensorboard") if tensorboard and main else None
        run = _Run(config, build_task(config), folder, accelerator, listener)
        training = config.training
        with (
            stop_requests() as request,
            progress(training.batches, training.batch_size, quiet or not main) as shown,
        ):
            return RunResult(folder, run.complete(request, shown), fresh=True, first=main)


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
        training = config.training
        self._train_lengths = (
            LengthRange.parse(training.lengths) if training.lengths else task.train_lengths
        )
        self._validation_lengths = (
            LengthRange.parse(training.validation_lengths)
            if training.validation_lengths
            else task.test_lengths
        )

    def complete(self, request: StopRequest, shown: Progress) -> dict[str, Any]:
        """Train, report, save the model and draw."""
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
        checkpoints = Checkpoints(
            self._folder / "checkpoints",
            accelerator,
            config=_json_config(model),
            run=self._folder.name,
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
            assess=self._assess(request),
            stop_rule=self._stop_rule(),
            progress=shown,
            request=request,
            seed=config.seed,
            batch_size=training.batch_size,
            batches=training.batches,
            minutes=training.minutes,
            clip=training.clip,
            lengths=self._train_lengths,
            report_every=training.report_every,
            accuracy_every=training.accuracy_every,
            accuracy_lengths=(self._train_lengths, self._validation_lengths),
            accuracy_count=training.accuracy_count,
            checkpoint_every=training.checkpoint_every,
        )
        state = loop.run(state)
        shown.say(f"stopped after batch {state.batch}: {state.finished}")
        report = self._report(state, request, shown)
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

    def _assess(self, request: StopRequest) -> Any:
        def assess(lengths: LengthRange, start: int, count: int) -> AnyScore:
            return self._score("validation", lengths, start, count, request)

        return assess

    def _score(
        self, split: str, lengths: LengthRange, start: int, count: int, request: StopRequest
    ) -> Score:
        accelerator = self._accelerator
        alone = accelerator.num_processes == 1
        return score(
            self._model,
            self._task,
            seed=self._config.seed,
            split=split,
            lengths=lengths,
            start=start,
            count=count,
            device=accelerator.device,
            share=(accelerator.process_index, accelerator.num_processes),
            total=lambda part: accelerator.reduce(part, reduction="sum"),
            # One of several processes giving up would leave the others waiting.
            check=request.check if alone else None,
        )

    def _stop_rule(self) -> StopRule:
        training = self._config.training
        if training.stop == "solved":
            return WhenSolved(
                self._validation_lengths,
                every=training.validate_every,
                count=training.validation_count,
            )
        if training.stop == "converged":
            return WhenConverged(
                every=training.report_every,
                bound=training.converged_perplexity,
                times=training.converged_reports,
            )
        return never

    def _report(self, state: LoopState, request: StopRequest, shown: Progress) -> dict[str, Any]:
        evaluation = self._config.evaluation
        chosen = evaluation.lengths
        if chosen is None:
            lengths = default_lengths(self._train_lengths, self._task.test_lengths)
        else:
            lengths = ranges(chosen)
        self._model.eval()

        def score_range(each: LengthRange) -> Score:
            shown.looking(state.batch, str(each), evaluation.count)
            return self._score("test", each, 0, evaluation.count, request)

        return make_report(
            task=self._config.task,
            split="test",
            seed=self._config.seed,
            model=model_name(self._config.model),
            rows=sweep(lengths, score_range),
            batches=state.batch,
            minutes=state.elapsed_s / 60,
            stopped=state.finished,
            perplexity_train=state.perplexity,
            parameters=sum(p.numel() for p in self._model.parameters() if p.requires_grad),
            config=to_dict(self._config),
        )


def default_lengths(train: LengthRange, test: LengthRange) -> tuple[LengthRange, ...]:
    """The training range, the test range, and one as long again: 8:64, 65:128, 129:256."""
    return (train, test, LengthRange(test.maximum + 1, 2 * test.maximum))


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
