"""Reproduce a paper's table: train missing runs, collect finished ones, and write the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.config.check import check_all
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.run.verification import is_verified, is_whole
from unbounded.experiments.tables.automata import (
    extract_automata,
    is_outdated,
    read_automata,
)
from unbounded.experiments.tables.matrix import accuracies
from unbounded.experiments.tables.published import Published, published
from unbounded.experiments.tables.results import Summary, copy_reports, read_results, with_ids
from unbounded.experiments.tables.runs_file import RUNS, VERIFIED, pack_runs_file
from unbounded.experiments.tables.table import table_markdown
from unbounded.experiments.tables.table_data import Cells, summaries, table_json, table_text
from unbounded.experiments.tables.verified import read_verified, verifications
from unbounded.experiments.trials.paper_studies import Study
from unbounded.experiments.trials.time_left import (
    RunMinutes,
    TimeLeft,
    finished_minutes,
    in_words,
    rest_minutes,
    with_jobs,
)
from unbounded.experiments.trials.trial import Outcome, Trial
from unbounded.experiments.trials.watching import watching
from unbounded.experiments.trials.workers import train_trials
from unbounded.figures import draw_convergence, draw_lengths, draw_matrix
from unbounded.files import make_folder, write_text

Say = Callable[[str], None]


class Train(Protocol):
    """A function that trains trials, in a pool or by workers elsewhere."""

    def __call__(
        self,
        trials: Sequence[Trial],
        runs: Path,
        jobs: int,
        *,
        watch: Callable[[list[Trial]], None],
        ended: Callable[[Outcome], None],
    ) -> object:
        """As `train_trials`."""


_LOG_LINES = 12


def say_now(text: str) -> None:
    """Print a line immediately, also into a pipe or a file, because runs may take hours."""
    print(text, flush=True)


@dataclass(frozen=True)
class Reproduction:
    """The outcome of a reproduction.

    Fields:
        table: the table as Markdown.
        failed: trials that did not finish, with their logs.
        written: files written to the results folder.
    """

    table: str
    failed: tuple[Outcome, ...]
    written: tuple[Path, ...]


def reproduce(
    study: Study,
    trials: Sequence[Trial],
    *,
    jobs: int,
    runs: Path,
    out: Path,
    say: Say = say_now,
    train: Train | None = None,
) -> Reproduction:
    """Train the unfinished trials, then write the table, the file of runs and the figures.

    Each trial has a folder under `runs`, named by the hash of its config and its seed. Finished
    trials are not trained again; interrupted ones resume from their last checkpoint. The table
    shows all finished runs of the study. The table is also written if the training is interrupted.

    Args:
        study: the table's study.
        trials: the trials to train, all or some of the study.
        jobs: number of concurrent trials, one thread each.
        runs: folder of the run folders.
        out: folder of table.md, table.json, runs.jsonl.xz and figures.
        say: called with each line of progress.
        train: has the trials trained; None for a pool of processes.
    Raises:
        ConfigError: `jobs` is below 1, or a trial's config has errors.
        Interrupted: Ctrl-C or SIGTERM; every trial is saved, and the next call resumes.
        StorageError: a folder cannot be written.
    """
    if jobs < 1:
        raise ConfigError(f"jobs: expected at least 1, got {jobs}")
    check_all(trial.config for trial in trials)
    study, trials = _with_ids(study, out), with_ids(trials, out)
    write_table(study, out)  # this fails before hours of training if the folder is not writable
    failed: list[Outcome] = []
    # The two phases of one run are two trials in the table, but the run is trained once.
    by_run = list({trial.name: trial for trial in trials}.values())
    waiting = copy_reports(by_run, runs, out)
    left = TimeLeft(waiting, jobs, RunMinutes(study.trials, _measured_minutes(study, out)), runs)
    minutes = left.minutes()
    estimate = "" if minutes is None or not waiting else f"; about {in_words(minutes)} left"
    finished = len(by_run) - len(waiting)
    say(f"{finished} of {len(by_run)} runs are already finished{estimate}")

    with watching(len(by_run), finished, runs, say, left) as watch:

        def ended(outcome: Outcome) -> None:
            if outcome.exit_code == 0 and not copy_reports([outcome.trial], runs, out):
                watch.ended(outcome, outcome.success_text)
                write_table(study, out)
            else:
                failed.append(outcome)
                watch.ended(outcome, _failure(outcome))

        try:
            (train or train_trials)(waiting, runs, jobs, watch=watch.look, ended=ended)
            extract_automata(study, by_run, runs, out, say)
        finally:
            table, written = write_table(study, out)
            for name in (RUNS, VERIFIED):
                pack_runs_file(out / name)
    written += draw_tasks(study, out)
    return Reproduction(table, tuple(failed), tuple(written))


def write_table(study: Study, out: Path) -> tuple[str, list[Path]]:
    """Write table.md and table.json only from the reports in `out`.

    Returns:
        The table as Markdown, and the written files.
    Raises:
        CheckpointError: a report cannot be read; the message names the file.
    """
    make_folder(out)
    study = _with_ids(study, out)
    cells = summaries(study, read_results(study.trials, out))
    text = _text(study, cells, out)
    write_text(out / "table.md", text)
    data = table_json(study, published(study.paper), cells)
    write_text(out / "table.json", table_text(data))
    return text, [out / "table.md", out / "table.json"]


def _with_ids(study: Study, out: Path) -> Study:
    return replace(study, trials=with_ids(study.trials, out))


def table_of(study: Study, trials: Iterable[Trial], out: Path) -> str:
    """The table of the trials' cells, without a row for each run, from the reports in `out`.

    Raises:
        CheckpointError: a report cannot be read; the message names the file.
    """
    study = _with_ids(study, out)
    cells = summaries(study, read_results(study.trials, out))
    return _text(study, cells, out, {trial.cell for trial in trials})


def _text(study: Study, cells: Cells, out: Path, shown: Collection[str] | None = None) -> str:
    verified = read_verified(study, out) if study.verify else None
    automata = read_automata(study, out) if study.extract else None
    return table_markdown(study, published(study.paper), cells, verified, automata, shown)


def draw_tasks(study: Study, out: Path) -> list[Path]:
    """Draw figures for each task with a finished run into `out/figures`.

    `convergence_TASK` shows the course of training, `lengths_TASK` the accuracy of streams by
    length. A study whose table is a matrix has one more figure.
    """
    cells, values = summaries(study, read_results(study.trials, out)), published(study.paper)
    tasks: dict[str, dict[str, Summary]] = {}
    for cell, summary in cells.items():
        if summary is not None:
            task, model = cell.split("/")
            tasks.setdefault(task, {})[values.models[model].title] = summary
    paths: list[Path] = []
    for task, models in tasks.items():
        title = f"{values.tasks.get(task, task)} ({study.paper}, study {study.name})"
        curves = {name: [run.curves for run in cell.chosen] for name, cell in models.items()}
        measured = {name: runs for name, runs in curves.items() if any(run.batches for run in runs)}
        if measured:
            name = f"convergence_{task}"
            paths += draw_convergence(measured, out / "figures", name, title=title)
        lengths = {name: [run.per_n for run in cell.chosen] for name, cell in models.items()}
        if any(any(runs) for runs in lengths.values()):
            trained = next(iter(models.values())).best.trained_to
            name = f"lengths_{task}"
            figures = out / "figures"
            metric_set = metric_set_of(next(iter(models.values())).metric_set)
            paths += draw_lengths(
                lengths,
                figures,
                name,
                trained_to=trained,
                title=title,
                what=metric_set.curve_title,
                shaded=metric_set.curve_shaded,
                shares=metric_set.curve_is_share,
            )
    return paths + _draw_matrix(study, cells, values, out)


def _draw_matrix(study: Study, cells: Cells, values: Published, out: Path) -> list[Path]:
    """Draw the matrix of tasks and models, if the study has one with a finished cell."""
    numbers = {
        (task, model): accuracies(summary, values.overview)
        for cell, summary in cells.items()
        for task, model in [cell.split("/")]
        if summary is not None and (values.overview or not values.metric_set(task))
    }
    if not numbers:
        return []
    tasks = {task: values.tasks.get(task, task) for task, _ in numbers}
    models = {model: values.models[model].title for _, model in numbers}
    if not values.overview:
        return draw_matrix(numbers, tasks, models, out / "figures", title="Exact match")
    above, below = (column.replace("_", " ") for column in values.overview)
    return draw_matrix(
        numbers,
        tasks,
        models,
        out / "figures",
        title=f"{study.paper}, study {study.name}",
        halves=f"above: {above}; below: {below}",
    )


def _failure(outcome: Outcome) -> str:
    lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines()
    end = "\n".join(f"    {line}" for line in lines[-_LOG_LINES:])
    return (
        f"FAILED {outcome.trial.name} (exit code {outcome.exit_code}); the others continue. "
        f"End of {outcome.log}:\n{end}"
    )


def missing(trials: Sequence[Trial], out: Path) -> tuple[Trial, ...]:
    """The trials that lack a report or a required verification in `out`.

    A trial also counts as missing if its automaton and its verification belong to different
    weights.

    Raises:
        CheckpointError: a report, verification or automaton cannot be read; the message names it.
    """
    named = with_ids(trials, out)
    reported, verified = read_results(named, out), verifications(out)

    def was_verified(trial: Trial, options: Mapping[str, Any]) -> bool:
        return trial.name in verified and is_whole(verified[trial.name], options)

    return tuple(
        trial
        for trial, with_id in zip(trials, named, strict=True)
        if with_id.key not in reported
        or (with_id.verify is not None and not was_verified(with_id, with_id.verify))
        or is_outdated(out, with_id.name, verified)
    )


def _measured_minutes(study: Study, out: Path) -> dict[str, float]:
    """The training minutes of the study's runs that have a report in `out`, by name."""
    minutes: dict[str, float] = {}
    for result in read_results(study.trials, out).values():
        # The later of a run's two phases records the minutes of both phases.
        minutes[result.trial.name] = max(result.minutes, minutes.get(result.trial.name, 0.0))
    return minutes


