"""The origin of a report: the commit, and the kernels of the device."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

import unbounded
from unbounded.evaluation.provenance import BUILT_FROM, commit, kernels, provenance
from unbounded.kernels import available, gpu


def git(folder: Path, *arguments: str) -> str:
    name = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    command = ["git", "-C", str(folder), *name, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, in a repository that does not track it."""
    folder = tmp_path / "unbounded"
    folder.mkdir()
    (folder / "__init__.py").touch()
    git(tmp_path, "init")
    (tmp_path / "other").touch()
    git(tmp_path, "add", "other")
    git(tmp_path, "commit", "-m", "other")
    monkeypatch.setattr(unbounded, "__file__", str(folder / "__init__.py"))
    return folder


def test_an_installed_package_has_the_commit_of_its_build(package: Path) -> None:
    assert commit() is None
    (package / BUILT_FROM).write_text("0123abc-dirty\n")
    assert commit() == "0123abc-dirty"
    (package / BUILT_FROM).write_text("\n")
    assert commit() is None


def test_a_working_copy_has_its_own_commit(package: Path) -> None:
    (package / BUILT_FROM).write_text("stale\n")
    git(package, "add", "__init__.py")
    git(package, "commit", "-m", "package")
    head = git(package, "rev-parse", "HEAD")
    assert commit() == head
    (package / "__init__.py").write_text("# changed")
    assert commit() == f"{head}-dirty"


@pytest.mark.parametrize("reason", [None, "no Triton"])
def test_the_kernels_are_those_of_the_device(
    reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The current device, number 1, has none here.
    monkeypatch.setattr(
        gpu, "why_not", lambda structure, device: reason if device == 0 else "too old"
    )
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    served = "none" if reason else "triton"
    hardware = provenance(torch.device("cuda", 0))["hardware"]
    assert (hardware["kernels"], hardware["accelerator"]) == (served, "a GPU")
    assert kernels(torch.device("cuda")) == "none"
    own = available().instruction_set if available().ok else "none"
    assert kernels() == kernels(torch.device("cpu")) == own
    assert "accelerator" not in provenance()["hardware"]
    assert kernels(torch.device("meta")) == "none"
