"""The benchmark against public programs: a wrong argument is one line, before anything is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "public_programs.py"


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--chomsky", "--chomsky: expected a folder with models/tape_rnn.py, got "),
        (
            "--nondeterministic",
            "--nondeterministic: expected a folder with "
            "src/stack_rnn_models/nondeterministic_stack.py, got ",
        ),
        ("--out", "--out: expected a file in a folder, got "),
    ],
)
def test_a_folder_without_the_program_is_one_line(
    tmp_path: Path, option: str, expected: str
) -> None:
    command = [sys.executable, str(SCRIPT), option, str(tmp_path / "missing" / "folder")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(expected)
    assert not done.stdout


def test_rounds_are_positive() -> None:
    command = [sys.executable, str(SCRIPT), "--rounds", "0"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "--rounds: expected at least 1, got 0.\n")
