"""A study whose runs take a fifth of a second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unbounded.experiments.config import plain_yaml
from unbounded.experiments.trials.study_file import StudyFile, make_study_file, study_trials
from unbounded.experiments.trials.trial import Trial
from unbounded.studies.study_folder import StudyFolder

TINY: dict[str, Any] = {
    "about": "tiny runs",
    "preset": "anbn",
    "base": {
        "task": {"sequences": 3, "train_lengths": "2:4", "test_lengths": "2:5"},
        "training": {
            "batch_size": 1, "validation_count": 2, "accuracy_every": 0, "report_every": 1,
            "checkpoint_every": 100, "stop": "budget",
        },
        "hardening": "none",
        "evaluation": {"count": 1, "lengths": ["2:3"]},
        "hardware": {"device": "cpu"},
    },
    "budget": {"batches": 2},
    "axes": {"model.hidden_size": [4, 5]},
    "seeds": "0:2",
}  # fmt: skip


def tiny(**changes: Any) -> dict[str, Any]:
    """The content of the file of a tiny study; None removes a key."""
    data = {**TINY, **changes}
    return {key: value for key, value in data.items() if value is not None}


def begun(path: Path, data: Mapping[str, Any] | None = None) -> tuple[StudyFile, StudyFolder]:
    """A study in its folder, with its plan and no run."""
    study = make_study_file("tiny", TINY if data is None else data)
    folder = StudyFolder(path)
    folder.begin(study, study_trials(study))
    return study, folder


def trials(data: Mapping[str, Any] | None = None) -> tuple[Trial, ...]:
    return study_trials(make_study_file("tiny", TINY if data is None else data))


def write(path: Path, data: Mapping[str, Any] | None = None) -> Path:
    path.write_text(plain_yaml.dump(dict(TINY if data is None else data)), encoding="utf-8")
    return path
