"""Commands that must fail, and printed configs."""

from __future__ import annotations

from typing import Any

import pytest

from unbounded.cli import main
from unbounded.experiments.config import plain_yaml

Capture = pytest.CaptureFixture[str]


def failing(capsys: Capture, *arguments: str, code: int = 2) -> str:
    """Return the error output of a failing command, which has no traceback."""
    assert main(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err.startswith("unbounded: ")
    return err


def printed(capsys: Capture, *arguments: str) -> Any:
    """Return the config that `unbounded train` prints for some arguments."""
    assert main(["train", *arguments, "--print_config"]) == 0
    return plain_yaml.load(capsys.readouterr().out)
