"""A run resumes with its own data, and is scored on the symbols that it has learned."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from tests.experiments.small import small
from tests.experiments.tiny import tiny
from tests.metrics import read_metrics
from unbounded.errors import CheckpointError
from unbounded.experiments.config.compose import composed, overlay, preset_of
from unbounded.experiments.config.schema import RunConfig, to_dict
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.finished_run_hardening import harden_run
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.experiments.trials.restarts import train_restarts
from unbounded.figures.curves import read_curves
from unbounded.tasks import make_task
from unbounded.tasks.registry import pairs
from unbounded.tasks.transduction import TransductionTask


def write(path: Path, symbols: str, *, backwards: bool = False) -> Path:
    words = [f"{a} {b} {c}" for a in symbols for b in symbols for c in symbols]
    lines = [f"{word}\t{word[::-1] if backwards else word}\n" for word in words]
    path.write_text("".join(lines))
    return path


def config(data: Path) -> RunConfig:
    plain = tiny(batches=10, checkpoint_every=5, accuracy_every=0)
    hardware = dataclasses.replace(plain.hardware, data=str(data))
    return dataclasses.replace(plain, task={"name": "pairs"}, hardware=hardware)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return write(tmp_path / "own.tsv", "abcd")


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_run_does_not_resume_with_other_data(
    tmp_path: Path, own: Path, is_finished: bool
) -> None:
    folder = train_run(config(own), root=tmp_path, quiet=True).folder
    if not is_finished:
        (folder / "report.json").unlink()
    before = (folder / "config.yaml").read_bytes()
    for symbols, backwards in (("abcd", True), ("wxyz", False)):
        other = config(write(tmp_path / "other.tsv", symbols, backwards=backwards))
        with pytest.raises(CheckpointError, match=r"other data than .*other.tsv: .*own.tsv"):
            train_run(other, root=tmp_path, resume=True, quiet=True)
    assert (folder / "config.yaml").read_bytes() == before
    moved = config(shutil.copy(own, tmp_path / "moved.tsv"))
    assert train_run(moved, root=tmp_path, resume=True, quiet=True).fresh is not is_finished
    retrained = train_run(other, root=tmp_path, overwrite=True, quiet=True)
    assert retrained.folder == folder
    assert RunFolder(folder).read_config()["hardware"]["data"] == other.hardware.data
    with pytest.raises(CheckpointError, match="other data"):
        train_run(config(own), root=tmp_path, resume=True, quiet=True)


@pytest.mark.parametrize("jobs", [1, 2])
def test_restarts_do_not_resume_with_other_data(tmp_path: Path, own: Path, jobs: int) -> None:
    train_restarts(config(own), 2, root=tmp_path, quiet=True)
    other = config(write(tmp_path / "other.tsv", "abcd", backwards=True))
    with pytest.raises(CheckpointError, match="other data"):
        train_restarts(other, 2, root=tmp_path, resume=True, jobs=jobs, quiet=True)


def test_the_data_is_compared_with_the_report_without_a_config(tmp_path: Path, own: Path) -> None:
    folder = train_run(config(own), root=tmp_path, quiet=True).folder
    (folder / "config.yaml").unlink()
    other = config(write(tmp_path / "other.tsv", "abcd", backwards=True))
    with pytest.raises(CheckpointError, match="other data"):
        train_run(other, root=tmp_path, resume=True, quiet=True)
    assert not (folder / "config.yaml").exists()
    assert not train_run(config(own), root=tmp_path, resume=True, quiet=True).fresh
    with pytest.raises(CheckpointError, match="other data"):
        train_run(other, root=tmp_path, resume=True, quiet=True)
    (folder / "config.yaml").write_text("no: [config")
    with pytest.raises(CheckpointError, match="other data"):
        train_run(other, root=tmp_path, resume=True, quiet=True)


class Maybe(TransductionTask):
    """A task that reads data where it is given, and has pairs of its own otherwise."""

    def __init__(self, data: str | None = None) -> None:
        vars(self).update(vars(make_task("copy", symbols=2) if data is None else pairs(data)))


def test_a_run_with_data_does_not_resume_without_data(tmp_path: Path, own: Path) -> None:
    given = dataclasses.replace(config(own), task=f"{__name__}.Maybe")
    train_run(given, root=tmp_path / "with", quiet=True)
    without = dataclasses.replace(given, hardware=tiny().hardware)
    with pytest.raises(CheckpointError, match=r"other data than none: with what was in .*own.tsv"):
        train_run(without, root=tmp_path / "with", resume=True, quiet=True)
    train_run(without, root=tmp_path / "without", quiet=True)
    with pytest.raises(CheckpointError, match=r"other data than .*own.tsv: with none"):
        train_run(given, root=tmp_path / "without", resume=True, quiet=True)


def test_a_run_is_scored_on_its_own_symbols(tmp_path: Path, own: Path) -> None:
    folder = train_run(config(own), root=tmp_path, quiet=True).folder
    for symbols in ("wxyz", "bcde"):
        other = write(tmp_path / "other.tsv", symbols)
        with pytest.raises(CheckpointError, match=r"other.tsv has other symbols than"):
            evaluate_run(folder, data=str(other))
        with pytest.raises(CheckpointError, match="other data"):
            harden_run(folder, data=str(other))
    new = write(tmp_path / "new.tsv", "abcd", backwards=True)
    assert evaluate_run(folder, data=str(new))["rows"]


def test_changed_data_is_scored_only_if_it_is_given_explicitly(tmp_path: Path, own: Path) -> None:
    folder = train_run(config(own), root=tmp_path, quiet=True).folder
    report = evaluate_run(folder)
    assert report["data_sha256"] == report["data_of_training_sha256"]
    write(own, "abcd", backwards=True)
    with pytest.raises(CheckpointError, match=r"has changed since .* was trained \(SHA-256"):
        evaluate_run(folder)
    changed = evaluate_run(folder, data=str(own))
    assert changed["data_of_training_sha256"] == report["data_sha256"] != changed["data_sha256"]


def test_runs_without_a_recorded_data_digest_resume(tmp_path: Path, own: Path) -> None:
    folder = train_run(config(own), root=tmp_path, quiet=True).folder
    path = folder / "config.yaml"
    text = path.read_text()
    path.write_text(text[: text.index("  symbols:")])
    other = config(write(tmp_path / "other.tsv", "abcd", backwards=True))
    assert not train_run(other, root=tmp_path, resume=True, quiet=True).fresh


def test_training_prints_the_notes_of_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"word{k}\tdrow{k}\n" for k in range(60)))
    config = small("pairs", {"memory": "queue"}, tmp_path)
    train_run(config, root=tmp_path / "runs")
    assert f"each source of {data} is one word" in "".join(capsys.readouterr())


def test_pairs_have_a_validation_curve_and_stop_on_it(tmp_path: Path) -> None:
    preset = preset_of("pairs")["training"]
    assert preset["plateau"]["name"] == "halve"
    rows = [f"{k:03d}\t{(k * 7919) % 997:03d}" for k in range(60)]  # nothing to be learned of these
    data = tmp_path / "pairs.tsv"
    data.write_text("\n".join(rows))
    changes = {
        "task": {"characters": True},
        "training": {
            "batches": 400,
            "batch_size": 8,
            "learning_rate": 0.02,
            "plateau": {"every": 10, "patience": 2, "hold": 20, "least": 0.006},
            "report_every": 10,
            "checkpoint_every": 100,
        },
    }
    data_config = small("pairs", {"memory": "queue"}, tmp_path)
    own = composed(overlay(to_dict(data_config), changes))
    result = train_run(own, root=tmp_path / "runs", quiet=True)
    assert result.report["stopped"].startswith("plateau: the learning rate is below")
    looks = [
        line for line in read_metrics(result.folder / "metrics.jsonl") if line["kind"] == "plateau"
    ]
    assert any(not look["better"] for look in looks)
    assert len(read_curves(result.folder).validation) == len(looks)


def test_reports_count_the_scored_sequences(tmp_path: Path) -> None:
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"a b{k % 3} c{k}\tx\n" for k in range(60)))
    training = {"batches": 60, "batch_size": 8, "learning_rate": 0.05}
    training |= {"plateau": "none", "stop": {"every": 5}, "validation_count": 200}
    changes = {"training": {**training, "accuracy_every": 5, "accuracy_count": 200}}
    own = composed(overlay(to_dict(small("pairs", {"memory": "queue"}, tmp_path)), changes))
    result = train_run(own, root=tmp_path / "runs", quiet=True)
    task = make_task("pairs", data=str(data))
    there = task.available("validation", task.test_lengths)
    assert result.report["stopped"].startswith(f"solved: {there} validation sequences of")
    lines = read_metrics(result.folder / "metrics.jsonl")
    counts = {line["count"] for line in lines if line["kind"] in ("validation", "accuracy")}
    assert counts <= {there, task.available("validation", task.train_lengths)}
