"""Show the progress of trials, as bars in a terminal or as lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.trials.time_left import TimeLeft, estimate, newest, scored_now
from unbounded.experiments.trials.trial import Outcome, Trial
from unbounded.experiments.trials.work import LOGS

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

#: Seconds between two lines of progress while no trial starts or ends.
_QUIET_S = 600.0


class Watch(Protocol):
    """Displays the progress of trials."""

    def look(self, running: Sequence[Trial]) -> None:
        """Update the running trials."""

    def ended(self, outcome: Outcome, text: str) -> None:
        """Record the end of a trial, and show `text` about it."""


class Lines:
    """Prints the starts and ends of trials, and a line every ten minutes between them.

    Args:
        total, finished: number of trials, and of those finished before the start.
        say: prints a line.
        left: estimates the remaining time.
        now: a clock in seconds.
    """

    def __init__(
        self,
        total: int,
        finished: int,
        say: Callable[[str], None],
        left: TimeLeft,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._ended = finished
        self._say_line = say
        self._left = left
        self._now = now
        self._last = now()
        self._seen: set[str] = set()

    def look(self, running: Sequence[Trial]) -> None:
        """Print newly started trials."""
        self._left.look(running)
        for trial in running:
            if trial.name not in self._seen:
                self._seen.add(trial.name)
                self._say(f"training {trial.name}")
        if running and self._now() - self._last > _QUIET_S:
            names = ", ".join(trial.name for trial in running)
            self._say(f"[{self._ended}/{self._total}] training {names}{_left_text(self._left)}")

    def ended(self, outcome: Outcome, text: str) -> None:
        """Print a text about a trial that ended, and how many trials have ended."""
        self._left.ended(outcome)
        self._ended += 1
        left = _left_text(self._left) if self._ended < self._total else ""
        first, newline, rest = text.partition("\n")
        self._say(f"[{self._ended}/{self._total}] {first}{left}{newline}{rest}")

    def _say(self, text: str) -> None:
        self._say_line(text)
        self._last = self._now()


class Bars:
    """One bar for all trials, and one per running trial, by batches.

    Args:
        bars: a rich progress display.
        total, finished: number of trials, and of those finished before the start.
        runs: folder of the run folders.
        left: estimates the remaining time.
    """

    def __init__(
        self, bars: Progress, total: int, finished: int, runs: Path, left: TimeLeft
    ) -> None:
        self._bars = bars
        self._runs = runs
        self._left = left
        self._all = bars.add_task("all runs", total=total, completed=finished, numbers="")
        self._bar_of: dict[str, TaskID] = {}

    def look(self, running: Sequence[Trial]) -> None:
        """Update the bars."""
        self._left.look(running)
        names = {trial.name for trial in running}
        for name in set(self._bar_of) - names:
            self._bars.remove_task(self._bar_of.pop(name))
        for trial in running:
            if trial.name not in self._bar_of:
                self._bar_of[trial.name] = self._bars.add_task(
                    trial.name, total=trial.config.training.batches, numbers=""
                )
            batch, numbers = newest(RunFolder.of(self._runs, trial.config).metrics_file)
            scored = scored_now(self._runs / LOGS / f"{trial.name}.log")
            self._bars.update(self._bar_of[trial.name], completed=batch, numbers=scored or numbers)
        self._bars.update(self._all, numbers=_left_text(self._left).removeprefix(", "))

    def ended(self, outcome: Outcome, text: str) -> None:
        """Print a text about a trial that ended."""
        self._left.ended(outcome)
        self._bars.advance(self._all)
        self._bars.console.print(text, markup=False, highlight=False)


@contextmanager
def watching(
    total: int,
    finished: int,
    runs: Path,
    say: Callable[[str], None],
    left: TimeLeft,
    plain: bool = False,
) -> Iterator[Watch]:
    """Return bars if standard output is a terminal; lines otherwise or with `plain`."""
    if plain or not sys.stdout.isatty():
        yield Lines(total, finished, say, left)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeElapsedColumn(),
    )
    with bars:
        yield Bars(bars, total, finished, runs, left)


def _left_text(left: TimeLeft) -> str:
    """A comma and the remaining time; empty if the time is unknown."""
    minutes = left.minutes()
    return "" if minutes is None else f", {estimate(minutes)} left"
