from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.tiny import assert_same_run, tiny
from unbounded.experiments.config.schema import run_name
from unbounded.experiments.run.run import train_run

# Each child is killed at an arbitrary moment, in the middle of whatever it does, and the next one
# goes on. One interpreter forks them all, because importing torch takes longer than they live.
DRIVER = """
import os, random, signal, sys, time
from pathlib import Path
from tests.experiments.tiny import tiny
from unbounded.experiments.run.run import train_run

root, options = Path(sys.argv[1]), eval(sys.argv[2])
random.seed(7)
killed = 0
while True:
    child = os.fork()
    if child == 0:
        train_run(tiny(**options), root=root, quiet=True, resume=True)
        os._exit(0)
    deadline = time.monotonic() + (random.uniform(0.1, 0.9) if killed < 6 else 100)
    done = 0
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.005)
    if done:
        print(killed)
        sys.exit(status != 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    killed += 1
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_killed_at_any_moment_resumed_ends_bit_for_bit_the_same(tmp_path: Path) -> None:
    options = {"batches": 100, "checkpoint_every": 4, "report_every": 1}
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path / "killed"), repr(options)],
        stdout=subprocess.PIPE,
        text=True,
    )
    whole = train_run(tiny(**options), root=tmp_path / "whole", quiet=True)
    output, _ = driver.communicate(timeout=120)
    assert driver.returncode == 0
    assert int(output) >= 3
    folder = tmp_path / "killed" / run_name(tiny(**options))
    assert_same_run(whole.folder, folder)
    left = [path.name for path in (folder / "checkpoints").iterdir()]
    assert all(name.startswith("batch-") for name in left), left
