"""Runs on streams and texts: their files, and interruptions without effect on the result."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.experiments.tiny import assert_same_run, gradual, interrupted, metrics
from tests.experiments.tiny_streams import tiny_streams, tiny_text
from tests.metrics import read_metrics
from unbounded.errors import CheckpointError, StorageError
from unbounded.evaluation import table
from unbounded.experiments.config.check import build_task
from unbounded.experiments.config.identity import run_name, with_id
from unbounded.experiments.config.schema import RunConfig, from_dict
from unbounded.experiments.run import run
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.models import MemoryModel
from unbounded.tasks import Batch, LengthRange, chunks
from unbounded.training.checkpoint import checkpoint_folders
from unbounded.training.chunk_update import ChunkUpdate

Make = Callable[..., RunConfig]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(params=["streams", "dropout", "text"])
def make(request: pytest.FixtureRequest, corpus: Path) -> Make:
    if request.param == "streams":
        return tiny_streams
    if request.param == "dropout":
        return dropping
    return lambda **training: tiny_text(corpus, **training)


def dropping(**training: Any) -> RunConfig:
    """A run whose steps draw numbers."""
    config = tiny_streams(**training)
    config.model.dropout = 0.3
    return config


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_run(tiny_streams(), root=tmp_path_factory.mktemp("whole"), quiet=True).folder


def test_a_stream_run_leaves_a_complete_folder(finished: Path) -> None:
    assert finished.name.startswith("anbn-superposition_stack-elman-")
    report = json.loads((finished / "report.json").read_text())
    assert report["metric_set"] == "lengths"
    assert report["selection_metric"] == report["validation"]["determined_nats_per_token"]
    (row,) = report["rows"]
    # Of six sequences in two streams: both streams of one n are the same, and count once.
    assert (row["lengths"], row["lengths_scored"], row["count"]) == ("2:6", 5, 5 * 3)
    assert [each["n"] for each in row["per_n"]] == [2, 3, 4, 5, 6]
    assert row["percent_of_lengths"] == 100 * row["lengths_mastered"] / 5
    assert sum(each["correct"] for each in row["per_n"]) == row["correct"]
    validation = report["validation"]
    assert validation["lengths"] == "2:4"
    assert validation["count"] >= 12
    assert 0 < validation["determined_nats_per_token"] < 2
    assert from_dict(report["config"]) == with_id(tiny_streams())
    kinds = [(line["kind"], line["batch"]) for line in metrics(finished)]
    assert kinds == [(kind, batch) for batch in (1, 2, 3, 4) for kind in ("train", "plateau")]
    text = table(report)
    assert "mastered n" in text
    assert "not mastered of 2:6: " in text


def test_the_saved_model_is_the_best_of_validation(tmp_path: Path) -> None:
    """At this rate the model only gets worse: the backup of the first check is saved."""
    config = tiny_streams(learning_rate=5.0, plateau={"hold": 0}, batches=2)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    looks = [line for line in metrics(folder) if line["kind"] == "plateau"]
    assert [line["better"] for line in looks] == [True, False]
    report = json.loads((folder / "report.json").read_text())
    best = looks[0]["validation_nats_per_token"]
    assert report["validation"]["nats_per_token"] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("call", [0, pytest.param(4, marks=pytest.mark.slow), 9])
def test_a_signal_in_the_middle_of_a_batch_changes_nothing(
    make: Make, call: int, tmp_path: Path
) -> None:
    """The carried state is in the checkpoint, so a resumed run continues with the next chunk."""
    config = make()
    full = train_run(config, root=tmp_path / "whole", quiet=True).folder
    steps: list[int] = []
    with interrupted(ChunkUpdate, "_step", lambda n, *_: not steps.append(n) and n == call):
        train_run(config, root=tmp_path, quiet=True)
    assert len(steps) == call + 1  # the stop comes after the chunk, not after the batch
    folder = tmp_path / run_name(config)
    newest = checkpoint_folders(folder / "checkpoints")[0]
    kept = torch.load(newest / "hooks.pt", weights_only=True)
    if call == 0:
        assert kept["carried"]["chunk"] == 1
        assert kept["carried"]["tensors"][0].shape[:2] == (1, 3)  # h_n of one layer
    train_run(config, root=tmp_path, quiet=True, resume=True)
    assert_same_run(full, folder)


def test_a_killed_run_resumes_between_two_batches(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make(checkpoint_every=1)
    full = train_run(config, root=tmp_path / "whole", quiet=True).folder
    step, count = ChunkUpdate._step, 0

    def die(trainer: ChunkUpdate, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == 12:
            raise RuntimeError("killed")
        return step(trainer, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ChunkUpdate, "_step", die)
        with pytest.raises(RuntimeError, match="killed"):
            train_run(config, root=tmp_path, quiet=True)
    train_run(config, root=tmp_path, quiet=True, resume=True)
    assert_same_run(full, tmp_path / run_name(config))


def test_a_text_run_reports_perplexity(corpus: Path, tmp_path: Path) -> None:
    folder = train_run(tiny_text(corpus), root=tmp_path, quiet=True).folder
    report = json.loads((folder / "report.json").read_text())
    (row,) = report["rows"]
    assert row["split"] == "test"
    assert row["tokens"] == 4 + 5 + 4 + 5 + 4
    assert 1 < row["perplexity"] < 20
    assert "perplexity" in table(report)
    again = evaluate_run(folder)
    assert again["rows"] == report["rows"]
    validation = evaluate_run(folder, split="validation")["rows"][0]
    assert validation["perplexity"] == pytest.approx(report["validation"]["perplexity"])


def test_evaluating_streams_again_gives_the_same_and_any_lengths(finished: Path) -> None:
    report = json.loads((finished / "report.json").read_text())
    assert evaluate_run(finished)["rows"] == report["rows"]
    sampled = evaluate_run(finished, lengths=[LengthRange(2, 4), LengthRange(10, 40)], every=10)
    assert [[each["n"] for each in row["per_n"]] for row in sampled["rows"]] == [
        [2],
        [10, 20, 30, 40],
    ]
    lines = table(sampled).splitlines()
    assert lines[3].split()[0] == "2"
    assert lines[4].strip().startswith("10:40 by 10 ")
    assert "of 2:4 n = 2 alone was scored: the step from n to n is 10" in lines
    one = evaluate_run(finished, lengths=[LengthRange(3, 3)], every=10)
    assert "alone" not in table(one)
    # n letters of each kind are 2 n symbols: 80 for the longest, in training it was 12.
    assert [row["capacity_given"] for row in sampled["rows"]] == [None, 80]
    notice = "to score these, the memory was given room for 80 cells, more than its own capacity"
    assert lines.count(notice) == 1
    assert "given room" not in table(one)
    model, source = RunFolder(finished).load_model()
    assert isinstance(model, MemoryModel)
    assert source == "model"
    # Longer sequences had more room than the 12 cells of training, and those are back.
    assert model.sequence.layer.memory.capacity == 12


def test_hardening_follows_training_and_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_streams(batches=2)
    config.hardening = gradual(batches=6, every=2, factor=3.0, tolerance=1.0, most_removals=3)
    heard: dict[str, list[dict[str, Any]]] = {"": [], "hardening/": []}
    afters: dict[str, int] = {}

    def listener(self: run.Trackers, prefix: str = "", after: int = 0) -> Any:
        afters[prefix] = after
        return heard[prefix].append

    monkeypatch.setattr(run.Trackers, "listener", listener)
    # After two batches no output is correct, and the hardened model would not be accepted.
    monkeypatch.setattr("unbounded.experiments.run.hardening_phase.mean_share", lambda shares: 1.0)
    folder = train_run(config, root=tmp_path, quiet=True, log_with=["tensorboard"]).folder
    for name, where in (("", folder), ("hardening/", folder / "hardening")):
        assert heard[name] == read_metrics(where / "metrics.jsonl")
    assert "hardening" in {line["kind"] for line in heard["hardening/"]}
    assert afters == {"": 0, "hardening/": 2}
    report = json.loads((folder / "report.json").read_text())
    hardened = report["hardened"]
    assert hardened["batches"] <= 6
    assert [row["lengths"] for row in hardened["rows"]] == ["2:6"]
    assert "determined_nats_per_token" in hardened["validation"]
    hardware, source = RunFolder(folder).load_model(hardened=True)
    assert source == "model-hardened"
    assert hardware.sequence.layer.memory.count == 2 - len(hardened["removed"])
    weights = [
        each
        for each in hardware.sequence.layer.layers[0].heads.weight.flatten()
        if each.abs() > 1e6
    ]
    assert weights  # the actions are saturated
    assert evaluate_run(folder, hardened=True)["rows"] == hardened["rows"]
    assert evaluate_run(folder)["rows"] == report["rows"]
    discrete = evaluate_run(folder, discretize=True)
    assert discrete["discretized"]
    assert (folder / "traces" / "hardened.json").exists()
    looks = metrics(folder / "hardening")
    assert [line["batch"] for line in looks if line["kind"] == "hardening"][:2] == [1, 2]
    page = Path(__file__).resolve().parents[2] / "docs" / "formats.md"
    described = set(re.findall(r"`([\w-]+)/?`", page.read_text(encoding="utf-8")))
    written = fields(report) | fields(discrete)
    written |= {each.name for each in folder.iterdir() if each.is_dir()}
    for line in [*looks, *metrics(folder)]:
        written |= fields(line) | {line["kind"]}
    assert written - described == set()
    assert {each.name for each in folder.iterdir() if each.is_dir()} <= described | {
        "model-hardened"
    }


def fields(data: Any) -> set[str]:
    """The names of all fields of a report, but for those inside its config."""
    if isinstance(data, list):
        return set().union(*map(fields, data))
    if not isinstance(data, dict):
        return set()
    data = dict(data)
    if "memory_use" in data:  # its names are ranges of lengths
        data["memory_use"] = list(data["memory_use"].values())
    inner = [fields(value) for name, value in data.items() if name not in ("config", "versions")]
    return set(data).union(*inner)


def test_a_hardening_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    config = tiny_streams(batches=1)
    config.hardening = gradual(batches=1, remove=False, tolerance=1)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    (folder / "report.json").unlink()
    shutil.rmtree(folder / "hardening")
    (folder / "hardening").write_text("a file")
    with pytest.raises(StorageError, match=r"making folder .*hardening failed"):
        train_run(config, root=tmp_path, quiet=True, resume=True)


def test_an_interrupted_hardening_ends_the_same(tmp_path: Path) -> None:
    config = tiny_streams(batches=1)
    config.hardening = gradual(batches=4, every=2, factor=3.0, remove=False, tolerance=1)
    full = train_run(config, root=tmp_path / "whole", quiet=True).folder
    one = len(list(chunks(tiny_batch(config), 7)))
    with interrupted(ChunkUpdate, "_step", lambda n, *_: n == one + 4):
        train_run(config, root=tmp_path, quiet=True)
    folder = tmp_path / run_name(config)
    assert checkpoint_folders(folder / "hardening" / "checkpoints")
    assert not (folder / "report.json").exists()
    train_run(config, root=tmp_path, quiet=True, resume=True)
    assert metrics(full / "hardening") == metrics(folder / "hardening")
    files = [each / "model-hardened" / "model.safetensors" for each in (full, folder)]
    left, right = (load_file(file) for file in files)
    assert all(torch.equal(left[name], right[name]) for name in left)


def tiny_batch(config: RunConfig) -> Batch:
    lengths = LengthRange(2, 2)
    return build_task(config).batch(config.seed, "train", 0, config.training.batch_size, lengths)


def test_evaluating_a_missing_hardened_model_names_the_command(finished: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"has no hardened model; `unbounded harden .*` makes one"
    ):
        evaluate_run(finished, hardened=True)
