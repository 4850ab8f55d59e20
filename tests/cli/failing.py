"""Commands that must fail."""

from __future__ import annotations

import pytest

from unbounded.cli import main

Capture = pytest.CaptureFixture[str]


def failing(capsys: Capture, *arguments: str, code: int = 2) -> str:
    """Return the error output of a failing command, which has no traceback."""
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("unbounded: ")
    return err
