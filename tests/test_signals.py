from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from unbounded.signals import Interrupted, exit_on_signals, stop_requests

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGHUP"), reason="Windows knows no SIGHUP; every test here sends one"
)


@contextmanager
def handled(number: signal.Signals, handler: Any) -> Iterator[None]:
    """A signal with a handler of this program, or of nohup, under which the tests may run."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_a_closed_terminal_is_a_request_to_stop() -> None:
    with handled(signal.SIGHUP, signal.SIG_DFL):
        with stop_requests() as request:
            os.kill(os.getpid(), signal.SIGHUP)
            with pytest.raises(Interrupted) as caught:
                request.check()
        assert caught.value.exit_code == 129
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_an_ignored_hangup_stays_ignored() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN), stop_requests() as request:
        os.kill(os.getpid(), signal.SIGHUP)
        request.check()


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU])
def test_a_signal_of_a_scheduler_is_a_request_to_stop(number: signal.Signals) -> None:
    """SLURM sends them before a time limit; they used to kill the run unsaved."""
    with stop_requests() as request:
        os.kill(os.getpid(), number)
        with pytest.raises(Interrupted, match=f"stopped by {number.name}") as caught:
            request.check()
    assert caught.value.exit_code == 143
    assert signal.getsignal(number) == signal.SIG_DFL


def test_a_program_keeps_its_own_handler_of_a_signal() -> None:
    seen: list[int] = []
    with handled(signal.SIGUSR1, lambda number, frame: seen.append(number)):
        with stop_requests() as request:
            os.kill(os.getpid(), signal.SIGUSR1)
            request.check()
        with exit_on_signals(75):
            signal.raise_signal(signal.SIGUSR1)
    assert seen == [signal.SIGUSR1] * 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGXCPU])
def test_the_innermost_block_receives_the_signal(number: int) -> None:
    with stop_requests() as outer:
        with stop_requests() as inner:
            os.kill(os.getpid(), number)
            with pytest.raises(Interrupted):
                inner.check()
        outer.check()


def test_an_inner_block_stops_for_a_signal_that_came_before_it() -> None:
    with stop_requests() as outer:
        signal.raise_signal(signal.SIGTERM)
        with stop_requests() as inner, pytest.raises(Interrupted, match="SIGTERM"):
            inner.check()
        with pytest.raises(Interrupted, match="SIGTERM"):
            outer.check()
    with stop_requests() as later:
        later.check()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1"])
def test_exit_on_signals_holds_before_and_after_an_inner_block(name: str) -> None:
    number = getattr(signal, name)
    with exit_on_signals(75):
        with stop_requests() as request:
            signal.raise_signal(number)
        assert request.number == number
        with pytest.raises(SystemExit) as left:
            signal.raise_signal(number)
        assert left.value.code == 75
    assert signal.getsignal(number) == signal.SIG_DFL
