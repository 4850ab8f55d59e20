"""Settings of all tests: the interpreter of Triton and the profile of hypothesis."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

# Before anything imports Triton, which looks at it once.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

#: The environment variable that selects a profile of hypothesis.
PROFILE_VARIABLE = "UNBOUNDED_HYPOTHESIS"
_DATABASE = Path(__file__).parent.parent / ".hypothesis" / "examples"

settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile(
    "explore",
    derandomize=False,
    database=DirectoryBasedExampleDatabase(_DATABASE),
    deadline=None,
    print_blob=True,
)


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile before test modules are imported: their settings start from it."""
    name = os.environ.get(PROFILE_VARIABLE) or "fixed"
    if name not in ("fixed", "explore"):
        raise pytest.UsageError(
            f"{PROFILE_VARIABLE}: expected 'fixed' or 'explore', got {name!r}. Unset it for the "
            "same examples in every run."
        )
    settings.load_profile(name)
