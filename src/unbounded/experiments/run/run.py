"""One run: a config in, a folder with checkpoints, metrics, report, model and figures out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from unbounded.errors import ConfigError
from unbounded.evaluation import make_report
from unbounded.evaluation.memory_room import warn_of_room
from unbounded.evaluation.report import outcome
from unbounded.evaluation.scorings import Exam
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.answer import write_answers
from unbounded.experiments.run.beginning import Beginning, beginning_of
from unbounded.experiments.run.build import Built, build_run, make_accelerator, make_place
from unbounded.experiments.run.card_sections import card_sections
from unbounded.experiments.run.data_check import check_data, data_used
from unbounded.experiments.run.denormals import denormals_are_zero
from unbounded.experiments.run.folder import folder_of, read_report, save_model, write_config
from unbounded.experiments.run.hardening import harden_model
from unbounded.experiments.run.kept_config import (
    begin,
    keep_config,
    renew_config,
    threads_and_kernels,
    trained_elsewhere,
)
from unbounded.experiments.run.matmul_precision import matmul_precision
from unbounded.experiments.run.phase import Surroundings, run_phase
from unbounded.experiments.run.pictures import draw_finished
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run_lock import admit, is_begun, lock, made
from unbounded.experiments.run.scored import own_sweep, scored
from unbounded.experiments.run.stop_rule import make_stop_rule
from unbounded.experiments.run.traces import write_trace
from unbounded.experiments.run.trackers import Trackers, tracker_faults
from unbounded.files import json_text, write_text
from unbounded.models.memory_model import MemoryModel
from unbounded.notebook import shown
from unbounded.tasks import Task
from unbounded.training.metrics_log import Listener
from unbounded.training.plateau import HalveOnPlateau
from unbounded.training.progress import Progress, progress
from unbounded.training.signals import StopRequest, stop_requests
from unbounded.training.state import LoopState

#: Steps of an example beyond which no trace is kept: it holds every row at every step.
_MOST_TRACED = 2000


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

    def _repr_html_(self) -> str:
        """In a notebook: the explorer's page, in which the run is watched at work."""
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
    keep_at: Collection[int] = (),
    share: bool = False,
) -> RunResult:
    """Train what a config describes and report on the test split.

    Args:
        config: the run.
        root: the folder that run folders lie in.
        resume: go on where the folder's newest checkpoint stands, or begin a run that is not
            there, and say so; give back the report when the run is finished.
        overwrite: replace the run of that name; it is deleted when the new one has its first
            checkpoint, and stays when that does not come to it.
        quiet: show nothing.
        log_with: trackers that get the metrics too, by accelerate's names ("tensorboard",
            "wandb", ...); those that write files write them into the folder's trackers/.
        task: as a config without faults describes it, where it was built before; None checks the
            config and builds it.
        keep_at: batches whose checkpoint stays, beside the newest ones.
        share: begin a run whose rate falls at the end as that under `root` whose rate stays, where
            there is one; the outcome is the same, and what both train is trained once.
    Raises:
        ConfigError: the config has faults; all of them together.
        RunExistsError: the folder is there and neither `resume` nor `overwrite` was given, or it
            is no run's; RunBusyError: another process is at work in it.
        CheckpointError: no checkpoint of the folder can be used.
        StorageError: the disk refused.
        NonFiniteError: the loss went bad.
        Interrupted: stopped by a signal; the run is saved.
    """
    planned = plan(config, checked(config) if task is None else task)
    if resume and overwrite:
        raise ConfigError(["resume and overwrite exclude each other; give one of them"])
    folder = folder_of(root, config)
    if faults := tracker_faults(log_with):
        raise ConfigError(faults)
    accelerator = make_accelerator(config, log_with, folder / "trackers")
    main, processes = accelerator.is_main_process, accelerator.num_processes
    if config.training.batch_size < processes:
        raise ConfigError(
            [
                f"training.batch_size: {config.training.batch_size} sequences cannot be shared "
                f"among {processes} processes"
            ]
        )
    replaced = folder.with_name(f".replaced-{folder.name}").exists()
    if resume and not overwrite:
        check_data(folder, config, planned.task)
    if resume and not replaced and (report := read_report(folder)) is not None:
        # Nothing else is written, so that the disk may be one to read only.
        if main and not (folder / "config.yaml").is_file():
            # With which threads and kernels it was trained is not known.
            write_config(folder, to_dict(config), report.get("data", {}))
        return RunResult(folder, report, fresh=False, first=main)
    begins = resume and not is_begun(folder)
    with lock(folder) if main else nullcontext():
        if main:
            admit(folder, resume=resume, overwrite=overwrite)
        accelerator.wait_for_everyone()
        report = None if overwrite else read_report(folder)
        if report is not None:
            return RunResult(folder, report, fresh=False, first=main)
        trackers = (
            Trackers(accelerator, folder.name, to_dict(config)) if log_with and main else None
        )
        training = config.training
        unit = "sequences" if training.piece_steps is None else "streams"
        silent, size = quiet or not main, training.batch_size
        # All that can fail for want of a sound config or of room comes before an old run is moved.
        run = Run(build_run(planned, accelerator), folder, accelerator, trackers)
        beginning = beginning_of(config, root) if share and processes == 1 else None
        closing = nullcontext() if trackers is None else contextlib.closing(trackers)
        with (
            _made(folder, overwrite, main) as saved,
            closing,
            stop_requests() as request,
            denormals_are_zero(),  # the number of threads is set by now
            matmul_precision(config.machine.matmul_precision),
        ):
            accelerator.wait_for_everyone()
            with progress(training.batches, size, silent, unit) as shown:
                for note in planned.task.notes if main else ():
                    shown.warn(note)
                if begins and main:
                    shown.warn(f"there is no run to go on with: {folder} begins")
                report = run.train(request, shown, saved, keep_at=keep_at, beginning=beginning)
            if processes > 1 and config.rounding.batches:
                shown.say(
                    "not hardened, which one process does alone: "
                    f"`unbounded harden {folder}` does it now"
                )
            elif config.rounding.batches:
                with progress(config.rounding.batches, size, silent, unit) as shown:
                    report["rounded"] = run.round(request, shown, report["batches"])
            run.finish(report)
        return RunResult(folder, report, fresh=True, first=main)


