"""Show the progress of a run: a bar in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from unbounded.files import printable_lines

if TYPE_CHECKING:
    from rich.progress import TaskID

#: Seconds without a line after which scoring is announced.
_QUIET_SECONDS = 5.0


class Progress:
    """Receives the events of a run, and shows warnings only; a subclass shows more."""

    def begin(self, batch: int) -> None:
        """This event means that training resumes after `batch` batches."""

    def step(self, batch: float, loss_nats_per_token: float) -> None:
        """This event means that a batch or a part of a batch was trained."""

    def looking(self, batch: int, lengths: str, count: int) -> None:
        """This event means that validation sequences are about to be scored."""

    def scoring(self, what: str, share: float) -> None:
        """This event means that `what` is scored next, after training, with the share `share` done.

        At the end, `what` is empty.
        """

    def record(self, line: dict[str, Any]) -> None:
        """This event means that a record was appended to the metrics."""

    def say(self, text: str) -> None:
        """Show a message."""

    def warn(self, text: str) -> None:
        """Show a warning, even if nothing else is shown."""
        print(printable_lines(text), file=sys.stderr, flush=True)


class Silent(Progress):
    """Shows warnings only."""


class PlainLines(Progress):
    """A few lines without colour or cursor movement, for files and pipes.

    Args:
        batches: the budget.
        every: batches between lines on training.
        batch_size: sequences a batch.
        unit: name of what is counted, for speeds.
        patience: seconds of training without a line after which one is printed.
        now: returns seconds from any start.
    """

    def __init__(
        self,
        batches: int,
        every: int = 1000,
        batch_size: int = 1,
        unit: str = "sequences",
        patience: float = 30.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._batches = batches
        self._every = every
        self._batch_size = batch_size
        self._unit = unit
        self._patience = patience
        self._now = now
        self._last_line_at = self._scoring_since = now()
        self._current: str | None = None
        self.begin(0)

    def begin(self, batch: int) -> None:
        """Begin or resume. Speed and remaining time count from the first step that follows."""
        self._first: float | None = None
        self._start_window()

    def step(self, batch: float, loss_nats_per_token: float) -> None:
        """Print the mean loss since the last line after `patience` seconds without one."""
        self._losses.append(loss_nats_per_token)
        now = self._now()
        if self._first is None:
            # The time before this step goes to the first check, and is not counted.
            self._first, self._started = batch, now
        if now - self._last < self._patience or batch <= self._first:
            return
        speed = (batch - self._first) / max(now - self._started, 1e-9)
        left = timedelta(seconds=round((self._batches - batch) / speed))
        place = f"{batch:.2f}".rstrip("0").rstrip(".")
        self.say(
            f"batch {place} of {self._batches}: loss "
            f"{sum(self._losses) / len(self._losses):.4f} nats/token, "
            f"{speed * self._batch_size:.3g} {self._unit}/s, at most {left} left"
        )
        self._start_window()

    def _start_window(self) -> None:
        self._last = self._now()
        self._losses: list[float] = []

    def looking(self, batch: int, lengths: str, count: int) -> None:
        """Announce the next scoring if no line was printed for `_QUIET_SECONDS`."""
        if self._now() - self._last_line_at > _QUIET_SECONDS:
            self.say(f"scoring {count} sequences of length {lengths}")

    def scoring(self, what: str, share: float) -> None:
        """Print what is scored next, and at intervals the finished share and the remaining time."""
        now = self._now()
        if what != self._current:
            if self._current is None:
                self._scoring_since = now
            took = f"{share:.0%} done in {now - self._scoring_since:.0f} s"
            self.say(f"scoring {what}{f', {took}' if share else ''}" if what else f"scored, {took}")
            self._current = what
        elif now - self._last_line_at >= self._patience:
            passed = now - self._scoring_since
            left = timedelta(seconds=round(passed / share - passed)) if share else "unknown time"
            self.say(f"scoring {what}, {share:.0%} done in {passed:.0f} s, about {left} left")

    def record(self, line: dict[str, Any]) -> None:
        """Print scores, and the training loss every `every` batches."""
        if line["kind"] != "train" or line["batch"] % self._every == 0:
            self.say(describe(line))
        if line["kind"] == "train" and line["batch"] % self._every == 0:
            self._start_window()

    def say(self, text: str) -> None:
        """Print a line at once."""
        print(printable_lines(text), flush=True)
        self._last_line_at = self._now()

    def warn(self, text: str) -> None:
        """As `say`."""
        self.say(text)


class Bar(Progress):
    """A rich progress bar with loss, accuracy, sequences per second and time left.

    Args:
        batches: the budget.
        batch_size: sequences a batch.
        unit: name of what is counted, for speeds.
    """

    def __init__(self, batches: int, batch_size: int, unit: str = "sequences") -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        self._batch_size = batch_size
        self._unit = unit
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
        )
        self._work = self._bar.add_task("training", total=batches, numbers="")
        self._scoring: TaskID | None = None
        self._accuracy = ""

    def begin(self, batch: int) -> None:
        """Start at this batch, so that speed and remaining time exclude earlier sessions."""
        self._bar.reset(self._work, completed=batch)

    def step(self, batch: float, loss_nats_per_token: float) -> None:
        """Move the bar."""
        speed = self._bar.tasks[0].speed
        rate = f" {speed * self._batch_size:.0f} {self._unit}/s" if speed else ""
        self._bar.update(
            self._work,
            completed=batch,
            description="training",
            numbers=f"loss {loss_nats_per_token:.4f}{self._accuracy}{rate}",
        )

    def looking(self, batch: int, lengths: str, count: int) -> None:
        """Show what is being scored."""
        self._bar.update(self._work, description=f"scoring {count} at {lengths}")

    def scoring(self, what: str, share: float) -> None:
        """Advance a second bar, because the bar for training is complete."""
        if self._scoring is None:
            self._bar.update(
                self._work, description="trained", total=self._bar.tasks[0].completed or 1
            )
            self._bar.stop_task(self._work)
            self._scoring = self._bar.add_task("scoring", total=100, numbers="")
        self._bar.update(self._scoring, completed=round(100 * share, 1), numbers=what)

    def record(self, line: dict[str, Any]) -> None:
        """Show the newest accuracy next to the bar, and print scores above 0."""
        if "exact_match" in line:
            self._accuracy = f" exact match {line['exact_match']:.3f} at {line['lengths']}"
            if line["kind"] == "accuracy" or line["exact_match"] > 0:
                self.say(describe(line))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(printable_lines(text), markup=False, highlight=False)

    def warn(self, text: str) -> None:
        """As `say`."""
        self.say(text)

    @contextmanager
    def shown(self) -> Iterator[Bar]:
        """Show the bar inside the block."""
        with self._bar:
            yield self


@contextmanager
def progress(
    batches: int, batch_size: int, quiet: bool = False, unit: str = "sequences"
) -> Iterator[Progress]:
    """Return a bar if standard output is a terminal, otherwise plain lines; nothing if `quiet`."""
    if quiet:
        yield Silent()
    elif sys.stdout.isatty():
        with Bar(batches, batch_size, unit).shown() as bar:
            yield bar
    else:
        yield PlainLines(batches, min(1000, max(1, batches // 20)), batch_size, unit)


def describe(line: dict[str, Any]) -> str:
    """Format a metrics record as a line of text."""
    if line["kind"] == "train":
        unit = "symbols" if "symbols_per_s" in line else "sequences"
        speed = line[f"{unit}_per_s"]  # 0 if another session trained all
        factor = line.get("greatest_factor", 1)
        return (
            f"batch {line['batch']}: loss {line['loss_nats_per_token']:.4f} nats/token, "
            f"perplexity {line['perplexity']:.4f}{f', {speed:.0f} {unit}/s' if speed else ''}"
            f"{f', inverse temperature up to {factor}' if factor > 1 else ''}"
        )
    if line["kind"] == "plateau":
        measured = (
            f"errors {line['validation_errors']:.4f}"
            if "validation_errors" in line
            else (f"{line['validation_nats_per_token']:.4f} nats/token")
        )
        return (
            f"batch {line['batch']}: validation {measured}"
            f"{', the best so far' if line['better'] else ''}, learning rate "
            f"{line['learning_rate']:g}"
        )
    if line["kind"] == "hardening":
        return (
            f"batch {line['batch']}: validation error {line['validation_loss']:.4f}, of the "
            f"hardened model {line['validation_loss_discrete']:.4f} (least so far "
            f"{line['best_validation_loss_discrete']:.4f}), "
            f"inverse temperature {line['inverse_temperature']:.3g}, "
            f"least saturated {line['least_action_weight']:.4f}"
        )
    return (
        f"batch {line['batch']}: exact match {line['exact_match']:.3f}, "
        f"partial accuracy {line['partial_accuracy']:.3f} on {line['count']} validation "
        f"sequences of length {line['lengths']}"
    )
