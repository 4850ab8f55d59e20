"""Start a run with a cooldown from a checkpoint of the same run with a constant learning rate.

Until the cooldown starts, both runs have the same seed, batches and weights. The run can therefore
load the other run's checkpoint of that batch instead of training up to it.
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
from unbounded.training.checkpoint import Checkpoints, checkpoint_folders, verify
from unbounded.training.metrics_log import MetricsLog, first_lines
from unbounded.training.schedules import cooldown_of
from unbounded.training.state import LoopState
from unbounded.training.stopping import FAILED


@dataclass(frozen=True)
class Beginning:
    """The run from which another run may start.

    Fields:
        folder: folder of the run with the constant learning rate.
        own: folder of the run that starts.
        last: the latest batch at which its cooldown starts.
        budget: its budget in batches.
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
        """Load the other run's checkpoint of the batch at which the cooldown starts.

        Args:
            checkpoints, log, schedule: of the run that starts.
            used: its threads and kernels; the other run must have used the same.
            tell: called with one line for each skipped checkpoint, with the reason.
        Returns:
            The state to continue from. None, with nothing changed, if the other run has no usable
            checkpoint of that batch.
        Raises:
            CheckpointError: a complete checkpoint does not fit the model.
            StorageError: a file cannot be read or written.
        """
        cooldown = cooldown_of(schedule)
        for folder in checkpoint_folders(self.folder / "checkpoints"):
            try:
                manifest = verify(folder)
                before = LoopState.from_json(json.loads((folder / "loop.json").read_text()))
                self._check(manifest, before.last_used(), used or {})
                reason = self._reason(before)
                if cooldown is None or reason is None:
                    continue
                lines = first_lines(self.folder / "metrics.jsonl", before.metrics_lines)
                source = self._source(before.batch)
            except (OSError, ValueError, CheckpointError) as error:
                tell(f"this run does not start from {folder}: {error}")
                continue
            try:
                state = checkpoints.load_from(folder, self.folder.name)
            except CheckpointError as error:
                # The model may hold part of the checkpoint by now.
                raise CheckpointError(f"{error}. Without {folder} this run trains alone") from error
            log.begin_with(lines)
            state.finished, state.began_as = None, source
            cooldown.start(state.batch, reason)
            return state
        return None

    def _source(self, batch: int) -> str:
        report = read_report(self.folder)
        commit = "and is not finished" if report is None else f"commit {report['commit']}"
        return f"{self.folder.name}, batch {batch}, {commit}"

    def _check(
        self, manifest: Mapping[str, Any], last: Mapping[str, Any] | None, used: Mapping[str, Any]
    ) -> None:
        """Raise if this run would not have reached the same checkpoint.

        Only the last kernels must agree; the report lists earlier ones from the state. An older
        checkpoint lists none; then the kernels at the start of its run count.
        """
        if manifest["run"] != self.folder.name or manifest["processes"] != 1:
            raise CheckpointError("it belongs to another run, or to several processes")
        before, own = read_config(self.folder) or {}, read_config(self.own) or {}
        for part in ("hardware", "used"):
            there, here = (
                dict(section) if isinstance(section := data.get(part), dict) else {}
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
        """The reason for a cooldown to start at that state; None if it would not start."""
        if state.actions_due or state.batch > self.last:
            return None
        if state.finished is not None:
            return None if state.finished.startswith(FAILED) else state.finished
        return f"budget: {self.budget} batches are done" if state.batch == self.last else None


def beginning_of(config: RunConfig, root: Path) -> Beginning | None:
    """The run under `root` from which a run may start; None for a run without a cooldown."""
    other, last = steady(config), last_steady(config)
    if other is None or last is None:
        return None
    return Beginning(folder_of(root, other), folder_of(root, config), last, config.training.batches)
