"""Every build that this processor can run, not only the best one; and long sequences."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from _cases import assert_parity, make_case

from unbounded.kernels import available
from unbounded.kernels._library import INSTRUCTION_SETS, runnable_instruction_sets


@pytest.mark.skipif(not available().ok, reason="no compiled kernels")
@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_parity_on_every_instruction_set(isa):
    if isa not in runnable_instruction_sets():
        pytest.skip(f"this processor or this build has no {isa}")
    if os.environ.get("UNBOUNDED_ISA"):
        pytest.skip("an instruction set is forced already")
    here = Path(__file__).parent
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        str(here / "test_recurrence.py"), str(here / "test_unroll.py"),
        str(here / "test_superposition.py"), str(here / "test_superposition_unroll.py"),
        "-k", "not opcheck and not compile",
    ]  # fmt: skip
    environment = {**os.environ, "UNBOUNDED_ISA": isa, "UNBOUNDED_REQUIRE_KERNELS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_an_unknown_instruction_set_is_named():
    code = "import unbounded.kernels as k; print(k.available().reason)"
    environment = {**os.environ, "UNBOUNDED_ISA": "avx1024"}
    environment.pop("UNBOUNDED_REQUIRE_KERNELS", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert "avx1024" in done.stdout
    environment["UNBOUNDED_REQUIRE_KERNELS"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "UNBOUNDED_REQUIRE_KERNELS" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["stack", "queue", "deque"])
def test_parity_of_a_long_sequence(structure):
    case = make_case(
        structure, steps=1500, batch=2, hidden=8, width=4, sharpness=8.0, dtype=torch.float64
    )
    assert_parity(case)
