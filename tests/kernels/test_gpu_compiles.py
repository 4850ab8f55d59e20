"""The CUDA kernels compile for absent devices. The interpreter accepts code that Triton's
compiler refuses, and has no limits of registers and shared memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux alone")

CASES = [
    pytest.param("gru", "queue", "float32", 16, 90, marks=pytest.mark.slow),
    ("lstm", "deque", "float32", 10, 90),
    pytest.param("gru", "stack", "float32", 64, 80, marks=pytest.mark.slow),
    pytest.param("elman_tanh", "queue", "float64", 64, 80, marks=pytest.mark.slow),
    pytest.param("lstm", "stack", "float32", 64, 86, marks=pytest.mark.slow),
    pytest.param("lstm", "stack", "float64", 20, 90, marks=pytest.mark.slow),
    pytest.param("lstm", "queue", "float32", 64, 120, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("controller", "memory", "dtype", "batch", "capability"), CASES)
def test_both_programs(
    controller: str, memory: str, dtype: str, batch: int, capability: int, tmp_path: Path
) -> None:
    program = str(Path(__file__).with_name("_compiling.py"))
    arguments = [controller, memory, dtype, str(batch), str(capability)]
    done = subprocess.run(
        [sys.executable, program, *arguments],
        env={**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 2
