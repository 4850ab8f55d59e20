"""A run of about one second, its hardening, its interruption, and the comparison of two runs."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.metrics import read_metrics
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.compose import overlay
from unbounded.experiments.config.schema import (
    HardwareConfig,
    ModelConfig,
    RunConfig,
    TrainingConfig,
    to_dict,
)
from unbounded.experiments.run.plan import Plan, plan
from unbounded.experiments.run.run import train_run
from unbounded.training import Interrupted
from unbounded.training.checkpoint import checkpoint_folders
from unbounded.training.metrics_log import MetricsLog

WALL_CLOCK = {"elapsed_s", "sequences_per_s", "symbols_per_s", "minutes"}


def tiny(**training: Any) -> RunConfig:
    options: dict[str, Any] = {
        "batches": 40, "batch_size": 4, "learning_rate": 1e-2, "report_every": 10,
        "stop": {"name": "solved", "every": 20}, "validation_count": 20, "accuracy_every": 20,
        "accuracy_count": 10, "checkpoint_every": 15,
    }  # fmt: skip
    return RunConfig(
        task={"name": "copy", "symbols": 3, "train_lengths": "1:3", "test_lengths": "4:6"},
        seed=3,
        model=ModelConfig(
            memory={"name": "queue", "width": 4}, hidden_size=8, embedding_size=4, readout_size=4
        ),
        training=laid_over(options, training),
        evaluation={"count": 20},
        hardware=HardwareConfig(device="cpu", threads=1),
    )


def laid_over(options: dict[str, Any], *changes: dict[str, Any]) -> TrainingConfig:
    """Training options with changes; a component of the same name changes single options."""
    base = {"training": asdict(TrainingConfig())}
    own = [{"training": change} for change in (options, *changes)]
    return TrainingConfig(**overlay(base, *own)["training"])


def gradual(**options: Any) -> dict[str, Any]:
    """The options of a hardening of two batches."""
    return {"name": "gradual", "batches": 2, "every": 1, **options}


def tiny_arguments(runs: Path, **training: Any) -> list[str]:
    """The same run as a command line."""
    config = tiny(**training)
    arguments = ["train", "copy", "--runs", str(runs), "--seed", str(config.seed)]
    for name, value in config.task.items():
        if name != "name":
            arguments += [f"--task.{name}", str(value)]
    data = to_dict(config)
    for part in ("model", "training", "hardening", "evaluation", "hardware"):
        arguments.append(f"--{part}={json.dumps(data[part])}")
    # The preset of copy has them.
    return [*arguments, "--evaluation.multiples=null", "--evaluation.symbols=null"]


@contextmanager
def interrupted(
    owner: type, name: str, when: Callable[..., bool], number: int = signal.SIGTERM
) -> Iterator[pytest.ExceptionInfo[Interrupted]]:
    """Send a signal before the calls of a method for which `when(place, arguments)` is true.

    The signal must end the work in the context.
    """
    method, places = getattr(owner, name), itertools.count()

    def interrupting(*arguments: Any) -> Any:
        if when(next(places), *arguments):
            os.kill(os.getpid(), number)
        return method(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, interrupting)
        with pytest.raises(Interrupted) as caught:
            yield caught


def planned(config: RunConfig) -> Plan:
    """The plan of a config, even with errors."""
    return plan(config, build_task(config))


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if k not in WALL_CLOCK} for line in lines]


def assert_same_run(left: Path, right: Path) -> None:
    """Metrics, weights, optimizer and loop state are equal bit for bit, clock and origin apart."""
    assert metrics(left) == metrics(right)
    newest = [checkpoint_folders(folder / "checkpoints")[0] for folder in (left, right)]
    assert newest[0].name == newest[1].name
    weights = [load_file(folder / "model.safetensors") for folder in newest]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name
    optimizers = [torch.load(folder / "optimizer.bin", weights_only=True) for folder in newest]
    for number, state in optimizers[0]["state"].items():
        for name, value in state.items():
            other = optimizers[1]["state"][number][name]
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(other)), (number, name)
    states = [json.loads((folder / "loop.json").read_text()) for folder in newest]
    for state in states:
        del state["elapsed_s"]
    assert states[0] == states[1]
    reports = [json.loads((folder / "report.json").read_text()) for folder in (left, right)]
    assert reports[0]["rows"] == reports[1]["rows"]


def assert_interruption_changes_nothing(
    config: RunConfig, root: Path, owner: type, name: str, when: Callable[..., bool]
) -> Path:
    """A run that is `interrupted` and resumed equals one that is not, which is returned."""
    full = train_run(config, root=root / "whole", quiet=True).folder
    with interrupted(owner, name, when):
        train_run(config, root=root / "cut", quiet=True)
    assert_same_run(full, train_run(config, root=root / "cut", quiet=True, resume=True).folder)
    return full


def assert_interruption_after_changes_nothing(config: RunConfig, root: Path, batch: int) -> Path:
    """The same, interrupted while the line of a batch is written: directly after its step."""

    def when(place: int, log: MetricsLog, line: dict[str, Any]) -> bool:
        return (line["kind"], line["batch"]) == ("train", batch)

    return assert_interruption_changes_nothing(config, root, MetricsLog, "append", when)
