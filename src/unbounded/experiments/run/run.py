"""Train one run from a config; its folder holds checkpoints, metrics, report and model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from unbounded.errors import ConfigError, StorageError
from unbounded.evaluation import make_report
from unbounded.evaluation.metric_sets import Evaluator
from unbounded.evaluation.report import outcome
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.check_training import hardening_of
from unbounded.experiments.config.identity import model_name, with_id
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.build import Built, build_run, make_accelerator, make_place
from unbounded.experiments.run.card import run_card
from unbounded.experiments.run.data_check import check_data, data_used
from unbounded.experiments.run.evaluate import own_evaluation_plan, scored
from unbounded.experiments.run.examples import write_answers, write_trace
from unbounded.experiments.run.hardening_phase import harden_model
from unbounded.experiments.run.kept_config import (
    begin,
    check_same_run,
    keep_config,
    renew_config,
    threads_and_kernels,
    trained_elsewhere,
)
from unbounded.experiments.run.numerics import denormals_are_zero, matmul_precision
from unbounded.experiments.run.phase import Surroundings, run_phase, training_hooks
from unbounded.experiments.run.plan import Plan, plan
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.run_lock import admit, aside, is_begun, lock, made
from unbounded.experiments.run.trackers import Trackers, tracker_errors
from unbounded.figures import draw_lengths, draw_run
from unbounded.files import json_text, storage_errors, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.notebook import shown
from unbounded.signals import StopRequest, stop_requests
from unbounded.tasks import Task
from unbounded.training.metrics_log import Listener
from unbounded.training.progress import Progress, progress
from unbounded.training.state import LoopState


def draw_finished(folder: RunFolder, planned: Plan, report: Mapping[str, Any]) -> None:
    """Draw a run's figures, before its report is written.

    A figure that cannot be drawn causes only a warning.

    Args:
        folder: the run's folder.
        planned: the run.
        report: its report.
    Raises:
        StorageError: the disk is full or not writable; then the report cannot be written either.
    """
    try:
        with storage_errors(folder.figures, "drawing"):
            draw_run(folder.path)
            _draw_curve(folder, planned, report)
    except StorageError:
        raise
    except Exception as error:  # a failed figure must not lose the run
        reason = str(error).split("\n", 1)[0]
        print(
            f"warning: the figures of {folder} could not be drawn "
            f"({type(error).__name__}: {reason}); the run is finished without them",
            file=sys.stderr,
        )


def _draw_curve(folder: RunFolder, planned: Plan, report: Mapping[str, Any]) -> None:
    """Draw the metric set's curve against n, if the metric set has one for a single run."""
    metric_set = planned.metric_set
    points = [at for row in report["rows"] for at in row.get("per_n", ())]
    curve = {at["n"]: at[metric_set.curve] for at in points if at[metric_set.curve] is not None}
    if metric_set.curve_shaded and curve:
        draw_lengths(
            {report["model"]: [curve]},
            folder.figures,
            trained_to=planned.train_lengths.maximum,
            title=folder.name,
            what=metric_set.curve_title,
            shaded=True,
            shares=metric_set.curve_is_share,
        )


#: Longest example to trace, in steps, because a trace holds every memory row of every step.
_MOST_TRACED = 2000


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Fields:
        folder: the run's folder.
        report: its report.json.
        fresh: False if the run was finished before.
        first: whether this process is the one that prints, if several share the run.
    """

    folder: Path
    report: dict[str, Any]
    fresh: bool
    first: bool = True

    def _repr_html_(self) -> str:
        """In a notebook, show the explorer's page of the run."""
        return shown(self)


