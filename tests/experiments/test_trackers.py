"""Trackers of accelerate: they receive all records, and a run does not depend on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from accelerate import tracking
from accelerate.tracking import GeneralTracker

from tests.experiments.tiny import assert_same_run, tiny
from tests.metrics import read_metrics
from unbounded.errors import ConfigError
from unbounded.experiments.run.run import train_run
from unbounded.experiments.run.trackers import tracker_errors, tracker_names


class Recorder(GeneralTracker):
    """Replaces Weights & Biases: keeps the records that it receives."""

    name = "wandb"
    requires_logging_directory = False
    received: dict[str, Any]
    failing_at = 10**9

    def __init__(self, run_name: str, **options: Any) -> None:
        super().__init__()
        type(self).received = {
            "project": run_name,
            "options": options,
            "log": [],
            "finished": False,
        }

    @property
    def tracker(self) -> None:
        return None

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.received["config"] = values

    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        if len(self.received["log"]) == self.failing_at:
            raise ConnectionError("no network\nat all")
        self.received["log"].append((step, values))

    def finish(self) -> None:
        self.received["finished"] = True


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> type[Recorder]:
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "wandb", Recorder)
    monkeypatch.setattr(tracking, "_available_trackers", [tracking.LoggerType.WANDB])
    monkeypatch.setattr(Recorder, "failing_at", 10**9)
    return Recorder


def test_a_tracker_gets_every_record_the_name_and_the_config(
    tmp_path: Path, recorder: type[Recorder]
) -> None:
    folder = train_run(tiny(batches=20), root=tmp_path, quiet=True, log_with=["wandb"]).folder
    records = read_metrics(folder / "metrics.jsonl")
    received = recorder.received
    assert received["project"] == "unbounded"
    assert received["options"] == {"name": folder.name}
    assert received["config"]["task.name"] == "copy"
    assert received["config"]["model.memory.name"] == "queue"
    assert all(isinstance(value, str | int | float) for value in received["config"].values())
    assert [step for step, _ in received["log"]] == [record["batch"] for record in records]
    (_, values), record = received["log"][0], records[0]
    assert record["kind"] == "train"
    assert values == {
        f"train/{name}": value for name, value in record.items() if name not in ("kind", "batch")
    }
    assert "train/gradient_norm" in values
    assert received["finished"]


def test_a_failing_tracker_does_not_stop_the_run(
    tmp_path: Path, recorder: type[Recorder], capsys: pytest.CaptureFixture[str]
) -> None:
    recorder.failing_at = 1
    config = tiny(batches=20)
    folder = train_run(config, root=tmp_path / "one", quiet=True, log_with=["wandb"]).folder
    output = capsys.readouterr().err
    assert output.count("warning: log_with: the trackers receive no more of this run") == 1
    assert "ConnectionError: no network)" in output
    assert_same_run(folder, train_run(config, root=tmp_path / "other", quiet=True).folder)


def test_names_and_their_errors(tmp_path: Path, recorder: type[Recorder]) -> None:
    assert tracker_names(" wandb, mlflow ,,wandb") == ("wandb", "mlflow")
    assert tracker_names(None) == ()
    assert tracker_errors(["wandb"]) == []
    assert tracker_errors(["mlflow", "wondb"]) == [
        "log_with: mlflow is not installed; pip install 'mlflow'",
        "log_with: unknown tracker 'wondb'; valid: "
        + ", ".join(sorted(tracking.LOGGER_TYPE_TO_CLASS)),
    ]
    with pytest.raises(ConfigError, match="log_with: mlflow is not installed"):
        train_run(tiny(), root=tmp_path, log_with=["mlflow"])
    assert not list(tmp_path.iterdir())
