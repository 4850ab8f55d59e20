"""What a person sees while a run goes on: a bar in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Progress(Protocol):
    """Told what happens; shows as much of it as fits."""

    def begin(self, batch: int) -> None:
        """Training goes on after `batch` batches."""

    def step(self, batch: float, loss_nats_per_token: float) -> None:
        """A batch, or a part of one, was trained."""

    def looking(self, batch: int, lengths: str, count: int) -> None:
        """Validation sequences are about to be scored."""

    def record(self, line: dict[str, Any]) -> None:
        """A line went into the metrics."""

    def say(self, text: str) -> None:
        """Something a person should know."""


class Silent:
    """Shows nothing."""

    def begin(self, batch: int) -> None:
        """Nothing."""

    def step(self, batch: float, loss_nats_per_token: float) -> None:
        """Nothing."""

    def looking(self, batch: int, lengths: str, count: int) -> None:
        """Nothing."""

    def record(self, line: dict[str, Any]) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""


class PlainLines:
    """A few lines without colour or cursor movement, for files and pipes.

    Args:
        batches: the budget.
        every: batches between lines on training.
    """

    def __init__(self, batches: int, every: int = 1000) -> None:
        self._batches = batches
        self._every = every

    def begin(self, batch: int) -> None:
        """Nothing."""

    def step(self, batch: float, loss_nats_per_token: float) -> None:
        """Nothing: reports come as records."""

    def looking(self, batch: int, lengths: str, count: int) -> None:
        """Nothing."""

    def record(self, line: dict[str, Any]) -> None:
        """Print scores, and the training loss now and then."""
        if line["kind"] != "train" or line["batch"] % self._every == 0:
            self.say(describe(line))

    def say(self, text: str) -> None:
        """Print a line at once."""
        print(text, flush=True)


class Bar:
    """A rich progress bar with loss, accuracy, sequences per second and time left.

    Args:
        batches: the budget.
        batch_size: sequences a batch.
        unit: what they are called.
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
        self._accuracy = ""

    def begin(self, batch: int) -> None:
        """Start there, so that speed and time left do not count what another session did."""
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
        """Say what is being scored."""
        self._bar.update(self._work, description=f"scoring {count} at {lengths}")

    def record(self, line: dict[str, Any]) -> None:
        """Keep the newest accuracy beside the bar; print looks that were worth a line."""
        if "accuracy_coarse" in line:
            self._accuracy = f" coarse {line['accuracy_coarse']:.3f} at {line['lengths']}"
            if line["kind"] == "accuracy" or line["accuracy_coarse"] > 0:
                self.say(describe(line))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    @contextmanager
    def shown(self) -> Iterator[Bar]:
        """Show the bar inside the block."""
        with self._bar:
            yield self


@contextmanager
def progress(
    batches: int, batch_size: int, quiet: bool = False, unit: str = "sequences"
) -> Iterator[Progress]:
    """A bar when standard output is a terminal, plain lines when not, nothing when `quiet`."""
    if quiet:
        yield Silent()
    elif sys.stdout.isatty():
        with Bar(batches, batch_size, unit).shown() as bar:
            yield bar
    else:
        yield PlainLines(batches, min(1000, max(1, batches // 20)))


def describe(line: dict[str, Any]) -> str:
    """One metrics record as a line of text."""
    if line["kind"] == "train":
        unit = "symbols" if "symbols_per_s" in line else "sequences"
        return (
            f"batch {line['batch']}: loss {line['loss_nats_per_token']:.4f} nats/token, "
            f"perplexity {line['perplexity']:.4f}, {line[f'{unit}_per_s']:.0f} {unit}/s"
        )
    if line["kind"] == "plateau":
        return (
            f"batch {line['batch']}: validation {line['validation_nats_per_token']:.4f} nats/token"
            f"{', the best so far' if line['better'] else ''}, learning rate "
            f"{line['learning_rate']:g}"
        )
    if line["kind"] == "rounding":
        return (
            f"batch {line['batch']}: rounded, validation {line['validation_loss_discrete']:.4f} "
            f"(best {line['best_validation_loss_discrete']:.4f}), sharpness "
            f"{line['sharpness']:.3g}, least decided action {line['least_action_weight']:.4f}"
        )
    return (
        f"batch {line['batch']}: coarse {line['accuracy_coarse']:.3f}, "
        f"fine {line['accuracy_fine']:.3f} on {line['count']} validation sequences of length "
        f"{line['lengths']}"
    )
