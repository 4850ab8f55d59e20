from __future__ import annotations

import json

import pytest
import torch

from unbounded.cli import doctor
from unbounded.errors import ConfigError
from unbounded.kernels import available, gpu, has_tiles
from unbounded.memories import MEMORIES
from unbounded.rnn import parity


def diagnose(capsys, *arguments):
    code = doctor.run(arguments)
    return code, capsys.readouterr().out


def test_a_usable_installation(capsys):
    code, text = diagnose(capsys)
    assert code == 0
    assert text.endswith("\nusable\n")
    names = [line.split("  ")[0] for line in text.splitlines()]
    for name in (
        "unbounded",
        "python",
        *doctor.NEEDED,
        "tensorboard",
        "threads",
        "instruction set",
    ):
        assert name in names
    assert torch.__version__ in text
    assert "MiB free" in text


def test_the_same_as_json(capsys):
    code, text = diagnose(capsys, "--json")
    data = json.loads(text)
    assert code == 0
    assert data["usable"] is True
    found = {finding["name"]: finding for finding in data["findings"]}
    assert found["torch"]["value"] == torch.__version__
    assert ("parity, stack" in found) == available().ok
    if not available().ok:
        assert available().reason in found["kernels"]["value"]


def test_missing_packages_are_marked_and_fail(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "NEEDED", ("torch", "no-such-package-at-all"))
    code, text = diagnose(capsys)
    assert code == 1
    assert "missing: pip install no-such-package-at-all  <- FIX THIS" in text
    assert "not usable" in text


def test_a_full_disk_is_reported(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "ENOUGH_MB", 2**40)
    code, text = diagnose(capsys)
    assert code == 1
    assert "less than the 1099511627776 MiB that a run may need" in text


def test_required_kernels_that_are_missing_fail(capsys, monkeypatch):
    missing = available()._replace(ok=False, reason="made up")
    monkeypatch.setattr("unbounded.kernels.available", lambda: missing)
    monkeypatch.delenv("UNBOUNDED_REQUIRE_KERNELS", raising=False)
    assert diagnose(capsys)[0] == 0
    monkeypatch.setenv("UNBOUNDED_REQUIRE_KERNELS", "1")
    code, text = diagnose(capsys)
    assert code == 1
    assert "reference path is used: made up" in text


def test_bfloat16_tiles_are_reported(capsys):
    assert ("bfloat16 tiles" in diagnose(capsys)[1]) == has_tiles()


def test_kernels_that_disagree_fail(capsys, monkeypatch):
    there = available()._replace(ok=True, instruction_set="made up", threads=1)
    monkeypatch.setattr("unbounded.kernels.available", lambda: there)
    errors = {("deque", "cpu"): 0.5}
    monkeypatch.setattr(parity, "kernel_error", lambda *case: errors.get(case, 0.0))
    code, text = diagnose(capsys)
    assert code == 1
    assert "largest relative error 5.0e-01" in text
    assert text.count("FIX THIS") == 1


def test_cuda_kernels_are_checked_if_there_is_a_device(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(gpu, "why_not", lambda structure, device: None)
    monkeypatch.setattr(parity, "kernel_error", lambda memory, backend: 0.5 * (backend == "cuda"))
    found = doctor._kernels_for_cuda()
    assert [finding.name for finding in found] == [f"parity, {name}, cuda" for name in gpu.MEMORIES]
    assert not any(finding.usable for finding in found)
    monkeypatch.setattr(gpu, "why_not", lambda structure, device: "made up")
    (missing,) = doctor._kernels_for_cuda()
    assert "reference path is used: made up" in missing.value
    assert missing.usable


def test_parity_of_the_reference_with_itself():
    assert parity.kernel_error("stack", backend="reference") == 0.0
    assert parity.kernel_error("deque", backend="reference") == 0.0


@pytest.mark.skipif(not available().ok, reason="the kernels are not built")
@pytest.mark.parametrize("memory", [*MEMORIES])
def test_parity_of_the_kernels(memory):
    assert parity.kernel_error(memory) <= parity.TOLERANCE


def test_an_unknown_option(capsys):
    with pytest.raises(ConfigError, match=r"--jsn.*Did you mean '--json'"):
        doctor.run(["--jsn"])
