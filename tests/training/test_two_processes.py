"""One run on two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch.testing import assert_close


@pytest.mark.slow
def test_two_processes_equal_one_process_with_the_full_batch(tmp_path: Path) -> None:
    """`batch_size` counts the sequences of all processes, so their number changes no result."""
    words = [
        "unbounded", "train", "copy", "--training.batches", "40", "--training.batch_size", "16",
        "--training.accuracy_every", "0", "--training.report_every", "20", "--hardening", "none",
        "--training.schedule", "constant", "--training.stop", "budget", "--model.hidden_size", "16",
        "--evaluation.multiples", "null", "--evaluation.count", "20", "--quiet",
    ]  # fmt: skip
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    losses, weights = [], []
    for name, before in (("one", []), ("two", launch)):
        command = [sys.executable, "-P", *before, "-m", *words, "--runs", str(tmp_path / name)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        (folder,) = (each.parent for each in (tmp_path / name).glob("*/report.json"))
        (manifest,) = list((folder / "checkpoints").glob("*/manifest.json"))[-1:]
        assert json.loads(manifest.read_text())["processes"] == len(losses) + 1
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        losses.append([x["loss_nats_per_token"] for x in lines if x["kind"] == "train"])
        weights.append(load_file(folder / "model/model.safetensors"))
    assert len(losses[0]) == 2
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    for name, weight in weights[0].items():
        assert_close(weights[1][name], weight, rtol=0, atol=1e-4, msg=name)
