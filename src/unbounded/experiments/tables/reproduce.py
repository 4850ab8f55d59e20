"""Reproduce a paper's table: train what is missing, collect what is finished, write the table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbounded.errors import ConfigError
from unbounded.evaluation.scorings import scoring_of
from unbounded.experiments.config.check import check_all
from unbounded.experiments.run.folder import folder_of
from unbounded.experiments.run.verification import is_verified, is_whole
from unbounded.experiments.tables.machines import (
    extract_machines,
    is_outdated,
    read_machines,
)
from unbounded.experiments.tables.matrix import accuracies
from unbounded.experiments.tables.published import Published, published
from unbounded.experiments.tables.results import Summary, copy_report, read_results
from unbounded.experiments.tables.table import table_markdown
from unbounded.experiments.tables.table_data import Cells, summaries, table_json
from unbounded.experiments.tables.verified import read_kept, read_verified
from unbounded.experiments.trials.pool import Outcome, run_trials
from unbounded.experiments.trials.tiers import Tier, Trial
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
from unbounded.files import json_text, storage_faults, write_text

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
    tier: Tier,
    trials: Sequence[Trial],
    *,
    jobs: int,
    runs: Path,
    out: Path,
    say: Say = say_now,
) -> Reproduction:
    """Train the trials that are not finished, then write the tier's table, reports and figures.

    A trial is a folder under `runs` named by the hash of its config and its seed. A finished one is
    not trained again, one that was broken off goes on from its last checkpoint. The table holds
    what is finished, and is also written when the training is interrupted.

    Args:
        tier: the table's tier.
        trials: what to train, all of the tier or a part of it.
        jobs: trials at once, one thread each.
        runs: folder of the run folders.
        out: folder of table.md, table.json, reports and figures.
        say: shown what happens, line by line.
    Raises:
        ConfigError: `jobs` is below 1, or a trial's config has faults.
        Interrupted: Ctrl-C or SIGTERM; every trial is saved and the next call goes on.
        StorageError: a folder cannot be written.
    """
    if jobs < 1:
        raise ConfigError([f"jobs: expected at least 1, got {jobs}"])
    check_all(trial.config for trial in trials)
    write_table(tier, out)  # a folder that cannot be written is found now, not after hours
    failed: list[Outcome] = []
    # Two phases of one run are two trials of the table and one to train.
    own = list({trial.name: trial for trial in trials}.values())
    waiting = [trial for trial in own if not copy_report(trial, runs, out)]
    left = TimeLeft(waiting, jobs, RunMinutes(tier.trials, _measured_minutes(tier, out)), runs)
    minutes = left.minutes()
    known = "" if minutes is None or not waiting else f"; about {in_words(minutes)} left"
    say(f"{len(own) - len(waiting)} of {len(own)} runs were finished before{known}")

    with watching(len(own), len(own) - len(waiting), runs, say, left) as watch:

        def ended(outcome: Outcome) -> None:
            name, minutes = outcome.trial.name, outcome.seconds / 60
            done = outcome.exit_code == 0
            left.ended(outcome.trial, minutes, done)
            if done and copy_report(outcome.trial, runs, out):
                watch.done(f"finished {name} in {minutes:.1f} minutes")
                write_table(tier, out)
            else:
                failed.append(outcome)
                watch.done(_failure(outcome))

        try:
            run_trials(waiting, runs, jobs, watch=watch.look, ended=ended)
            extract_machines(tier, own, runs, out, say)
        finally:
            table, written = write_table(tier, out)
    written += draw_tasks(tier, out)
    return Reproduction(table, tuple(failed), tuple(written))


def write_table(tier: Tier, out: Path) -> tuple[str, list[Path]]:
    """Write table.md and table.json from the reports in `out/reports` alone.

    Returns:
        The table as Markdown and the files written.
    Raises:
        CheckpointError: a report cannot be read; the message names the file.
    """
    with storage_faults(out, "making folder"):
        out.mkdir(parents=True, exist_ok=True)
    cells = summaries(tier, read_results(tier.trials, out))
    text = _text(tier, cells, out)
    write_text(out / "table.md", text)
    data = table_json(tier, published(tier.paper), cells)
    write_text(out / "table.json", json_text(data, indent=2) + "\n")
    return text, [out / "table.md", out / "table.json"]


def table_of(tier: Tier, trials: Iterable[Trial], out: Path) -> str:
    """The rows and columns of these trials' cells, from the reports in `out`, without each run.

    Raises:
        CheckpointError: a report cannot be read; the message names the file.
    """
    cells = summaries(tier, read_results(tier.trials, out))
    return _text(tier, cells, out, {trial.cell for trial in trials})


def _text(tier: Tier, cells: Cells, out: Path, shown: Collection[str] | None = None) -> str:
    verified = read_verified(tier, out) if tier.verify else None
    machines = read_machines(tier, out) if tier.extract else None
    return table_markdown(tier, published(tier.paper), cells, verified, machines, shown)


def draw_tasks(tier: Tier, out: Path) -> list[Path]:
    """Draw figures for each task with a finished run into `out/figures`.

    `convergence_TASK` is the course of training, `lengths_TASK` the accuracy by length of streams.
    """
    cells, values = summaries(tier, read_results(tier.trials, out)), published(tier.paper)
    tasks: dict[str, dict[str, Summary]] = {}
    for cell, summary in cells.items():
        if summary is not None:
            task, model = cell.split("/")
            tasks.setdefault(task, {})[values.models[model].title] = summary
    paths: list[Path] = []
    for task, models in tasks.items():
        title = f"{values.tasks.get(task, task)} ({tier.paper}, tier {tier.name})"
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
            scoring = scoring_of(next(iter(models.values())).scoring)
            paths += draw_lengths(
                lengths,
                figures,
                name,
                trained_to=trained,
                title=title,
                what=scoring.curve_title,
                shaded=scoring.curve_shaded,
            )
    return paths + _draw_matrix(tier, cells, values, out)


def _draw_matrix(tier: Tier, cells: Cells, values: Published, out: Path) -> list[Path]:
    """Draw the tables of many tasks and models, where any cell is finished."""
    numbers = {
        (task, model): accuracies(summary)
        for cell, summary in cells.items()
        for task, model in [cell.split("/")]
        if summary is not None and not values.scoring(task)
    }
    if not numbers:
        return []
    tasks = {task: values.tasks.get(task, task) for task, _ in numbers}
    models = {model: values.models[model].title for _, model in numbers}
    return draw_matrix(numbers, tasks, models, out / "figures", title="Right to the end")


def _failure(outcome: Outcome) -> str:
    lines = outcome.log.read_text(encoding="utf-8", errors="replace").splitlines()
    tail = "\n".join(f"    {line}" for line in lines[-_LOG_LINES:])
    return (
        f"FAILED {outcome.trial.name} (exit code {outcome.exit_code}); the others go on. "
        f"The end of {outcome.log}:\n{tail}"
    )


def missing(trials: Sequence[Trial], out: Path) -> tuple[Trial, ...]:
    """The trials of which `out` has no report yet, or not the verification that there is to be.

    A run whose machine is of other weights than its verification is missing too.

    Raises:
        CheckpointError: a report, verification or machine cannot be read; the message names it.
    """
    there = read_results(trials, out)

    def was_verified(trial: Trial, options: Mapping[str, Any]) -> bool:
        path = out / "verified" / f"{trial.name}.json"
        return path.is_file() and is_whole(read_kept(path), options)

    return tuple(
        trial
        for trial in trials
        if trial.key not in there
        or (trial.verify is not None and not was_verified(trial, trial.verify))
        or is_outdated(out, trial.name)
    )


def _measured_minutes(tier: Tier, out: Path) -> dict[str, float]:
    """Minutes of training by the reports in `out`, by the name of a run."""
    minutes: dict[str, float] = {}
    for result in read_results(tier.trials, out).values():
        # Of two phases of one run the later one has the minutes of both.
        minutes[result.trial.name] = max(result.minutes, minutes.get(result.trial.name, 0.0))
    return minutes


def plan(tier: Tier, trials: Sequence[Trial], runs: Path, out: Path, jobs: int = 1) -> str:
    """What a call would do, for `--dry-run`: one line a trial, how many are left, and the time.

    Behind a run's name stands its cell, which `--only` takes; of runs of several cells the first.
    A run is "trained" where it is yet to be verified. The time is of the minutes that reports in
    `out` and `runs` have, of these runs or of others of the tier.

    Raises:
        CheckpointError: a run's verification cannot be read; the message names the file.
        ConfigError: a trial's config has faults, for example a folder that holds no corpus.
    """
    check_all(trial.config for trial in trials)
    lines = [f"{tier.paper}, tier {tier.name}: {tier.about}"]
    left = unverified = 0
    own = list({trial.name: trial for trial in reversed(trials)}.values())[::-1]
    widest = max((len(trial.name) for trial in own), default=0)
    measured = {**_measured_minutes(tier, out), **finished_minutes(tier.trials, runs)}
    expected = RunMinutes(tier.trials, measured)
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
            f"the time is not known: no run of this tier has a report, in {runs} or in {out}"
        )
    return "\n".join(lines)