def _made(folder: Path, overwrite: bool, main: bool) -> AbstractContextManager[Callable[[], None]]:
    return made(folder, overwrite=overwrite) if main else nullcontext(lambda: None)


class Run:
    """The parts of a run at work in its folder.

    Args:
        built: model, optimizer and schedule. folder: of the run. accelerator: prepared them.
        trackers: get the metrics too.
    """

    def __init__(
        self,
        built: Built,
        folder: Path,
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
        *,
        keep_at: Collection[int] = (),
        beginning: Beginning | None = None,
    ) -> dict[str, Any]:
        """Train, and save the model; its report. The options are those of `run_phase`."""
        planned, config, trained = self._plan, self._plan.config, self._built.trained
        if self._accelerator.is_main_process:
            kept = data_used(config, planned.task)
            begin(self._folder, config, kept, shown.say, shown.warn)
        exam = planned.exam(self._model, make_place(self._accelerator, request))
        training = config.training
        plateau = None
        if training.plateau_every:
            plateau = HalveOnPlateau(
                self._model,
                trained[1],
                trained[2],
                lambda: planned.validation(exam),
                every=training.plateau_every,
                hold=training.plateau_hold,
                factor=training.plateau_factor,
                smallest=training.plateau_least,
                patience=training.plateau_patience,
                window=training.plateau_window,
                threshold=training.plateau_threshold,
                restoring=training.plateau_restore,
                measure=training.plateau_measure,
            )
        state = run_phase(
            self._folder,
            self._folder.name,
            planned.task,
            trained,
            planned.phase_options(),
            planned.scoring,
            exam,
            make_stop_rule(training, planned.validation_lengths, plateau),
            Surroundings(self._accelerator, shown, request, self._listener()),
            extras={} if plateau is None else {"plateau": plateau},
            saved=saved,
            keep_at=keep_at,
            beginning=beginning,
            used=threads_and_kernels(config),
        )
        shown.say(f"stopped after batch {state.batch}: {state.finished}")
        if plateau is not None:
            plateau.restore()
        report = self._report(state, exam, shown)
        if self._accelerator.is_main_process:
            sections = card_sections(planned, report)
            self._keep(self._model, "model", "example", shown, sections)
            renew_config(self._folder, config, data_used(config, planned.task))
        return report

    def round(self, request: StopRequest, shown: Progress, batches: int) -> dict[str, Any]:
        """Harden the model and save it; what the report says of it.

        Args:
            batches: that the model was trained for.
        """
        planned = self._plan
        accelerator = make_accelerator(planned.config)
        # Rounding counts its batches from 1 again.
        listener = self._listener("rounding/", batches)
        around = Surroundings(accelerator, shown, request, listener)
        machine, facts = harden_model(planned, self._model, self._folder / "rounding", around)
        exam = planned.exam(machine, make_place(self._accelerator, request))
        part = {**facts, **self._scored(exam, shown)}
        sections = card_sections(planned, part, hardened=True)
        self._keep(machine, "model-rounded", "rounded", shown, sections)
        ended = outcome(planned.task.scoring, {**part, "perplexity_train": None})
        # What chooses among runs may look at their training alone, and of a machine there is none.
        as_trained = outcome(planned.task.scoring, {**part, "perplexity_train": 1.0})
        if ended["merit"] is None and as_trained["merit"] is not None:
            ended["merit"] = planned.scoring.doubt(exam)
        return {**part, **ended}

    def _listener(self, prefix: str = "", after: int = 0) -> Listener | None:
        return None if self._trackers is None else self._trackers.listener(prefix, after)

    def finish(self, report: dict[str, Any]) -> None:
        """Draw, and write the report."""
        if self._accelerator.is_main_process:
            draw_finished(self._folder, self._plan, report)
            kept = data_used(self._plan.config, self._plan.task)
            keep_config(self._folder, self._plan.config, kept)
            # Last of all: a run that has its report is finished.
            write_text(self._folder / "report.json", json_text(report, indent=2) + "\n")

    def _keep(
        self, model: MemoryModel, name: str, example: str, shown: Progress, sections: str
    ) -> None:
        """Save a model, and the traces of what it does with its task's examples."""
        save_model(model, self._folder / name, sections)
        planned = self._plan
        traced = planned.task.traced(planned.config.seed, planned.train_lengths)
        for name_of_example, batch in traced.items():
            if (steps := batch.inputs.shape[1]) > _MOST_TRACED:
                shown.say(f"no trace is kept: of {steps} steps, more than {_MOST_TRACED}")
                continue
            stem = example if name_of_example == "example" else f"{example}_{name_of_example}"
            path = self._folder / "traces" / stem
            write_trace(model, planned.task, batch, path)
        if name == "model" and planned.task.answer_token is not None:
            write_answers(model, planned, self._folder / "answers.json")

    def _scored(self, exam: Exam, shown: Progress) -> dict[str, Any]:
        """See `scored`; what is scored is shown."""
        planned = self._plan
        sweep = own_sweep(planned.config, shown.scoring)
        warn_of_room(exam.model, planned.task, sweep.lengths or ())
        return scored(planned, exam, sweep)

    def _report(self, state: LoopState, exam: Exam, shown: Progress) -> dict[str, Any]:
        config, scoring = self._plan.config, self._plan.task.scoring
        self._model.eval()
        origin: dict[str, Any] = {} if state.began_as is None else {"began_as": state.began_as}
        if kept := data_used(config, self._plan.task):
            origin["data"] = kept
        if others := trained_elsewhere(state, config):
            origin["trained_with"] = others
        report = make_report(
            task=config.task,
            scoring=scoring,
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
            device=exam.place.device,
            **self._scored(exam, shown),
        )
        return {**report, **outcome(scoring, report)}
