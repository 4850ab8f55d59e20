"""A fixture for folders whose tests train runs but do not test figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from unbounded.experiments.run import run as run_module


@pytest.fixture(autouse=True, scope="module")
def no_pictures() -> Iterator[None]:
    """Draw no figures of runs: figures take longer than the runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "draw_run", lambda folder: [])
        yield
