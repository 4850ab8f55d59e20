"""Environment variables change no training silently; errors name them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.tiny import tiny
from unbounded.errors import ConfigError
from unbounded.experiments.run.build import make_accelerator
from unbounded.experiments.run.ram_check import group_limits


def test_accumulation_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once changed the training without a trace in the name or report."""
    name = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"
    monkeypatch.setenv(name, "4")
    with pytest.raises(ConfigError, match=f"environment: {name}=4 would change the training"):
        make_accelerator(tiny())
    monkeypatch.setenv(name, "1")
    assert make_accelerator(tiny()).gradient_accumulation_steps == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACCELERATE_USE_CPU", "x"),
        pytest.param("ACCELERATE_DYNAMO_BACKEND", "foo", marks=pytest.mark.slow),
        pytest.param("ACCELERATE_USE_DEEPSPEED", "true", marks=pytest.mark.slow),
    ],
)
def test_an_environment_that_accelerate_cannot_use_is_named(name: str, value: str) -> None:
    """The test needs its own process, because accelerate caches the environment."""
    code = (
        "from tests.experiments.tiny import tiny\n"
        "from unbounded.errors import ConfigError\n"
        "from unbounded.experiments.run.build import make_accelerator\n"
        "try:\n    make_accelerator(tiny())\nexcept ConfigError as error:\n    print(error)\n"
    )
    done = _run(["-c", code], **{name: value})
    assert done.returncode == 0, done.stderr
    assert f"environment: accelerate cannot start with {name}={value}" in done.stdout


def test_an_invalid_matplotlib_backend_does_not_stop_a_run() -> None:
    """For example MPLBACKEND=nonsense."""
    code = (
        "from unbounded.cli import main; main(['list']); import matplotlib.pyplot as p; p.figure()"
    )
    done = _run(["-c", code], MPLBACKEND="nonsense")
    assert done.returncode == 0, done.stderr


def _run(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("0::/user/job\n", "user/memory.max"),
        ("5:cpu:/\n4:memory,hugetlb:/user/job\n", "memory/user/memory.limit_in_bytes"),
    ],
)
def test_memory_limits_include_those_of_the_own_cgroup(
    tmp_path: Path, line: str, first: str
) -> None:
    """The groups above it bound a process too; in a container they may not be there."""
    own = tmp_path / "cgroup"
    own.write_text(line)
    named = [str(path.relative_to(tmp_path)) for path in group_limits(own, tmp_path)]
    assert named[:2] == ["memory.max", "memory/memory.limit_in_bytes"]
    assert named[2:] == [first, first.replace("user/", "user/job/")]
    assert len(group_limits(tmp_path / "none", tmp_path)) == 2
