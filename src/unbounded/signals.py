"""Treat Ctrl-C and other signals as a request that the loop answers between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

#: Signals that schedulers send before a time limit (SLURM's --signal, a CPU limit). These signals
#: are handled like SIGTERM.
SCHEDULERS: Final = ("SIGUSR1", "SIGUSR2", "SIGXCPU")

#: Handlers of the open blocks of this module.
_OWN: Final[set[Callable[[int, FrameType | None], None]]] = set()


class Interrupted(Exception):  # noqa: N818
    """Raised if a stop was requested. The loop saves the run first.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 129 after SIGHUP, 143 after SIGTERM and after schedulers' signals."""
        of_scheduler = signal.Signals(self.number).name in SCHEDULERS
        return 128 + (signal.SIGTERM if of_scheduler else self.number)


#: Requests of the open `stop_requests` blocks, the innermost last.
_OPEN: Final[list[StopRequest]] = []


class StopRequest:
    """Holds the first signal that requested a stop.

    Args:
        outer: request of the block around this one.
    """

    def __init__(self, outer: StopRequest | None = None) -> None:
        self.number: int | None = None
        self._outer = outer

    def check(self) -> None:
        """Raise `Interrupted` if a signal arrived, here or in a block around this one.

        A signal may arrive after an outer block began and before this one did.
        """
        if self.number is not None:
            raise Interrupted(self.number)
        if self._outer is not None:
            self._outer.check()


def _is_free(number: int) -> bool:
    handler = signal.getsignal(number)
    return handler == signal.SIG_DFL or handler in _OWN


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Catch signals that request a stop inside the block. A second signal has its usual effect.

    SIGINT and SIGTERM are caught. SIGHUP, which a closed terminal sends, is caught unless it is
    ignored, as under nohup. SIGUSR1, SIGUSR2 and SIGXCPU are caught if no handler is set, or only
    the handler of an outer block. The innermost block receives the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield StopRequest()
        return
    request = StopRequest(_OPEN[-1] if _OPEN else None)
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    of_schedulers = [getattr(signal, name) for name in SCHEDULERS if hasattr(signal, name)]
    numbers += [number for number in of_schedulers if _is_free(number)]
    handlers = {number: signal.getsignal(number) for number in numbers}

    def remember(number: int, frame: FrameType | None) -> None:
        request.number = number
        for other in numbers:
            signal.signal(other, handlers[other])

    _OWN.add(remember)
    _OPEN.append(request)
    for number in numbers:
        signal.signal(number, remember)
    try:
        yield request
    finally:
        for number in numbers:
            signal.signal(number, handlers[number])
        _OWN.discard(remember)
        _OPEN.remove(request)


@contextmanager
def exit_on_signals(code: int) -> Iterator[None]:
    """Inside the block, end the program with an exit code when a scheduler's signal arrives.

    SIGTERM and the signals of `SCHEDULERS` are caught if no handler is set. An inner
    `stop_requests` block receives them instead. Ctrl-C has its usual effect. A signal has its
    usual effect outside the main thread.

    Args:
        code: the exit code.
    """

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(code)

    names = ("SIGTERM", *SCHEDULERS)
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    free = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    _OWN.add(leave)
    for number in free:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in free:
            signal.signal(number, signal.SIG_DFL)
        _OWN.discard(leave)
