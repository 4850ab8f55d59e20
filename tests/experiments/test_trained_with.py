"""A run records the threads and kernels of its training."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.experiments.tiny import tiny
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run import kept_config
from unbounded.experiments.run.run import RunResult, train_run
from unbounded.training import Interrupted
from unbounded.training.state import LoopState
from unbounded.training.trainer import Trainer


def cut_by_kernels(config: RunConfig, root: Path, after: Mapping[int, str]) -> RunResult:
    """Train a run that is interrupted after some batches and resumed with other kernels."""
    step = Trainer._train_batch
    with pytest.MonkeyPatch.context() as patch:

        def interrupting(phase: Trainer, state: LoopState) -> None:
            if state.batch in after and state.last_used()["kernels"] != after[state.batch]:
                os.kill(os.getpid(), signal.SIGTERM)
            step(phase, state)

        patch.setattr(Trainer, "_train_batch", interrupting)
        for name in after.values():
            with pytest.raises(Interrupted):
                train_run(config, root=root, resume=True)
            patch.setattr(kept_config, "kernels", lambda device, name=name: name)
        return train_run(config, root=root, resume=True)


def test_changed_threads_or_kernels_produce_a_warning_and_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tiny(batches=6, accuracy_every=0)
    assert "trained_with" not in train_run(config, root=tmp_path / "one", quiet=True).report
    result = cut_by_kernels(config, tmp_path / "cut", {2: "others", 4: "more"})
    # The batch in which the signal comes is trained to its end.
    parts = [(0, kernels()), (3, "others"), (5, "more")]
    assert result.report["trained_with"] == [
        {"after_batch": batch, "threads": 1, "kernels": name} for batch, name in parts
    ]
    output = capsys.readouterr().out
    assert f"this run started with kernels {kernels()} and continues with others" in output
    # Writing the report of an ended run is no training.
    (result.folder / "report.json").unlink()
    again = train_run(config, root=tmp_path / "cut", resume=True, quiet=True)
    assert again.report["trained_with"] == result.report["trained_with"]


def test_writing_a_report_does_not_count_as_training(tmp_path: Path) -> None:
    config = tiny(batches=2, accuracy_every=0)
    folder = train_run(config, root=tmp_path, quiet=True).folder
    (folder / "report.json").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_config, "kernels", lambda device: "others")
        report = train_run(config, root=tmp_path, quiet=True, resume=True).report
    assert report["trained_with"] == [{"after_batch": 0, "threads": 1, "kernels": kernels()}]


def test_threads_are_recorded_in_the_checkpoint(tmp_path: Path) -> None:
    config = tiny(batches=2, accuracy_every=0)
    config.hardware.threads = 2
    folder = train_run(config, root=tmp_path, quiet=True).folder
    loop = json.loads((folder / "checkpoints/batch-000000002/loop.json").read_text())
    assert loop["trained_with"] == [{"after_batch": 0, "threads": 2, "kernels": kernels()}]
