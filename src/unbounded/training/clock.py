"""The time of a run, which its budget, its checkpoints and its reported speed use."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Seconds of training over all sessions, and the speed of this session.

    Args:
        now: returns seconds from any start.
        patience: seconds without a checkpoint after which one is overdue.
    """

    def __init__(self, now: Callable[[], float], patience: float) -> None:
        self._now = now
        self._patience = patience
        self.begin(0.0)

    def begin(self, elapsed_s: float) -> None:
        """Start a session after `elapsed_s` seconds of earlier sessions."""
        self._session = self._now()
        self._started = self._session - elapsed_s
        self._saved = elapsed_s
        self._done = 0
        self.seconds = elapsed_s

    def elapsed(self) -> float:
        """Seconds of training so far, by this process's clock."""
        return self._now() - self._started

    def agree(self, seconds: float) -> None:
        """Use the time of the first process, so that all processes stop at the same batch."""
        self.seconds = seconds

    def saved(self) -> None:
        """Record that a checkpoint was written."""
        self._saved = self.seconds

    def overdue(self) -> bool:
        """Whether the last checkpoint or the session's start is `patience` seconds ago."""
        return self.seconds - self._saved >= self._patience

    def done(self, count: int) -> None:
        """Count trained sequences or symbols."""
        self._done += count

    def speed(self) -> float:
        """Number of sequences or symbols per second in this session."""
        return self._done / max(self._now() - self._session, 1e-9)
