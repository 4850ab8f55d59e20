"""Without compiled kernels there is nothing to test here; `unbounded doctor` says why."""

from __future__ import annotations

import pytest

from unbounded.kernels import available


def pytest_collection_modifyitems(items):
    if available().ok:
        return
    for item in items:
        if "tests/kernels/" in item.path.as_posix():
            item.add_marker(pytest.mark.skip(reason=available().reason))
