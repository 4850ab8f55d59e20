"""Reproduce a paper's table: train what is missing, collect what is finished, write the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.config.check import check_all
from unbounded.experiments.run.folder import folder_of
from unbounded.experiments.run.verification import is_verified, is_whole
from unbounded.experiments.tables.automata import (
    extract_automata,
    is_outdated,
    read_automata,
)
from unbounded.experiments.tables.matrix import accuracies
from unbounded.experiments.tables.published import Published, published
from unbounded.experiments.tables.results import Summary, copy_reports, read_results, with_ids
from unbounded.experiments.tables.table import table_markdown
from unbounded.experiments.tables.table_data import Cells, summaries, table_json, table_text
from unbounded.experiments.tables.verified import read_verified, verifications
from unbounded.experiments.trials.pool import Outcome, run_trials
from unbounded.experiments.trials.studies import Study, Trial
from unbounded.experiments.trials.time_left import (
    RunMinutes,
    TimeLeft,
    finished_minutes,
    in_words,
    share_done,
    with_jobs,
)
from unbounded.experiments.trials.watching import watching
from unbounded.figures import draw_convergence, draw_lengths, draw_matrix
from unbounded.files import storage_errors, write_text

Say = Callable[[str], None]

_LOG_LINES = 12


def say_now(text: str) -> None:
    """Print a line at once, into a pipe or file too: a person may be watching it for hours."""
    print(text, flush=True)


@dataclass(frozen=True)
class Reproduction:
    """What a call did.

    Fields:
        table: the table as Markdown.
        failed: trials that did not finish, with their logs.
        written: the files of the results folder.
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
) -> Reproduction:
    """Train the trials that are not finished, then write table, file of runs and figures.

    A trial is a folder under `runs` named by the hash of its config and its seed. A finished one is
    not trained again, one that was broken off goes on from its last checkpoint. The table holds
    what is finished, and is also written when the training is interrupted.

    Args:
        study: the table's study.
        trials: what to train, all of the study or a part of it.
        jobs: trials at once, one thread each.
        runs: folder of the run folders.
        out: folder of table.md, table.json, runs.jsonl.xz and figures.
        say: shown what happens, line by line.
    Raises:
        ConfigError: `jobs` is below 1, or a trial's config has errors.
        Interrupted: Ctrl-C or SIGTERM; every trial is saved and the next call goes on.
        StorageError: a folder cannot be written.
    """
    if jobs < 1:
        raise ConfigError([f"jobs: expected at least 1, got {jobs}"])
    check_all(trial.config for trial in trials)
    study, trials = _with_ids(study, out), with_ids(trials, out)
    write_table(study, out)  # a folder that cannot be written is found now, not after hours
    failed: list[Outcome] = []
    # Two phases of one run are two trials of the table and one to train.
    own = list({trial.name: trial for trial in trials}.values())
    waiting = copy_reports(own, runs, out)
    left = TimeLeft(waiting, jobs, RunMinutes(study.trials, _measured_minutes(study, out)), runs)
    minutes = left.minutes()
    known = "" if minutes is None or not waiting else f"; about {in_words(minutes)} left"
    say(f"{len(own) - len(waiting)} of {len(own)} runs were finished before{known}")

    with watching(len(own), len(own) - len(waiting), runs, say, left) as watch:

        def ended(outcome: Outcome) -> None:
            name, minutes = outcome.trial.name, outcome.seconds / 60
            done = outcome.exit_code == 0
            left.ended(outcome.trial, minutes, done)
            if done and not copy_reports([outcome.trial], runs, out):
                watch.done(f"finished {name} in {minutes:.1f} minutes")
                write_table(study, out)
            else:
                failed.append(outcome)
                watch.done(_failure(outcome))

        try:
            run_trials(waiting, runs, jobs, watch=watch.look, ended=ended)
            extract_automata(study, own, runs, out, say)
        finally:
            table, written = write_table(study, out)
    written += draw_tasks(study, out)
    return Reproduction(table, tuple(failed), tuple(written))


