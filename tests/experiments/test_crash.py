from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.experiments.tiny import assert_same_run, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder

# Each child is killed at an arbitrary moment, in the middle of whatever it does, and the next one
# goes on. One interpreter forks them all, because importing torch takes longer than they live.
DRIVER = """
import os, random, signal, sys, time
from pathlib import Path
from tests.experiments.test_crash import RUNS
from unbounded.experiments.run.run import train_run

root, make = Path(sys.argv[1]), RUNS[sys.argv[2]]
random.seed(7)
killed = 0
while True:
    child = os.fork()
    if child == 0:
        train_run(make(), root=root, quiet=True, resume=True)
        os._exit(0)
    deadline = time.monotonic() + (random.uniform(0.1, 0.9) if killed < int(sys.argv[3]) else 100)
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


def hardened() -> RunConfig:
    config = tiny_streams(batches=40)
    config.hardening = {"name": "gradual", "batches": 60, "every": 1, "learning_rate": 0.1}
    return config


RUNS = {
    "pairs": lambda: tiny(batches=100, checkpoint_every=4, report_every=1),
    "streams": lambda: tiny_streams(batches=120),
    "hardening": hardened,
}


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("name", "kills"),
    [
        ("hardening", 3),  # has all of the others' parts
        *(pytest.param(name, 40, marks=pytest.mark.slow) for name in RUNS),
    ],
)
def test_killed_at_any_moment_resumed_ends_bit_for_bit_the_same(
    name: str, kills: int, tmp_path: Path
) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path / "killed"), name, str(kills)],
        stdout=subprocess.PIPE,
        text=True,
    )
    full = train_run(RUNS[name](), root=tmp_path / "whole", quiet=True)
    output, _ = driver.communicate(timeout=240)
    assert driver.returncode == 0
    assert int(output) >= 2
    folder = tmp_path / "killed" / run_name(RUNS[name]())
    assert_same_run(full.folder, folder)
    if name == "hardening":
        machines = [RunFolder(each).load_model(hardened=True)[0] for each in (full.folder, folder)]
        for one, other in zip(*(each.parameters() for each in machines), strict=True):
            assert torch.equal(one, other)
    left = [path.name for path in (folder / "checkpoints").iterdir()]
    assert all(each.startswith("batch-") for each in left), left