def plan_text(study: Study, trials: Sequence[Trial], runs: Path, out: Path, jobs: int = 1) -> str:
    """The plan for `--dry-run`: a line for each trial, the number of runs to train, and their time.

    Each run's name is followed by its cell, an argument for `--only`; a run of several cells shows
    the first. A run is marked "trained" if only its verification is missing. The time is estimated
    from the minutes of the study's reports in `out` and `runs`.

    Raises:
        CheckpointError: a run's verification cannot be read; the message names the file.
        ConfigError: a trial's config has errors, for example a folder that holds no corpus.
    """
    check_all(trial.config for trial in trials)
    study, trials = _with_ids(study, out), with_ids(trials, out)
    lines = [f"{study.paper}, study {study.name}: {study.about}"]
    to_verify = 0
    by_run = list({trial.name: trial for trial in reversed(trials)}.values())[::-1]
    widest = max((len(trial.name) for trial in by_run), default=0)
    measured = {**_measured_minutes(study, out), **finished_minutes(study.trials, runs)}
    waiting = []
    for trial in by_run:
        folder = RunFolder.of(runs, trial.config)
        trained = folder.is_finished
        if not trained:
            waiting.append(trial)
        state = "finished" if trained else "resumes" if folder.path.is_dir() else "to do"
        if trained and trial.verify is not None and not is_verified(folder, trial.verify):
            to_verify += 1
            state = "trained"
        training = trial.config.training
        budget = f"{training.batches:>7} batches"
        if training.symbols is not None:
            budget = f"{training.symbols:>7} symbols"
        lines.append(f"  {state:<8}  {budget}  {trial.name:<{widest}}  {trial.cell}")
    verifying = f", {to_verify} trained but not verified" if to_verify else ""
    lines.append(f"{len(waiting)} of {len(by_run)} runs to train{verifying}")
    if known := rest_minutes(waiting, RunMinutes(study.trials, measured), runs):
        source = f"{len(measured)} finished runs on their hardware"
        if len(measured) == 1:
            source = "1 finished run on its hardware"
        lines.append(
            f"about {in_words(with_jobs(known, jobs))} of training with --jobs {jobs}, estimated "
            f"from the minutes of {source}"
        )
    elif waiting:
        lines.append(f"time unknown: no run of this study has a report in {runs} or {out}")
    return "\n".join(lines)
