"""The clock of a training run: it decides when something is saved or over, and nothing else."""

from __future__ import annotations

from collections.abc import Callable


class Clock:
    """Seconds of training over all sessions, and the speed of this one.

    Args:
        now: seconds from any beginning.
        patience: seconds without a checkpoint.
    """

    def __init__(self, now: Callable[[], float], patience: float) -> None:
        self._now = now
        self._patience = patience
        self.begin(0.0)

    def begin(self, elapsed_s: float) -> None:
        """A session begins, after so many seconds of others."""
        self._session = self._now()
        self._started = self._session - elapsed_s
        self._saved = elapsed_s
        self._done = 0
        self.seconds = elapsed_s

    def elapsed(self) -> float:
        """Seconds of training so far, as this process sees them."""
        return self._now() - self._started

    def agree(self, seconds: float) -> None:
        """All processes of a run go by the seconds of the first, or one would train on alone."""
        self.seconds = seconds

    def saved(self) -> None:
        """A checkpoint was written."""
        self._saved = self.seconds

    def overdue(self) -> bool:
        """Whether the last checkpoint, or the beginning of the session, is long ago."""
        return self.seconds - self._saved >= self._patience

    def done(self, count: int) -> None:
        """So many sequences or symbols were trained."""
        self._done += count

    def speed(self) -> float:
        """Sequences or symbols a second, in this session."""
        return self._done / max(self._now() - self._session, 1e-9)
