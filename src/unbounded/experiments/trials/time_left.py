"""Estimate the remaining time of a study from the measured minutes of its runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.trials.trial import Outcome, Trial

# The newest record of metrics.jsonl is in its last few hundred bytes.
_TAIL_BYTES = 2048


class RunMinutes:
    """Expected minutes of a run.

    A measured run is expected to take the measured time again. Any other run is expected to take
    the median over the smallest of its groups with measured runs: setting, cell, task or study.

    Args:
        trials: the study's trials.
        measured: minutes of finished runs, by the name of the run folder.
    """

    def __init__(self, trials: Iterable[Trial], measured: Mapping[str, float]) -> None:
        self._groups: dict[tuple[str, str], dict[str, float]] = {}
        for trial in trials:
            if trial.name in measured:
                self.add(trial, measured[trial.name])

    def add(self, trial: Trial, minutes: float) -> None:
        """Record the minutes of a finished run."""
        for group in _groups(trial):
            self._groups.setdefault(group, {})[trial.name] = minutes

    def of(self, trial: Trial) -> float | None:
        """The expected minutes of a run; None if no run of the study is measured."""
        for group in _groups(trial):
            if group in self._groups:
                return median(self._groups[group].values())
        return None


def _groups(trial: Trial) -> list[tuple[str, str]]:
    """The groups of similar runs that a trial belongs to, the smallest first."""
    setting = trial.name.rpartition("-seed")[0]
    named = {"run": trial.name, "setting": setting, "cell": trial.cell, "task": trial.task}
    return [*named.items(), ("study", "")]


def finished_minutes(trials: Iterable[Trial], runs: Path) -> dict[str, float]:
    """Training minutes of the finished runs under `runs`, by name.

    Raises:
        CheckpointError: a report cannot be read; the message names the file.
    """
    reports = {trial.name: RunFolder.of(runs, trial.config).report() for trial in trials}
    return {
        name: sum(float(part["minutes"]) for part in (report, report.get("hardened")) if part)
        for name, report in reports.items()
        if report is not None
    }


def rest_minutes(waiting: Iterable[Trial], expected: RunMinutes, runs: Path) -> list[float]:
    """The expected minutes until each run has ended; none if no run of the study is measured."""
    return [
        minutes * (1 - share_done(trial, runs))
        for trial in waiting
        if (minutes := expected.of(trial)) is not None
    ]


def share_done(trial: Trial, runs: Path) -> float:
    """The finished share of a run's budget, in [0, 1]; 0 if unknown."""
    training = trial.config.training
    if training.symbols is not None:
        return 0.0
    batch, _ = newest(RunFolder.of(runs, trial.config).metrics_file)
    return min(1.0, batch / max(1, training.batches))


def with_jobs(minutes: Sequence[float], jobs: int) -> float:
    """Total minutes of several runs, `jobs` at a time."""
    return max([sum(minutes) / jobs, *minutes]) if minutes else 0.0


class TimeLeft:
    """The remaining time of a study.

    A running trial ends after its expected minutes, or earlier if its budget is used up. If no run
    is measured, a running trial is assumed to use its whole budget. Each waiting trial is then
    assumed to take the same time.

    Args:
        waiting: the trials to train.
        jobs: number of concurrent runs.
        expected: expected minutes of the study's runs.
        runs: folder of the run folders.
        now: a clock in seconds.
    """

    def __init__(
        self,
        waiting: Iterable[Trial],
        jobs: int,
        expected: RunMinutes,
        runs: Path,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waiting = {trial.name: trial for trial in waiting}
        self._jobs, self._expected, self._runs, self._now = jobs, expected, runs, now
        # A running trial, its start in seconds, and its finished share at the start.
        self._running: dict[str, tuple[Trial, float, float]] = {}

    def look(self, running: Sequence[Trial]) -> None:
        """Update the running trials."""
        names = {trial.name for trial in running}
        for trial in running:
            if trial.name not in self._running:
                self._waiting.pop(trial.name, None)
                begun = share_done(trial, self._runs)
                self._running[trial.name] = (trial, self._now(), begun)
        for name in set(self._running) - names:
            del self._running[name]

    def ended(self, outcome: Outcome) -> None:
        """Record the end of a run. A failed or resumed run does not count as measured."""
        trial = outcome.trial
        _, _, begun = self._running.pop(trial.name, (trial, 0.0, 0.0))
        self._waiting.pop(trial.name, None)
        if outcome.exit_code == 0 and begun == 0.0:
            self._expected.add(trial, outcome.seconds / 60)

    def minutes(self) -> float | None:
        """Minutes until all runs have ended; None if unknown."""
        left: list[float] = []
        budgets: list[float] = []
        for trial, started, begun in self._running.values():
            elapsed = (self._now() - started) / 60
            done = share_done(trial, self._runs) - begun
            budget = elapsed / done if done > 0 else None
            expected = self._expected.of(trial)
            rest = [] if budget is None else [max(0.0, budget * (1 - begun) - elapsed)]
            if expected is not None and expected * (1 - begun) > elapsed:
                rest.append(expected * (1 - begun) - elapsed)
            if not rest and expected is None:
                return None
            left.append(min(rest, default=0.0))
            budgets += [] if budget is None else [budget]
        for trial in self._waiting.values():
            expected = self._expected.of(trial)
            if expected is None and not budgets:
                return None
            left.append(median(budgets) if expected is None else expected)
        return with_jobs(left, self._jobs)


def in_words(minutes: float) -> str:
    """A duration in words: "40 minutes", "1.5 hours"."""
    if minutes < 1:
        return "less than a minute"
    if minutes < 90:
        return f"{minutes:.0f} minutes" if minutes >= 1.5 else "1 minute"
    return f"{minutes / 60:.1f} hours"


def estimate(minutes: float) -> str:
    """An estimated duration in words: "about 40 minutes", "less than a minute"."""
    words = in_words(minutes)
    return words if words.startswith("less") else f"about {words}"


def newest(path: Path) -> tuple[int, str]:
    """Batch and training perplexity in a metrics file's newest record; 0 and "" without one."""
    batch, text = 0, ""
    for line in _last_lines(path):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the first line may be incomplete
        batch = int(record["batch"])
        if record["kind"] == "train" and record["perplexity"] is not None:
            text = f"perplexity {record['perplexity']:.4g}"
    return batch, text


def scored_now(log: Path) -> str:
    """The last line of the log on scoring after training; empty during training."""
    last = _last_lines(log)[-1:]
    text = last[0].decode("utf-8", errors="replace") if last else ""
    return text if text.startswith("scoring ") else ""


def _last_lines(path: Path) -> list[bytes]:
    """The last complete lines of a file; empty for a missing file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().split(b"\n")[:-1]
    except OSError:
        return []
