"""Runs that are hardened: at once, afterwards, in pieces; with every memory and layout."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.experiments.test_every_cell import data, small  # noqa: F401
from tests.experiments.tiny import tiny
from tests.experiments.tiny_streams import tiny_streams
from unbounded.errors import CheckpointError, ConfigError, RunExistsError
from unbounded.experiments.config.check import checked
from unbounded.experiments.config.harden import with_hardening
from unbounded.experiments.config.schema import ModelConfig, RoundingConfig, RunConfig
from unbounded.experiments.run.evaluate import evaluate_run, load_model
from unbounded.experiments.run.folder import read_report
from unbounded.experiments.run.harden import harden_run
from unbounded.experiments.run.run import train_run
from unbounded.memories import MEMORIES
from unbounded.models import certainties
from unbounded.training import Interrupted
from unbounded.training.steps import BatchTrainer

CHANGES = {"batches": 4, "every": 2, "factor": 3.0, "validation_count": 8, "remove": False}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tiny(), root=tmp_path_factory.mktemp("runs"), quiet=True).folder


def copied(folder: Path, root: Path) -> Path:
    import shutil

    return Path(shutil.copytree(folder, root / folder.name))


def machine_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model-rounded" / "model.safetensors")


def test_a_finished_run_is_hardened_and_keeps_what_was_trained(
    trained: Path, tmp_path: Path
) -> None:
    folder = copied(trained, tmp_path)
    before = read_report(folder)
    assert before is not None
    report = harden_run(folder, {**CHANGES, "tolerance": 1.0}, quiet=True)
    rounded = report.pop("rounded")
    assert report == before
    assert rounded["batches"] == 4
    assert rounded["decided"]
    assert rounded["steps_back"] == 0
    assert set(rounded["decisions"]) == {"push", "pop"}
    assert all(
        each["least"] == 1 and not each["undecided"] for each in rounded["decisions"].values()
    )
    assert evaluate_run(folder, rounded=True)["rows"] == rounded["rows"]
    assert evaluate_run(folder)["rows"] == report["rows"]
    machine, source = load_model(folder, rounded=True)
    task = checked(tiny())
    batch = task.batch(0, "validation", 0, 4, task.train_lengths)
    assert source == "model-rounded"
    assert all(each.least == 1 for each in certainties(machine, batch).values())
    with pytest.raises(RunExistsError, match="is hardened already; --overwrite hardens it anew"):
        harden_run(folder, CHANGES, quiet=True)
    again = harden_run(folder, {**CHANGES, "tolerance": 1.0}, overwrite=True, quiet=True)
    assert again["rounded"]["rows"] == rounded["rows"]


def test_it_is_what_training_with_a_hardening_gives(trained: Path, tmp_path: Path) -> None:
    config = tiny()
    config.rounding = RoundingConfig(**CHANGES)
    at_once = train_run(with_hardening(config), root=tmp_path, quiet=True).folder
    folder = copied(trained, tmp_path)
    harden_run(folder, CHANGES, quiet=True)
    left, right = machine_of(at_once), machine_of(folder)
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_an_interrupted_one_goes_on_to_the_same_bits(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = copied(trained, tmp_path / "whole")
    harden_run(whole, CHANGES, quiet=True)
    folder = copied(trained, tmp_path / "cut")
    step, count = BatchTrainer._step, 0

    def interrupt(trainer: BatchTrainer, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(BatchTrainer, "_step", interrupt)
        with pytest.raises(Interrupted):
            harden_run(folder, CHANGES, quiet=True)
    report = read_report(folder)
    assert report is not None
    assert "rounded" not in report
    with pytest.raises(RunExistsError, match=r"was begun with other options .*; give these, or"):
        harden_run(folder, {**CHANGES, "factor": 2.0}, quiet=True)
    again = harden_run(folder, CHANGES, quiet=True)
    assert again["rounded"]["rows"] == read_report(whole)["rounded"]["rows"]  # type: ignore[index]
    left, right = machine_of(whole), machine_of(folder)
    assert all(torch.equal(left[name], right[name]) for name in left)


CELLS = [("copy", memory) for memory in MEMORIES]
CELLS += [(task, "turing_tape") for task in ("ntm_copy", "dyck", "dyck_prefixes", "anbn")]
CELLS += [("answer_reverse", "lie_access"), ("anbn", "stack"), ("memorization", "queue")]


@pytest.mark.parametrize(("task", "memory"), CELLS)
def test_every_memory_that_decides_and_every_layout(
    task: str,
    memory: str,
    data: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    config = small(task, {"memory": memory}, data)
    config.rounding = RoundingConfig(batches=2, every=1, tolerance=1.0, remove=False)
    rounded = train_run(config, root=tmp_path, quiet=True).report["rounded"]
    assert rounded["batches"] == 2
    assert rounded["decisions"]
    assert rounded["rows"]


def test_what_cannot_be_hardened_says_why(
    trained: Path,
    data: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = copied(trained, tmp_path)
    (folder / "report.json").unlink()
    with pytest.raises(CheckpointError, match=r"is not finished; `unbounded train .* --resume`"):
        harden_run(folder, quiet=True)
    plain = replace(tiny(batches=1), model=ModelConfig(memory={"name": "none"}, readout_size=None))
    folder = train_run(plain, root=tmp_path, quiet=True).folder
    with pytest.raises(ConfigError, match="memory 'none' decides nothing"):
        harden_run(folder, quiet=True)
    folder = train_run(small("text", {"memory": "queue"}, data), root=tmp_path, quiet=True).folder
    with pytest.raises(ConfigError, match="task 'text' is never right or wrong"):
        harden_run(folder, quiet=True)
    folder = copied(trained, tmp_path / "other")
    with pytest.raises(ConfigError, match=r"rounding.tolerance: .*got -1"):
        harden_run(folder, {"tolerance": -1.0}, quiet=True)


def test_the_usual_hardening_leaves_what_is_said() -> None:
    config = with_hardening(tiny(learning_rate=0.01))
    assert config.rounding == RoundingConfig(
        batches=600, every=15, settle=5, validation_count=100, learning_rate=0.001
    )
    config = tiny_streams()
    config.training.learning_rate = 0.5
    config.rounding = RoundingConfig(factor=2.0, batches=7)
    assert with_hardening(config).rounding == RoundingConfig(
        batches=7, every=1, factor=2.0, learning_rate=0.1
    )


def test_a_run_of_before_has_the_same_name() -> None:
    from unbounded.experiments.config.schema import config_hash, from_dict, to_dict

    config = RunConfig()
    config.rounding = RoundingConfig(batches=60, every=1)
    old = to_dict(config)
    for name in ("settle", "tolerance", "validation_count"):
        del old["rounding"][name]
    assert config_hash(from_dict(old)) == config_hash(config)
