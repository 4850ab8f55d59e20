from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.experiments.tiny import metrics, tiny, tiny_arguments
from tests.experiments.tiny_streams import tiny_streams
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import to_dict
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.training.checkpoint import checkpoint_folders


def launch(arguments: list[str], processes: int) -> subprocess.CompletedProcess[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={processes}"]
    command += [f"--master_port={port}", "-m", "unbounded.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"label_smoothing": 0.2},
        {
            "temperature_noise": {"name": "doubling", "limit": 8, "units": 4, "below": 100.0},
            "report_every": 5,
        },
    ],
    ids=["plain", "smoothed", "sharpened"],
)
def test_two_processes_train_the_same_run_as_one(options: dict[str, Any], tmp_path: Path) -> None:
    config = tiny(batches=20, **options)
    arguments = tiny_arguments(tmp_path / "two", batches=20, **options)
    done = launch(arguments, 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("run folder:") == 1
    one = train_run(config, root=tmp_path / "one", quiet=True).folder
    two = tmp_path / "two" / run_name(config)
    pairs = list(zip(metrics(one), metrics(two), strict=True))
    assert len(pairs) == 20 // config.training.report_every + 3
    for left, right in pairs:
        assert left.keys() == right.keys()
        for name, value in left.items():
            # Up to rounding: the sum of two halves has another order.
            expected = pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
            assert right[name] == expected, name
    names = {path.name for path in checkpoint_folders(two / "checkpoints")[0].iterdir()}
    assert {"random_states_0.pkl", "random_states_1.pkl"} <= names
    (two / "model").rename(two / "elsewhere")
    RunFolder(two).load_model()


@pytest.mark.slow
@pytest.mark.parametrize("chunk_steps", [7, 1])
def test_two_processes_train_on_chunks_with_a_learned_initial_state(
    chunk_steps: int, tmp_path: Path
) -> None:
    """Later chunks do not use the learned state; chunks of one step do not use the heads."""
    config = tiny_streams(batch_size=4, chunk_steps=chunk_steps)
    config.model.learn_initial_state = True
    config.evaluation["carry_state"] = True  # as in the preset of anbn
    asked = tmp_path / "asked.yaml"
    asked.write_text(yaml.safe_dump(to_dict(config)))
    # The preset of anbn has lengths.
    options = ["--config", str(asked), "--evaluation.lengths=null", "--runs", str(tmp_path / "two")]
    done = launch(["train", *options], 2)
    assert done.returncode == 0, done.stderr
    one = train_run(config, root=tmp_path / "one", quiet=True).folder
    for left, right in zip(metrics(one), metrics(tmp_path / "two" / one.name), strict=True):
        for name, value in left.items():
            expected = pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
            assert right[name] == expected, name


@pytest.mark.slow
def test_a_batch_that_cannot_be_shared_is_an_error(tmp_path: Path) -> None:
    done = launch(tiny_arguments(tmp_path, batch_size=1), 2)
    assert done.returncode != 0
    assert "1 sequences cannot be shared among 2 processes" in done.stderr