def train_run(
    config: RunConfig,
    *,
    root: Path,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    log_with: Sequence[str] = (),
    task: Task | None = None,
    figures: bool = True,
) -> RunResult:
    """Train what a config describes and report on the test split.

    Args:
        config: the run.
        root: the folder of the run folders.
        resume: continue from the folder's newest checkpoint, or start a missing run with a notice;
            return the report of a finished run.
        overwrite: replace the run of that name. It is deleted at the new run's first checkpoint,
            and stays if the new run fails before.
        quiet: show nothing.
        log_with: trackers that also receive the metrics, by accelerate's names ("tensorboard",
            "wandb", ...); their files go into the folder's trackers/.
        task: the config's task, if built before and the config is checked; None checks the config
            and builds the task.
        figures: whether to draw the run's figures.
    Raises:
        ConfigError: the config has errors; lists all of them.
        RunExistsError: the folder exists and neither `resume` nor `overwrite` is set, or it is not
            a run's.
        RunBusyError: another process uses the run.
        CheckpointError: no checkpoint of the folder can be used.
        StorageError: a file cannot be written.
        NonFiniteError: the loss became NaN or infinite.
        Interrupted: a signal stopped the run, which is saved.
    """
    config = with_id(config)
    planned = plan(config, checked(config) if task is None else task)
    if resume and overwrite:
        raise ConfigError("resume and overwrite exclude each other; give one of them")
    folder = RunFolder.of(root, config)
    if errors := tracker_errors(log_with):
        raise ConfigError(errors)
    accelerator = make_accelerator(config, log_with, folder / "trackers")
    main, processes = accelerator.is_main_process, accelerator.num_processes
    if config.training.batch_size < processes:
        raise ConfigError(
            f"training.batch_size: {config.training.batch_size} sequences cannot be shared "
            f"among {processes} processes"
        )
    replaced = aside(folder).exists()
    if resume and not overwrite:
        check_same_run(folder, config)
        check_data(folder, config, planned.task)
    if resume and not replaced and (report := folder.report()) is not None:
        # A finished run is only read, so the disk may be read-only.
        if main and not folder.is_run:
            # The threads and kernels of this run's training are unknown.
            folder.write_config(to_dict(config), report.get("data", {}))
        return RunResult(folder.path, report, fresh=False, first=main)
    begins = resume and not is_begun(folder)
    with lock(folder) if main else nullcontext():
        if main:
            admit(folder, resume=resume, overwrite=overwrite)
        accelerator.wait_for_everyone()
        report = None if overwrite else folder.report()
        if report is not None:
            return RunResult(folder.path, report, fresh=False, first=main)
        trackers = (
            Trackers(accelerator, folder.name, to_dict(config)) if log_with and main else None
        )
        training = config.training
        unit = "sequences" if training.chunk_steps is None else "streams"
        silent, size = quiet or not main, training.batch_size
        # Build the run first, because an invalid config or lack of memory must not displace an old
        # run.
        run = Run(build_run(planned, accelerator), folder, accelerator, trackers)
        closing = nullcontext() if trackers is None else contextlib.closing(trackers)
        with (
            made(folder, overwrite=overwrite) if main else nullcontext(lambda: None) as saved,
            closing,
            stop_requests() as request,
            denormals_are_zero(),  # needs the final number of threads
            matmul_precision(config.hardware.matmul_precision),
        ):
            accelerator.wait_for_everyone()
            with progress(training.batches, size, silent, unit) as shown:
                for note in planned.task.notes if main else ():
                    shown.warn(note)
                if begins and main:
                    shown.warn(f"there is no run to resume: starting {folder}")
                report = run.train(request, shown, saved)
            hardening = hardening_of(config)
            if hardening is None:
                if config.hardening["name"] != "none":
                    shown.say("not hardened: the model has no memory with gates")
            elif processes > 1:
                shown.say(
                    "not hardened, because several processes trained: run "
                    f"`unbounded harden {folder}`"
                )
            else:
                with progress(hardening.batches, size, silent, unit) as shown:
                    report["hardened"] = run.harden(request, shown, report["batches"])
            run.finish(report, figures)
        return RunResult(folder.path, report, fresh=True, first=main)


