"""All builds that this processor can run, not only the best one; and long sequences."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from _cases import MEMORIES, assert_parity, make_case

from unbounded.kernels import available
from unbounded.kernels._library import INSTRUCTION_SETS, _folder, _runnable


@pytest.mark.skipif(not available().ok, reason="no compiled kernels")
@pytest.mark.parametrize(
    ("isa", "name", "cases"),
    [
        # In CI all of the recurrence's 900 cases run on the widest set, and with AVX2 those of the
        # memory with the most vector functions. Unrolls of drawn sizes run on the widest set too,
        # and some of them on the narrowest.
        ("baseline", "unroll", " and (over_blocks or single_row or limited)"),
        ("avx2", "recurrence", " and lie_access and not over_blocks"),
        ("baseline", "delta_rule", " and parity"),
        *(pytest.param(isa, "unroll", "", marks=pytest.mark.slow) for isa in INSTRUCTION_SETS),
        pytest.param("avx2", "recurrence", " and not over_blocks", marks=pytest.mark.slow),
        *(pytest.param(isa, "recurrence", "", marks=pytest.mark.slow) for isa in INSTRUCTION_SETS),
    ],
)
def test_parity_on_every_other_instruction_set(isa, name, cases):
    builds = {each: _folder() / f"libunbounded_{each}.so" for each in INSTRUCTION_SETS}
    if isa not in _runnable(builds["baseline"]) or not builds[isa].is_file():
        pytest.skip(f"this processor or this build has no {isa}")
    if os.environ.get("UNBOUNDED_ISA"):
        pytest.skip("an instruction set is forced already")
    if isa == available().instruction_set:
        pytest.skip(f"{isa} is the one in use: the files named here run on it by themselves")
    here = Path(__file__).parent
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
        str(here / f"test_{name}.py"), "-k", f"not opcheck and not compile{cases}",
    ]  # fmt: skip
    environment = {**os.environ, "UNBOUNDED_ISA": isa, "UNBOUNDED_REQUIRE_KERNELS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def run(code, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("UNBOUNDED_")}
    return subprocess.run(
        [sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


FIRST_USE = """
import torch, unbounded as ub
from unbounded.kernels import available
print(available().reason)
layer = ub.MemoryRNN(2, 3, ub.NeuralStack(4), backend="reference")
layer(torch.randn(2, 1, 2))
print("the reference works")
ub.MemoryRNN(2, 3, ub.NeuralStack(4))(torch.randn(2, 1, 2))
"""


@pytest.mark.parametrize(
    ("environment", "fragments"),
    [
        ({"UNBOUNDED_ISA": "avx51"}, ("UNBOUNDED_ISA", "avx51", "avx512")),
        (
            {"UNBOUNDED_KERNELS": "nowhere", "UNBOUNDED_REQUIRE_KERNELS": "1"},
            ("UNBOUNDED_REQUIRE_KERNELS", "compiler"),
        ),
    ],
)
def test_a_required_missing_kernel_is_an_error_at_first_use(environment, fragments):
    done = run(FIRST_USE, **environment)
    assert done.returncode != 0
    assert "the reference works" in done.stdout
    for fragment in fragments:
        assert fragment in done.stderr.splitlines()[-1]
    # `available` has the reason.
    assert fragments[1] in done.stdout


def test_a_missing_kernel_is_replaced_with_a_warning():
    done = run(FIRST_USE, UNBOUNDED_KERNELS="nowhere")
    assert done.returncode == 0, done.stderr
    assert "no compiled kernels" in done.stderr
    assert "set by UNBOUNDED_KERNELS" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["stack", "queue", "deque"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1500, 5000])
def test_parity_of_a_long_sequence(structure, steps, dtype):
    memory = MEMORIES[structure]
    case = make_case(memory, steps=steps, batch=2, hidden=8, inverse_temperature=8.0, dtype=dtype)
    assert_parity(case)
