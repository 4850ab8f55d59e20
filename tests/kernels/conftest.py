"""Skips these tests without compiled kernels; `unbounded doctor` has the reason."""

from __future__ import annotations

import os

import pytest
import torch

from unbounded.kernels import available


def pytest_collection_modifyitems(items):
    if available().ok:
        return
    if os.environ.get("UNBOUNDED_REQUIRE_KERNELS", "0") not in ("", "0"):
        raise pytest.UsageError(f"UNBOUNDED_REQUIRE_KERNELS is set and {available().reason}")
    for item in items:
        if "tests/kernels/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=available().reason))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _nan_in_new_tensors():
    """Fill every uninitialised tensor with NaN (integers with their largest value)."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(before)
