"""Commands that are to fail."""

from __future__ import annotations

import pytest

from unbounded.cli import main

Capture = pytest.CaptureFixture[str]


def failing(capsys: Capture, *arguments: str, code: int = 2) -> str:
    """What a command that fails says, on standard error alone and without a traceback."""
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("unbounded: ")
    return err
