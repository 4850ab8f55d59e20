"""Runs on every device; the CPU runs the same lines, so that they are always tested."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

import unbounded as ub
from tests.devices import on_every_device, one_storage
from tests.experiments.small import ALIKE, small
from tests.experiments.tiny import assert_same_run, interrupted, tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.finished_run_hardening import harden_run
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.tasks import TASKS
from unbounded.training.chunk_update import ChunkUpdate

pytestmark = on_every_device


def test_run(tmp_path: Path, device: str) -> None:
    config = tiny()
    config.hardware.device = device
    result = train_run(config, root=tmp_path, quiet=True)
    assert result.report["batches"] == 40
    saved, hardware = RunFolder(result.folder).read_config(), result.report["hardware"]
    assert saved is not None
    used = saved["used"]
    assert used["kernels"] == hardware["kernels"]
    assert (hardware["kernels"] == "triton") == (device == "cuda") == ("accelerator" in hardware)
    assert (result.folder / "model" / "model.safetensors").is_file()
    again = train_run(config, root=tmp_path, quiet=True, resume=True)
    assert not again.fresh


def test_evaluated_elsewhere(tmp_path: Path, device: str) -> None:
    config = tiny()
    config.hardware.device = config.hardware.backend = device
    result = train_run(config, root=tmp_path, quiet=True)
    evaluate_run(result.folder, device="cpu")
    if device == "cpu":  # as one that was trained on the kernels for CUDA is
        for path in (result.folder / "config.yaml", result.folder / "model" / "config.json"):
            path.write_text(
                path.read_text()
                .replace("backend: cpu", "backend: cuda")
                .replace('"backend": "cpu"', '"backend": "cuda"')
            )
        assert evaluate_run(result.folder)["rows"] == result.report["rows"]


def tiny_lstm() -> RunConfig:
    config = tiny()
    config.model.memory = {"name": "none"}
    config.model.controller = {"name": "lstm", "num_layers": 2}
    config.model.readout_size = None
    return config


@pytest.mark.parametrize("make", [tiny, tiny_streams, tiny_lstm])
def test_resumed_bit_by_bit(
    make: Callable[[], RunConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    if device == "cpu":
        monkeypatch.setattr(nn.LSTM, "flatten_parameters", one_storage)
    config = make()
    config.hardware.device, config.hardware.backend = device, "auto"
    full = train_run(config, root=tmp_path / "whole", quiet=True)
    with interrupted(ChunkUpdate, "_step", lambda n, *_: n == 2):
        train_run(config, root=tmp_path / "parts", quiet=True)
    parts = train_run(config, root=tmp_path / "parts", quiet=True, resume=True)
    assert_same_run(full.folder, parts.folder)
    again = evaluate_run(parts.folder, device=device)
    assert again["rows"] == parts.report["rows"]


@pytest.mark.parametrize(
    "row",
    [
        # test_every_cell has every task on the CPU; `pytest -m cuda` takes the slow ones too.
        pytest.param(row, id=task, marks=[pytest.mark.slow] if task in ALIKE or row % 8 else [])
        for row, task in enumerate(TASKS)
    ],
)
def test_a_run_of_every_task(row: int, data: Path, tmp_path: Path, device: str) -> None:
    # The run is hardened, and a nondeterministic stack has no gates.
    names = [name for name in ub.memories.MEMORIES if name != "nondeterministic_stack"]
    config = small(list(TASKS)[row], {"memory": names[row % len(names)]}, data)
    config.hardware.device = device
    result = train_run(config, root=tmp_path, quiet=True)
    assert evaluate_run(result.folder, device=device)["rows"] == result.report["rows"]
    evaluate_run(result.folder, device="cpu")
    if config.task["name"] in ("penn_treebank", "text", "stack_language", "dynamic_ngrams"):
        return  # outputs are never correct: nothing to harden
    hardened = harden_run(result.folder, {"batches": 1, "cool": 0}, quiet=True)
    assert hardened["hardened"] is not None
