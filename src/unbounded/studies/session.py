"""Plan a study, estimate its time, and train its runs by an executor."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from unbounded.errors import ConfigError, UnboundedError
from unbounded.experiments.config.check import check_all, checked
from unbounded.experiments.config.check_training import hardening_of
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.build import build_run, make_accelerator, make_place
from unbounded.experiments.run.phase import Surroundings, run_phase, training_hooks
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.trials.claims import ClaimRecord, newest_claims
from unbounded.experiments.trials.time_left import (
    RunMinutes,
    TimeLeft,
    estimate,
    finished_minutes,
    rest_minutes,
    with_jobs,
)
from unbounded.experiments.trials.trial import Outcome, Trial
from unbounded.experiments.trials.watching import watching
from unbounded.experiments.trials.work import run_is_finished
from unbounded.experiments.trials.workers import PlanWatch
from unbounded.signals import StopRequest
from unbounded.training.progress import Silent

Say = Callable[[str], None]

#: Greatest number of cells to time, and number of batches of each. The first batch is a warm-up.
_TIMED_CELLS: Final = 4
_TIMED_BATCHES: Final = 4
_RULE_HINT: Final = (
    "; an option of some cells only belongs into `axes` or `set` of a rule: rules: [{where: "
    "{model.memory: turing_tape}, axes: {model.memory.slots: [64, 128]}}]"
)
#: Greatest number of runs that a plan names.
_NAMED: Final = 40


def check_trials(trials: Sequence[Trial]) -> None:
    """Check the configs of all runs. Configs that differ only in the seed are checked once.

    Raises:
        ConfigError: configs have errors; each error once, with the first cell that has it.
    """
    try:
        check_all(trial.config for trial in trials)
    except ConfigError as first:
        found: dict[str, list[str]] = {}
        cells = {trial.cell: trial for trial in trials}
        for trial in cells.values():
            try:
                checked(trial.config)
            except ConfigError as error:
                for line in error.errors:
                    found.setdefault(line, []).append(trial.cell)
        if not found:
            raise ConfigError(first.errors) from None
        axes = {axis for trial in trials for axis in trial.axes}
        raise ConfigError(
            [
                f"{line} (in {within[0]})"
                f"{_RULE_HINT * (_is_of_axis(line, axes) and len(within) < len(cells))}"
                for line, within in found.items()
            ]
        ) from None


def _is_of_axis(line: str, axes: Collection[str]) -> bool:
    """Whether an error is that a component lacks an option which is an axis of the study."""
    lacking = re.match(r"([\w.]+): .* has no option '(\w+)'", line)
    return lacking is not None and f"{lacking[1]}.{lacking[2]}" in axes


def plan_text(title: str, trials: Sequence[Trial], runs: Path, jobs: int) -> str:
    """The plan for `--dry-run`: runs and their states, and the hours to train.

    The time is estimated from the minutes of finished runs. If no run is finished, the estimate is
    based on a few timed batches of some cells, and assumes that runs use their full budgets.

    Args:
        title: the first line.
        trials: all runs.
        runs: folder of the run folders.
        jobs: number of concurrent runs.
    """
    claims = newest_claims(runs)
    lines, waiting = [title], []
    widest = max(len(trial.name) for trial in trials[:_NAMED])
    for place, trial in enumerate(trials):
        is_finished = run_is_finished(trial, runs)
        if not is_finished:
            waiting.append(trial)
        if place < _NAMED:
            state = _state(trial, runs, is_finished, claims.get(trial.name))
            lines.append(f"  {state:<8}  {trial.name:<{widest}}  {trial.cell}")
    if len(trials) > _NAMED:
        lines.append(f"  ... and {len(trials) - _NAMED} more")
    cells = len({trial.cell for trial in trials})
    lines.append(f"{len(waiting)} of {len(trials)} runs to train, in {counted(cells, 'cell')}")
    if waiting:
        lines.append(_time(trials, waiting, runs, jobs))
    return "\n".join(lines)


def counted(number: int, what: str) -> str:
    """A number with its noun: "1 cell", "2 cells"."""
    return f"{number} {what}{'s' * (number != 1)}"


def _state(trial: Trial, runs: Path, is_finished: bool, claim: ClaimRecord | None) -> str:
    if is_finished:
        return "finished"
    if claim is not None and claim.state in ("failed", "running"):
        return claim.state
    return "resumes" if RunFolder.of(runs, trial.config).path.is_dir() else "to do"


def _time(trials: Sequence[Trial], waiting: Sequence[Trial], runs: Path, jobs: int) -> str:
    measured = finished_minutes(trials, runs)
    if known := rest_minutes(waiting, RunMinutes(trials, measured), runs):
        total = estimate(with_jobs(known, jobs))
        finished = counted(len(measured), "finished run")
        return f"{total} with --jobs {jobs}, from the minutes of {finished}"
    budgets = _timed_budgets(waiting)
    if not budgets:
        return "time unknown: no batch could be timed"
    mean = sum(budgets) / len(budgets)
    total = estimate(with_jobs([mean] * len(waiting), jobs))
    most = total if total.startswith("less") else f"at most {total}"
    hardens = any(hardening_of(trial.config) for trial in waiting)
    budget = "budget" + " and all batches of its hardening" * hardens
    return (
        f"{most} of training with --jobs {jobs}, if every run uses its whole {budget}; from timed "
        f"batches of {counted(len(budgets), 'cell')}"
    )


def _timed_budgets(waiting: Sequence[Trial]) -> list[float]:
    """The minutes that some runs, spread over the cells, need for their full budgets."""
    cells = list({trial.cell: trial for trial in waiting}.values())
    step = max(1, len(cells) // _TIMED_CELLS)
    budgets = []
    for trial in cells[::step][:_TIMED_CELLS]:
        try:
            budgets.append(budget_minutes(trial.config))
        except (UnboundedError, RuntimeError):  # the run itself reports its errors
            continue
    return budgets


def budget_minutes(config: RunConfig) -> float:
    """The minutes that a run's training budget and all batches of its hardening take.

    They are estimated from a few timed batches. Checks, validation and scores are not included.

    Raises:
        UnboundedError: the config has errors.
    """
    training = config.training
    short = dataclasses.replace(
        training,
        batches=_TIMED_BATCHES,
        report_every=1,
        accuracy_every=0,
        patience=0,
        checkpoint_every=1_000_000,
        stop={"name": "budget"},
        early_abort={"name": "none"},
        plateau={"name": "none"},
        schedule={"name": "constant"},
    )
    planned = plan(dataclasses.replace(config, training=short), checked(config))
    accelerator = make_accelerator(config)
    built = build_run(planned, accelerator)
    evaluator = planned.evaluator(built.model, make_place(accelerator, StopRequest()))
    times: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        state = run_phase(
            planned,
            RunFolder(folder),
            "timed",
            built.trained,
            planned.phase_options(),
            evaluator,
            training_hooks(planned, built.model, built.trained, lambda: 0.0),
            Surroundings(
                accelerator,
                Silent(),
                StopRequest(),
                lambda record: times.append((record["elapsed_s"], record["batch"])),
            ),
        )
    first, last = times[0], times[-1]
    batch_s = (last[0] - first[0]) / max(1, last[1] - first[1])
    batches = float(training.batches)
    if training.symbols is not None:
        batches = min(batches, training.symbols / max(1, state.symbols / state.batch))
    minutes = batch_s * batches / 60
    if training.minutes is not None:
        minutes = min(minutes, training.minutes)
    hardening = hardening_of(config)
    return minutes + (0.0 if hardening is None else batch_s * hardening.batches / 60)


@contextmanager
def progress_of(
    runs: Path, trials: Sequence[Trial], watched: PlanWatch, jobs: int, say: Say
) -> Iterator[tuple[Callable[[list[Trial]], None], Callable[[Outcome], None]]]:
    """Show the progress of a plan. Yield functions for running trials and for each outcome."""
    minutes = RunMinutes(trials, finished_minutes(trials, runs))
    left = TimeLeft(watched.waiting, jobs, minutes, runs)
    say(f"{watched.finished} of {len(trials)} runs are already finished")
    with watching(len(trials), watched.finished, runs, say, left) as shown:

        def ended(outcome: Outcome) -> None:
            failure = f"FAILED {outcome.trial.name}; the others continue. See {outcome.log}"
            shown.ended(outcome, failure if outcome.exit_code else outcome.success_text)

        yield shown.look, ended
