"""Configs, models and reports as version 0.1 wrote them, read as the present ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.tiny import assert_same_run, tiny
from unbounded.errors import CheckpointError
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import from_dict, to_dict
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.folder import load_report
from unbounded.experiments.run.run import train_run
from unbounded.experiments.tables.published import PAPERS
from unbounded.experiments.tables.results import read_results
from unbounded.experiments.trials.tiers import load_tier
from unbounded.models import MemoryModel
from unbounded.old_models import upgraded_keywords

RESULTS = Path(__file__).resolve().parents[2] / "results"
REPORTS = sorted(RESULTS.glob("*/reports/*.json"))
FLAT = {
    "memory": "queue",
    "controller": "lstm",
    "hidden_size": 8,
    "memory_width": 4,
    "embedding_size": 4,
    "layers": 1,
    "skip_input": True,
    "learn_initial_state": True,
    "pop_bias": -1.0,
    "initialization": "glorot",
    "output_initialization": "normal",
    "symbol_initialization": "as_model",
    "recurrent": False,
    "count": 10,
    "depth": 2,
    "noop": False,
    "capacity": None,
    "overflow": "error",
    "context_size": None,
}


def old_folder(folder: Path) -> Path:
    """A run folder as version 0.1 would have left it, under the name that it had then."""
    path = folder / "config.yaml"
    data = plain_yaml.load(path.read_text())
    data["model"] = FLAT
    del data["training"]["symbols"]
    path.write_text(plain_yaml.dump(data))
    keywords = {name: FLAT[name] for name in list(FLAT)[:11]}
    keywords |= {"input_vocabulary": 8, "output_vocabulary": 4, "backend": "auto"}
    (folder / "model" / "config.json").write_text(json.dumps(keywords))
    return folder.rename(folder.with_name("copy-queue-lstm-01234567-seed3"))


def test_an_old_run_is_evaluated_and_taken_up_again(tmp_path: Path) -> None:
    whole = train_run(tiny(), root=tmp_path / "whole", quiet=True).folder
    run = train_run(tiny(), root=tmp_path, quiet=True)
    # Its checkpoints say which run they are of: that is the folder's name.
    for manifest in run.folder.glob("checkpoints/*/manifest.json"):
        data = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**data, "run": "copy-queue-lstm-01234567-seed3"}))
    (run.folder / "report.json").unlink()
    folder = old_folder(run.folder)
    assert evaluate_run(folder)["rows"] == run.report["rows"]
    again = train_run(tiny(), root=tmp_path, quiet=True, resume=True)
    assert again.folder == folder
    assert_same_run(whole, folder)
    assert run_name(tiny()) not in {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("old", "first", "parameters"),
    [
        ({"memory": "queue"}, "controller.weight_ih", {"initial_controller.0", "readout.bias"}),
        ({"memory": "none", "layers": 2}, "layers.0.weight_ih_l0", {"initial"}),
    ],
)
def test_weights_keep_their_names(old: dict[str, Any], first: str, parameters: set[str]) -> None:
    keywords = {"input_vocabulary": 8, "output_vocabulary": 4, "hidden_size": 6, **old}
    model = MemoryModel(**upgraded_keywords(keywords))
    names = {name.removeprefix("sequence.layer.") for name in model.state_dict()}
    assert {first, *parameters, "sequence.embedding.weight", "sequence.output.bias"} <= names


def test_every_committed_report_is_one_of_its_tier() -> None:
    assert len(REPORTS) > 150
    for paper in PAPERS:
        own = {path.name for path in REPORTS if path.parents[1].name == paper}
        results = read_results(load_tier(paper, "laptop").trials, RESULTS / paper)
        assert {run.report for run in results.values()} == own


def test_an_upgraded_report_says_what_its_rows_are() -> None:
    for path in REPORTS:
        report = load_report(path)
        roles = [row["role"] for row in report["rows"]]
        assert "test" in roles
        assert {"merit", "success", "scoring", "train_lengths"} <= set(report)
        config = from_dict(report["config"])
        assert from_dict(to_dict(config)) == config
        if report["scoring"] == "sequences":
            asked = len(config.evaluation.lengths or "123")
            far = len(config.evaluation.multiples or ())
            assert roles == ["train", "test", "longer"][:asked] + far * ["longer"]


def test_a_report_of_another_form_is_named(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"format": "unbounded-report", "config": {"task": "copy"}}))
    with pytest.raises(CheckpointError, match=r"report.json is no report of a run"):
        load_report(path)
