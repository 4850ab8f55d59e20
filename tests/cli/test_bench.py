"""`unbounded bench`, with tiny sizes; the measured times are not tested."""

from __future__ import annotations

import json

import pytest

from unbounded.cli import main
from unbounded.errors import BackendError
from unbounded.experiments.bench import measuring
from unbounded.experiments.bench.cases import Case, make_memory, suite
from unbounded.experiments.bench.measuring import measure
from unbounded.kernels import available

SMALL = "--steps 4 --batch 2 --input 3 --hidden 8 --width 4 --output 3 --threads 1 --repeats 2"

needs_kernels = pytest.mark.skipif(not available().ok, reason=available().reason)


@needs_kernels
def test_prints_ratios_and_writes_json(tmp_path, capsys):
    out = tmp_path / "bench.json"
    assert main(["bench", *SMALL.split(), "--memory", "deque", "--out", str(out)]) == 0
    assert "fused/torch" in capsys.readouterr().out
    data = json.loads(out.read_text())
    (result,) = data["measurements"]
    assert set(result["median_ms"]) >= {"fused", "torch", "reference"}
    assert result["ratios"]["reference/fused"] > 0
    assert result["parity_error"] < 1e-4
    assert data["commit"] is None or len(data["commit"]) >= 40
    assert main(["bench", *SMALL.split(), "--out", str(out)]) == 2  # needs --overwrite
    assert "exists" in capsys.readouterr().err


@needs_kernels
@pytest.mark.parametrize("memory", ["superposition_stack", "superposition_list"])
def test_superposition_memories_are_measured(memory, capsys):
    command = ["bench", *SMALL.split(), "--memory", memory, "--controller", "elman"]
    assert main(command) == 0
    assert f"{memory}-elman" in capsys.readouterr().out


@needs_kernels
def test_a_tape_has_128_vectors_of_the_given_width(capsys):
    assert main(["bench", *SMALL.split(), "--memory", "turing_tape"]) == 0
    assert "turing_tape-lstm" in capsys.readouterr().out
    tape = make_memory(suite("tape")[0])
    assert (tape.slots, tape.width) == (128, 20)


@needs_kernels
def test_a_case_that_fails_parity_is_not_timed(monkeypatch):
    monkeypatch.setattr(measuring, "parity_error", lambda case: float("nan"))
    monkeypatch.setattr(measuring, "interleave", lambda *_: pytest.fail("timed all the same"))
    with pytest.raises(BackendError, match="wrong results are not timed"):
        measure(Case(steps=2, batch=1), 1, lambda message: None)


def test_all_errors_are_reported_together(capsys):
    given = ["bench", "--memory", "dequ", "--steps", "0", "--repeats", "0", "--batch", "x"]
    assert main([*given, "--suite", "papr"]) == 2
    message = capsys.readouterr().err
    assert "6 errors" in message
    assert "batch: " in message
    assert "repeats: expected at least 1, got 0" in message
    assert "suite and memory, steps exclude each other" in message
    assert "suite: unknown suite 'papr'. Did you mean 'paper'" in message
    assert "memory: unknown memory 'dequ'. Did you mean 'deque'" in message
    assert "steps: expected an integer >= 1" in message


def test_operations_of_the_papers_size():
    """The forward and backward pass needs about 5.2 GFLOP."""
    assert Case().gflop == pytest.approx(5.2, abs=0.1)
    assert {case.controller for case in suite("all")} == {"lstm", "gru", "elman"}


def test_a_missing_output_folder_is_reported_before_measuring(capsys, tmp_path):
    assert main(["bench", "--out", str(tmp_path / "none" / "bench.json")]) == 2
    assert f"out: there is no folder {tmp_path / 'none'}; make it first" in capsys.readouterr().err
    assert main(["bench", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith(f"out: {tmp_path} is a folder; name a file in it\n")
