"""Commands with a closed output: training continues, and reading commands end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

import pytest

from tests.experiments.tiny import tiny, tiny_arguments
from unbounded.cli import main
from unbounded.experiments.config.identity import run_name

SHORT = {"batches": 12, "accuracy_every": 0}


def closed_pipe() -> TextIO:
    read, write = os.pipe()
    os.close(read)
    return os.fdopen(write, "w")


def full_disk() -> TextIO:
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has /dev/full; a closed pipe is tried everywhere")
    return open("/dev/full", "w")


streams = pytest.mark.parametrize("stream", [closed_pipe, full_disk])


@contextmanager
def printing_to(make: Callable[[], TextIO]) -> Iterator[TextIO]:
    # Not a fixture: pytest's capture takes sys.stdout back between a test's setup and the test.
    stream = make()
    with redirect_stdout(stream):
        yield stream
    with suppress(OSError):
        stream.close()


@streams
def test_training_continues_without_standard_output(
    stream: Callable[[], TextIO], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with printing_to(stream):
        assert main(tiny_arguments(tmp_path, **SHORT)) == 0
    assert (tmp_path / run_name(tiny(**SHORT)) / "report.json").exists()
    err = capfd.readouterr().err
    assert err.count("unbounded: standard output cannot be written") == 1
    assert "continuing without it" in err


@streams
@pytest.mark.parametrize("command", [["list"], ["sample", "copy", "-n", "300"], ["--help"]])
def test_other_commands_end_without_standard_output(
    stream: Callable[[], TextIO], command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with printing_to(stream) as stdout:
        code = main(command)
        stdout.write("what is left over is flushed into nothing")
        stdout.flush()
    err = capfd.readouterr().err
    if stream is full_disk:
        assert code == 2
        assert err == "unbounded: writing standard output failed: No space left on device\n"
    else:
        assert (code, err) == (0, "")


def test_training_without_a_standard_output_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(tiny_arguments(tmp_path, **SHORT)) == 0
    assert (tmp_path / run_name(tiny(**SHORT)) / "report.json").exists()
