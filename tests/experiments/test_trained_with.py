"""What a run notes of the threads and kernels that trained it."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.experiments.test_tail_runs import TAIL
from tests.experiments.tiny import tiny
from unbounded.evaluation.provenance import kernels
from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.config.steady import steady
from unbounded.experiments.run import kept_config
from unbounded.experiments.run.run import RunResult, train_run
from unbounded.training import Interrupted
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.loop import Phase
from unbounded.training.state import LoopState


def cut_by_kernels(
    config: RunConfig, root: Path, after: Mapping[int, str], keep_at: Collection[int] = ()
) -> RunResult:
    """Train a run that is cut after some batches, and from then on has other kernels."""
    step = Phase._step
    with pytest.MonkeyPatch.context() as patch:

        def interrupting(phase: Phase, state: LoopState) -> int:
            if state.batch in after and state.last_used()["kernels"] != after[state.batch]:
                os.kill(os.getpid(), signal.SIGTERM)
            return step(phase, state)

        patch.setattr(Phase, "_step", interrupting)
        for name in after.values():
            with pytest.raises(Interrupted):
                train_run(config, root=root, resume=True)
            patch.setattr(kept_config, "kernels", lambda device, name=name: name)
        return train_run(config, root=root, resume=True, keep_at=keep_at)


def test_other_threads_or_kernels_are_warned_of_and_reported(
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
    said = capsys.readouterr().out
    assert f"this run began with kernels {kernels()} and goes on with others" in said
    # To write the report of a run that has ended is not to train it.
    (result.folder / "report.json").unlink()
    again = train_run(config, root=tmp_path / "cut", resume=True, quiet=True)
    assert again.report["trained_with"] == result.report["trained_with"]


@pytest.mark.parametrize(
    ("began", "parts"),
    [
        ("others", [(0, "others"), (3, "more")]),
        ("more", None),
        (None, [(0, None), (3, "more")]),
    ],
)
def test_of_a_checkpoint_that_notes_no_kernels_the_config_says_them(
    tmp_path: Path, began: str | None, parts: list[tuple[int, str | None]] | None
) -> None:
    """As checkpoints were before 2026-11-27."""
    save = Checkpoints.save

    def forgetting(checkpoints: Checkpoints, state: LoopState) -> Path:
        if state.batch == 3:
            state.trained_with = []
            path = tmp_path / run_name(config) / "config.yaml"
            text, old = path.read_text(), f"kernels: {kernels()}"
            assert old in text
            path.write_text(text.replace(old, "" if began is None else f"kernels: {began}"))
        return save(checkpoints, state)

    config = tiny(batches=6, accuracy_every=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save", forgetting)
        report = cut_by_kernels(config, tmp_path, {2: "more"}).report
    if parts is None:
        assert "trained_with" not in report
    else:
        assert report["trained_with"] == [
            {"after_batch": batch, "threads": 1, "kernels": name} for batch, name in parts
        ]


def test_a_run_begins_as_one_that_ended_with_its_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it began with, which the report says."""
    config = tiny(**TAIL | {"checkpoint_every": 5})
    other = steady(config)
    assert other is not None
    cut_by_kernels(other, tmp_path, {5: "others"}, keep_at=[25])
    # Of kernels that it no longer had there a run does not begin with it.
    alone = train_run(config, root=tmp_path, share=True)
    assert "its kernels was 'others' and is" in "".join(capsys.readouterr())
    assert "began_as" not in alone.report
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_config, "kernels", lambda device: "others")
        shared = train_run(config, root=tmp_path, share=True, overwrite=True).report
    assert "batch 25" in shared["began_as"]
    assert shared["trained_with"] == [
        {"after_batch": 0, "threads": 1, "kernels": kernels()},
        {"after_batch": 6, "threads": 1, "kernels": "others"},
    ]
