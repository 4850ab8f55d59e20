"""A finished study that the tests of reading share."""

from __future__ import annotations

import pytest

from tests.studies.tiny_study import begun, tiny
from unbounded.experiments.trials.study_file import StudyFile
from unbounded.experiments.trials.work import WorkOptions, work
from unbounded.studies import StudyFolder

Study = tuple[StudyFile, StudyFolder]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Two sizes with two memories and two seeds; nothing may be written into it."""
    path = tmp_path_factory.mktemp("study") / "tiny"
    axes = {"model.memory": ["superposition_stack", "none"], "model.hidden_size": [4, 5]}
    study, folder = begun(path, tiny(axes=axes))
    work(folder.trials(), folder.runs, WorkOptions())
    return study, folder
