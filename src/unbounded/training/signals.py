"""Ctrl-C and other signals as a request that the loop answers between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

#: Signals of schedulers before a time limit (SLURM's --signal, a CPU limit): saved as for SIGTERM.
SCHEDULERS: Final = ("SIGUSR1", "SIGUSR2", "SIGXCPU")


class Interrupted(Exception):  # noqa: N818
    """The run was asked to stop; it has been saved when this leaves the loop.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 129 after SIGHUP, 143 after SIGTERM and the signals of schedulers."""
        of_scheduler = signal.Signals(self.number).name in SCHEDULERS
        return 128 + (signal.SIGTERM if of_scheduler else self.number)


class StopRequest:
    """Remembers the first signal that asked for an end."""

    def __init__(self) -> None:
        self.number: int | None = None

    def check(self) -> None:
        """Raise `Interrupted` when a signal came."""
        if self.number is not None:
            raise Interrupted(self.number)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Catch signals that ask for an end inside the block; a second has its usual effect at once.

    SIGINT, SIGTERM and SIGHUP, which comes when the terminal is closed; under nohup it is ignored,
    and stays so. SIGUSR1, SIGUSR2 and SIGXCPU where the program has no use of its own for them.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    of_schedulers = [getattr(signal, name) for name in SCHEDULERS if hasattr(signal, name)]
    numbers += [number for number in of_schedulers if signal.getsignal(number) == signal.SIG_DFL]
    before = {number: signal.getsignal(number) for number in numbers}

    def remember(number: int, frame: FrameType | None) -> None:
        request.number = number
        for each in numbers:
            signal.signal(each, before[each])

    for number in numbers:
        signal.signal(number, remember)
    try:
        yield request
    finally:
        for number in numbers:
            signal.signal(number, before[number])
