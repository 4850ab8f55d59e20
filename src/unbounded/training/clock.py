"""The clock of a training run: it decides only when to save and when the time budget is over."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Seconds of training over all sessions, and the speed of this one.

    Args:
        now: returns seconds from any start.
        patience: seconds without a checkpoint after which one is overdue.
    """

    def __init__(self, now: Callable[[], float], patience: float) -> None:
        self._now = now
        self._patience = patience
        self.begin(0.0)

    def begin(self, elapsed_s: float) -> None:
        """Start a session after `elapsed_s` seconds of earlier ones."""
        self._session = self._now()
        self._started = self._session - elapsed_s
        self._saved = elapsed_s
        self._done = 0
        self.seconds = elapsed_s

    def elapsed(self) -> float:
        """Seconds of training so far, by this process's clock."""
        return self._now() - self._started

    def agree(self, seconds: float) -> None:
        """Set the time to that of the first process: all processes must stop at the same batch."""
        self.seconds = seconds

    def saved(self) -> None:
        """Note that a checkpoint was written."""
        self._saved = self.seconds

    def overdue(self) -> bool:
        """Whether the last checkpoint or the session's start is `patience` seconds ago."""
        return self.seconds - self._saved >= self._patience

    def done(self, count: int) -> None:
        """Count trained sequences or symbols."""
        self._done += count

    def speed(self) -> float:
        """Sequences or symbols per second in this session."""
        return self._done / max(self._now() - self._session, 1e-9)
