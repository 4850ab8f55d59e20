"""A run that begins as another one did: of a rate that falls at the end, that whose rate stays.

Up to where the rate begins to fall, the two train the same: same seed, same batches, same weights.
So the one can take up the other's checkpoint of that batch instead of training it all once more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unbounded.errors import CheckpointError
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.config.steady import last_steady, steady
from unbounded.experiments.run.folder import folder_of, read_config, read_report
from unbounded.experiments.run.kept_config import began_with
from unbounded.training.checkpoint import Checkpoints, checkpoint_folders, verify
from unbounded.training.metrics_log import MetricsLog, first_lines
from unbounded.training.state import LoopState
from unbounded.training.stopping import FAILED
from unbounded.training.tail import tail_of


@dataclass(frozen=True)
class Beginning:
    """Where a run may begin instead of at its first batch.

    Fields:
        folder: of the run that it begins as.
        own: its own folder.
        last: the batch at which its own rate falls at the latest.
        budget: its own batches.
    """

    folder: Path
    own: Path
    last: int
    budget: int

    def take(
        self,
        checkpoints: Checkpoints,
        log: MetricsLog,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        used: Mapping[str, Any] | None,
        tell: Callable[[str], None],
    ) -> LoopState | None:
        """Load the other run's checkpoint of the batch at which the rate begins to fall.

        Args:
            checkpoints, log, schedule: of the run that begins.
            used: its threads and kernels, with which the other must have come to the checkpoint.
            tell: given one line for each checkpoint that is passed over, and why.
        Returns:
            The state to go on from; None, and nothing is changed, where that run has no such
            checkpoint, or it is of no use, which is told.
        Raises:
            CheckpointError: it is whole and yet does not fit.
            StorageError: the disk refused.
        """
        tail = tail_of(schedule)
        for folder in checkpoint_folders(self.folder / "checkpoints"):
            try:
                manifest = verify(folder)
                before = LoopState.from_json(json.loads((folder / "loop.json").read_text()))
                self._check(manifest, before.last_used(), used or {})
                reason = self._reason(before)
                if tail is None or reason is None:
                    continue
                lines = first_lines(self.folder / "metrics.jsonl", before.metrics_lines)
                source = self._source(before.batch)
            except (OSError, ValueError, CheckpointError) as error:
                tell(f"this run does not begin with {folder}: {error}")
                continue
            try:
                state = checkpoints.load_from(folder, self.folder.name)
            except CheckpointError as error:
                # Part of it may be in the model by now.
                raise CheckpointError(f"{error}. Without {folder} this run trains alone") from error
            log.begin_with(lines)
            state.note_beginning(began_with(self.folder))
            state.finished, state.began_as = None, source
            tail.start(state.batch, reason)
            return state
        return None

    def _source(self, batch: int) -> str:
        report = read_report(self.folder)
        commit = "and is not finished" if report is None else f"commit {report['commit']}"
        return f"{self.folder.name}, batch {batch}, {commit}"

    def _check(
        self, manifest: Mapping[str, Any], last: Mapping[str, Any] | None, used: Mapping[str, Any]
    ) -> None:
        """Raise if that checkpoint is not what this run would have come to.

        Kernels may be others before those that trained last: what the state notes of them goes into
        the report. A checkpoint of before notes none; there, those that its run began with count.
        """
        if manifest["run"] != self.folder.name or manifest["processes"] != 1:
            raise CheckpointError("it is of another run, or of several processes")
        before, own = read_config(self.folder) or {}, read_config(self.own) or {}
        for part in ("machine", "used"):
            there, here = (
                dict(said) if isinstance(said := data.get(part), dict) else {}
                for data in (before, own)
            )
            if part == "used":
                there |= last or {}
                here |= used
            for name in there | here:
                if there.get(name) != here.get(name):
                    raise CheckpointError(
                        f"its {name} was {there.get(name)!r} and is {here.get(name)!r} here"
                    )

    def _reason(self, state: LoopState) -> str | None:
        """Why the rate would begin to fall at that state; None where it would not."""
        if state.actions_due or state.batch > self.last:
            return None
        if state.finished is not None:
            return None if state.finished.startswith(FAILED) else state.finished
        return f"budget: {self.budget} batches are done" if state.batch == self.last else None


def beginning_of(config: RunConfig, root: Path) -> Beginning | None:
    """What a run may begin as, of those under `root`; None of a run whose rate stays."""
    other, last = steady(config), last_steady(config)
    if other is None or last is None:
        return None
    return Beginning(folder_of(root, other), folder_of(root, config), last, config.training.batches)
