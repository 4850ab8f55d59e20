"""What a person sees while trials run: bars in a terminal, a line a trial elsewhere."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from unbounded.experiments.trials.tiers import Trial

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# The newest record of metrics.jsonl lies in its last few hundred bytes.
_TAIL_BYTES = 2048


class Watch(Protocol):
    """Told how trials go; shows as much of it as fits."""

    def look(self, running: Sequence[Trial]) -> None:
        """These trials are running now."""

    def done(self, text: str) -> None:
        """A trial has ended; `text` says how."""


class Lines:
    """Only the beginnings and ends of trials.

    Args:
        total, finished: trials in all and before the first one begins.
        say: prints a line.
    """

    def __init__(self, total: int, finished: int, say: Callable[[str], None]) -> None:
        self._total = total
        self._ended = finished
        self._say = say
        self._seen: set[str] = set()

    def look(self, running: Sequence[Trial]) -> None:
        """Say which ones have begun."""
        for trial in running:
            if trial.name not in self._seen:
                self._seen.add(trial.name)
                self._say(f"training {trial.name}")

    def done(self, text: str) -> None:
        """Say how it ended and how many have."""
        self._ended += 1
        self._say(f"[{self._ended}/{self._total}] {text}")


class Bars:
    """One bar for all trials, and one for each that runs, by batches.

    Args:
        bars: a rich progress display.
        total, finished: trials in all and before the first one begins.
        runs: folder of the run folders.
    """

    def __init__(self, bars: Progress, total: int, finished: int, runs: Path) -> None:
        self._bars = bars
        self._runs = runs
        self._all = bars.add_task("all runs", total=total, completed=finished, numbers="")
        self._own: dict[str, TaskID] = {}

    def look(self, running: Sequence[Trial]) -> None:
        """Move the bars."""
        names = {trial.name for trial in running}
        for name in set(self._own) - names:
            self._bars.remove_task(self._own.pop(name))
        for trial in running:
            if trial.name not in self._own:
                self._own[trial.name] = self._bars.add_task(
                    trial.name, total=trial.config.training.batches, numbers=""
                )
            batch, numbers = newest(self._runs / trial.name / "metrics.jsonl")
            self._bars.update(self._own[trial.name], completed=batch, numbers=numbers)

    def done(self, text: str) -> None:
        """Say how it ended."""
        self._bars.advance(self._all)
        self._bars.console.print(text, markup=False, highlight=False)


@contextmanager
def watching(
    total: int, finished: int, runs: Path, say: Callable[[str], None], plain: bool = False
) -> Iterator[Watch]:
    """Bars when standard output is a terminal, lines when not, or when `plain`."""
    if plain or not sys.stdout.isatty():
        yield Lines(total, finished, say)
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
        yield Bars(bars, total, finished, runs)


def newest(path: Path) -> tuple[int, str]:
    """Batch and training perplexity of the newest report in a metrics file; 0 where none is."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return 0, ""
    batch, text = 0, ""
    # The first piece may begin within a record, and the last may be half written.
    for line in lines[:-1]:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        batch = int(record["batch"])
        if record["kind"] == "train" and record["perplexity"] is not None:
            text = f"perplexity {record['perplexity']:.4g}"
    return batch, text