def write_table(study: Study, out: Path) -> tuple[str, list[Path]]:
    """Write table.md and table.json from the study's file alone.

    Returns:
        The table as Markdown and the files written.
    Raises:
        CheckpointError: a report cannot be read; the message names the file.
    """
    with storage_errors(out, "making folder"):
        out.mkdir(parents=True, exist_ok=True)
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
    """The rows and columns of these trials' cells, from the reports in `out`, without each run.

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

    `convergence_TASK` is the course of training, `lengths_TASK` the accuracy by length of streams.
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
        curves = {name: [run.curves for run in each.chosen] for name, each in models.items()}
        measured = {name: runs for name, runs in curves.items() if any(run.batches for run in runs)}
        if measured:
            name = f"convergence_{task}"
            paths += draw_convergence(measured, out / "figures", name, title=title)
        lengths = {name: [run.per_n for run in each.chosen] for name, each in models.items()}
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
            )
    return paths + _draw_matrix(study, cells, values, out)


def _draw_matrix(study: Study, cells: Cells, values: Published, out: Path) -> list[Path]:
    """Draw the tables of many tasks and models, where any cell is finished."""
    numbers = {
        (task, model): accuracies(summary)
        for cell, summary in cells.items()
        for task, model in [cell.split("/")]
        if summary is not None and not values.metric_set(task)
    }
    if not numbers:
        return []
    tasks = {task: values.tasks.get(task, task) for task, _ in numbers}
    models = {model: values.models[model].title for _, model in numbers}
    return draw_matrix(numbers, tasks, models, out / "figures", title="Right to the end")


def _failure(outcome: Outcome) -> str:
    lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines()
    end = "\n".join(f"    {line}" for line in lines[-_LOG_LINES:])
    return (
        f"FAILED {outcome.trial.name} (exit code {outcome.exit_code}); the others go on. "
        f"The end of {outcome.log}:\n{end}"
    )


def missing(trials: Sequence[Trial], out: Path) -> tuple[Trial, ...]:
    """The trials of which `out` has no report yet, or not the verification that there is to be.

    A run whose machine is of other weights than its verification is missing too.

    Raises:
        CheckpointError: a report, verification or machine cannot be read; the message names it.
    """
    named = with_ids(trials, out)
    there, verified = read_results(named, out), verifications(out)

    def was_verified(trial: Trial, options: Mapping[str, Any]) -> bool:
        return trial.name in verified and is_whole(verified[trial.name], options)

    return tuple(
        trial
        for trial, own in zip(trials, named, strict=True)
        if own.key not in there
        or (own.verify is not None and not was_verified(own, own.verify))
        or is_outdated(out, own.name, verified)
    )


def _measured_minutes(study: Study, out: Path) -> dict[str, float]:
    """Minutes of training by the reports in `out`, by the name of a run."""
    minutes: dict[str, float] = {}
    for result in read_results(study.trials, out).values():
        # Of two phases of one run the later one has the minutes of both.
        minutes[result.trial.name] = max(result.minutes, minutes.get(result.trial.name, 0.0))
    return minutes


def plan(study: Study, trials: Sequence[Trial], runs: Path, out: Path, jobs: int = 1) -> str:
    """What a call would do, for `--dry-run`: one line a trial, how many are left, and the time.

    Behind a run's name stands its cell, which `--only` takes; of runs of several cells the first.
    A run is "trained" where it is yet to be verified. The time is of the minutes that reports in
    `out` and `runs` have, of these runs or of others of the study.

    Raises:
        CheckpointError: a run's verification cannot be read; the message names the file.
        ConfigError: a trial's config has errors, for example a folder that holds no corpus.
    """
    check_all(trial.config for trial in trials)
    study, trials = _with_ids(study, out), with_ids(trials, out)
    lines = [f"{study.paper}, study {study.name}: {study.about}"]
    left = unverified = 0
    own = list({trial.name: trial for trial in reversed(trials)}.values())[::-1]
    widest = max((len(trial.name) for trial in own), default=0)
    measured = {**_measured_minutes(study, out), **finished_minutes(study.trials, runs)}
    expected = RunMinutes(study.trials, measured)
    minutes: list[float | None] = []
    for trial in own:
        folder = folder_of(runs, trial.config)
        trained = (folder / "report.json").is_file()
        left += not trained
        if not trained:
            whole = expected.of(trial)
            minutes.append(None if whole is None else whole * (1 - share_done(trial, runs)))
        state = "finished" if trained else "goes on" if folder.is_dir() else "to do"
        if trained and trial.verify is not None and not is_verified(folder, trial.verify):
            unverified += 1
            state = "trained"
        training = trial.config.training
        budget = f"{training.batches:>7} batches"
        if training.symbols is not None:
            budget = f"{training.symbols:>7} symbols"
        lines.append(f"  {state:<8}  {budget}  {trial.name:<{widest}}  {trial.cell}")
    verifying = f", {unverified} trained before to verify" if unverified else ""
    lines.append(f"{left} of {len(own)} runs to train{verifying}")
    known = [each for each in minutes if each is not None]
    if known:
        lines.append(
            f"about {in_words(with_jobs(known, jobs))} of training with --jobs {jobs}, by the "
            f"minutes of {len(measured)} finished run{'s' if len(measured) > 1 else ''}, on the "
            "hardware that they had"
        )
    elif left:
        lines.append(
            f"the time is not known: no run of this study has a report, in {runs} or in {out}"
        )
    return "\n".join(lines)