class Run:
    """A run in progress in its folder.

    Args:
        built: model, optimizer and schedule.
        folder: the run's folder.
        accelerator: has prepared the parts.
        trackers: also receive the metrics.
    """

    def __init__(
        self,
        built: Built,
        folder: RunFolder,
        accelerator: Accelerator,
        trackers: Trackers | None = None,
    ) -> None:
        self._built, self._plan, self._model = built, built.plan, built.model
        self._folder, self._accelerator = folder, accelerator
        self._trackers = trackers

    def train(
        self,
        request: StopRequest,
        shown: Progress,
        saved: Callable[[], None],
    ) -> dict[str, Any]:
        """Train, save the model, and return its report."""
        planned, config, trained = self._plan, self._plan.config, self._built.trained
        if self._accelerator.is_main_process:
            kept = data_used(config, planned.task)
            begin(self._folder, config, kept, shown.say, shown.warn)
        evaluator = planned.evaluator(self._model, make_place(self._accelerator, request))
        state = run_phase(
            planned,
            self._folder,
            self._folder.name,
            trained,
            planned.phase_options(),
            evaluator,
            training_hooks(planned, self._model, trained, lambda: planned.validation(evaluator)),
            Surroundings(self._accelerator, shown, request, self._listener()),
            saved=saved,
            used=threads_and_kernels(config),
        )
        shown.say(f"stopped after batch {state.batch}: {state.finished}")
        report = self._report(state, evaluator, shown)
        if self._accelerator.is_main_process:
            card = run_card(planned, report)
            self._keep(self._model, "model", "example", shown, card)
            renew_config(self._folder, config, data_used(config, planned.task))
        return report

    def harden(self, request: StopRequest, shown: Progress, batches: int) -> dict[str, Any]:
        """Harden the model, save it, and return the report's entry.

        Args:
            batches: number of batches of the training.
        """
        planned = self._plan
        accelerator = make_accelerator(planned.config)
        # Hardening counts its batches from 1.
        listener = self._listener("hardening/", batches)
        around = Surroundings(accelerator, shown, request, listener)
        hardened, facts = harden_model(planned, self._model, self._folder.hardening, around)
        evaluator = planned.evaluator(hardened, make_place(self._accelerator, request))
        part = {**facts, **self._scored(evaluator, shown)}
        card = run_card(planned, part, hardened=True)
        self._keep(hardened, "model-hardened", "hardened", shown, card)
        ended = outcome(planned.task.metric_set, {**part, "perplexity_train": None})
        # The selection metric may use the training perplexity, which a hardened model lacks.
        as_trained = outcome(planned.task.metric_set, {**part, "perplexity_train": 1.0})
        if ended["selection_metric"] is None and as_trained["selection_metric"] is not None:
            ended["selection_metric"] = planned.metric_set.validation_error(evaluator)
        return {**part, **ended}

    def _listener(self, prefix: str = "", after: int = 0) -> Listener | None:
        return None if self._trackers is None else self._trackers.listener(prefix, after)

    def finish(self, report: dict[str, Any], figures: bool = True) -> None:
        """Draw the figures and write the report."""
        if self._accelerator.is_main_process:
            if figures:
                draw_finished(self._folder, self._plan, report)
            kept = data_used(self._plan.config, self._plan.task)
            keep_config(self._folder, self._plan.config, kept)
            # Written last, because a run with a report counts as finished.
            write_text(self._folder.report_file, json_text(report, indent=2) + "\n")

    def _keep(
        self, model: MemoryModel, name: str, example: str, shown: Progress, card: Mapping[str, str]
    ) -> None:
        """Save a model, and traces of its memory on the task's examples."""
        self._folder.save_model(model, hardened=name != "model", card=card)
        planned = self._plan
        traced = planned.task.traced(planned.config.seed, planned.train_lengths)
        for name_of_example, batch in traced.items():
            if (steps := batch.inputs.shape[1]) > _MOST_TRACED:
                shown.say(
                    f"no trace is kept: the example has {steps} steps, more than {_MOST_TRACED}"
                )
                continue
            stem = example if name_of_example == "example" else f"{example}_{name_of_example}"
            path = self._folder.traces / stem
            write_trace(model, planned.task, batch, path)
        if name == "model" and planned.task.answer_token is not None:
            write_answers(model, planned, self._folder.answers_file)

    def _scored(self, evaluator: Evaluator, shown: Progress) -> dict[str, Any]:
        """Score the model as `scored` does, and show progress."""
        planned = self._plan
        return scored(planned, evaluator, own_evaluation_plan(planned.config, shown.scoring))

    def _report(self, state: LoopState, evaluator: Evaluator, shown: Progress) -> dict[str, Any]:
        config, metric_set = self._plan.config, self._plan.task.metric_set
        self._model.eval()
        origin: dict[str, Any] = {}
        if kept := data_used(config, self._plan.task):
            origin["data"] = kept
        if others := trained_elsewhere(state, config):
            origin["trained_with"] = others
        report = make_report(
            task=config.task["name"],
            metric_set=metric_set,
            split="test",
            seed=config.seed,
            model=model_name(config.model),
            batches=state.batch,
            symbols=state.symbols,
            minutes=state.elapsed_s / 60,
            stopped=state.finished,
            **origin,
            perplexity_train=state.perplexity,
            parameters=sum(p.numel() for p in self._model.parameters() if p.requires_grad),
            config=to_dict(config),
            train_lengths=str(self._plan.train_lengths) if self._plan.task.has_lengths else "",
            device=evaluator.place.device,
            **self._scored(evaluator, shown),
        )
        return {**report, **outcome(metric_set, report)}
