"""Denormals are zero during a run, and not after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.experiments.tiny import tiny
from unbounded.experiments.run import evaluate, run
from unbounded.experiments.run.evaluate import evaluate_run
from unbounded.experiments.run.finished_run_hardening import harden_run
from unbounded.experiments.run.numerics import denormals_are_zero
from unbounded.experiments.run.run import train_run

if not torch.set_flush_denormal(False):
    pytest.skip("this processor keeps them", allow_module_level=True)


def kept(numbers: int = 8) -> bool:
    """Whether denormal products are kept; torch's threads share many products."""
    return bool((torch.full((numbers,), 1e-30) * 1e-10).all())


def test_denormals_are_zero_inside_the_context_and_restored_after_it() -> None:
    assert kept()
    with denormals_are_zero():
        assert not kept()
        # The norm of such a gradient is 0.
        assert float(torch.linalg.vector_norm(torch.full((64,), 1e-20))) == 0
        with denormals_are_zero():
            assert not kept()
        assert not kept()
    assert kept()
    with pytest.raises(KeyError), denormals_are_zero():
        raise KeyError
    assert kept()


def test_a_process_that_flushes_denormals_continues_to() -> None:
    torch.set_flush_denormal(True)
    try:
        with denormals_are_zero():
            assert not kept()
        assert not kept()
    finally:
        torch.set_flush_denormal(False)


def test_torchs_other_threads_keep_denormals() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with denormals_are_zero():
            kept(1_000_000)
        assert kept(1_000_000)
    finally:
        torch.set_num_threads(before)


def test_threads_started_by_a_run_keep_denormals(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    config = tiny(batches=4)
    config.hardware.threads = 3
    try:
        train_run(config, root=tmp_path, quiet=True)
        assert torch.get_num_threads() == 3
        assert kept(1_000_000)
    finally:
        torch.set_num_threads(before)


def test_training_hardening_and_evaluation_flush_denormals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(module: Any, name: str) -> None:
        real = getattr(module, name)

        def looking(*args: Any, **options: Any) -> Any:
            seen.append((name, kept()))
            return real(*args, **options)

        monkeypatch.setattr(module, name, looking)

    look(run, "run_phase")
    look(run, "scored")
    look(run, "harden_model")
    look(evaluate, "used_memory")
    folder = train_run(tiny(batches=4), root=tmp_path, quiet=True).folder
    assert {name for name, _ in seen} == {"run_phase", "scored", "used_memory"}
    harden_run(folder, {"batches": 4}, quiet=True)
    assert "harden_model" in {name for name, _ in seen}
    before = len(seen)
    evaluate_run(folder)
    assert [name for name, _ in seen[before:]] == ["used_memory"]
    assert not any(were_kept for _, were_kept in seen)
    assert kept()
