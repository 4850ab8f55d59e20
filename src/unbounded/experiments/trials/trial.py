"""A trial, which is one run of a study, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from unbounded.experiments.config.identity import run_name
from unbounded.experiments.config.schema import RunConfig


@dataclass(frozen=True)
class Trial:
    """One run of a study.

    Fields:
        task, model: names as in the published table.
        config: the config; its hash and seed name the run folder.
        phase: "trained", or "hardened" for the run's hardened model.
        lacks_data: whether its corpus is missing, so it cannot be trained.
        verify: non-default options of its verification; None for no verification.
        axes: the values of a study's axes, by name; empty for a paper's table.
    """

    task: str
    model: str
    config: RunConfig
    phase: str = "trained"
    lacks_data: bool = False
    verify: Mapping[str, Any] | None = None
    axes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def cell(self) -> str:
        """The table cell that the trial belongs to, "task/model"."""
        return f"{self.task}/{self.model}"

    @cached_property
    def name(self) -> str:
        """The name of the run folder; two phases of one run share it."""
        return run_name(self.config)

    @property
    def key(self) -> str:
        """A key that is unique within a study."""
        return f"{self.cell}/{self.name}"


@dataclass(frozen=True)
class Outcome:
    """How a trial ended.

    Fields:
        trial: the trial.
        exit_code: 0 if the run is finished.
        log: file with its output.
        seconds: wall-clock time.
    """

    trial: Trial
    exit_code: int
    log: Path
    seconds: float

    @property
    def success_text(self) -> str:
        """A line about a run that finished."""
        return f"finished {self.trial.name} in {self.seconds / 60:.1f} minutes"
