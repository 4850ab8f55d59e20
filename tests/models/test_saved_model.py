"""What is read back of a saved model is what was saved, or an error that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbounded.errors import CheckpointError, ConfigError
from unbounded.experiments.run.folder import save_model
from unbounded.models import MemoryModel


def tiny() -> MemoryModel:
    torch.manual_seed(0)
    memory = {"name": "queue", "width": 3}
    return MemoryModel(inputs=5, outputs=4, memory=memory, hidden_size=4, embedding_size=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_model(tiny(), tmp_path / "model")
    return tmp_path / "model"


def changed_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / "config.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def flip(folder: Path) -> None:
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))


def poison(folder: Path) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    next(iter(weights.values())).view(-1)[0] = float("nan")
    save_file(weights, path)
    (folder / "model.safetensors.sha256").unlink()


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    (folder / "model.safetensors.sha256").unlink()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (flip, "model.safetensors is damaged: its SHA-256 is not that in model.safetensors.sha256"),
        (poison, "holds numbers that are NaN or infinite"),
        (cut, "model.safetensors cannot be used"),
        (lambda f: (f / "config.json").write_text('{"inputs": 5'), "config.json cannot be used"),
        (lambda f: (f / "config.json").write_text("[3]"), "expected an object of keywords"),
        (lambda f: (f / "config.json").write_bytes(b"\xff\xfe"), "config.json cannot be used"),
        (
            lambda f: changed_config(f, lambda data: data.update(new_gate=True)),
            "it has 'new_gate', which this version does not know. Install the version",
        ),
        (lambda f: changed_config(f, lambda data: data.pop("inputs")), "it has no inputs"),
        (
            lambda f: changed_config(f, lambda data: data.update(hidden_size=5)),
            "has shape .* in it, and .* by config.json",
        ),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
        (
            lambda f: (f / "model.safetensors.sha256").write_text(""),
            "model.safetensors.sha256 is not the SHA-256 of a file",
        ),
    ],
)
def test_python_checks_what_the_command_line_checks(
    folder: Path, harm: Callable[[Path], Any], message: str
) -> None:
    """Item 3: flipped bits, unknown keys and NaN loaded silently."""
    harm(folder)
    with pytest.raises(CheckpointError, match=message):
        MemoryModel.from_pretrained(folder)


def test_an_option_that_is_wrong_is_named(folder: Path) -> None:
    changed_config(folder, lambda data: data["memory"].update(width="3"))
    with pytest.raises(ConfigError, match="width: expected an integer, got '3'"):
        MemoryModel.from_pretrained(folder)


def test_options_take_the_place_of_saved_ones(folder: Path) -> None:
    model = MemoryModel.from_pretrained(folder, backend="reference", map_location="meta")
    assert model.config["backend"] == "reference"
    assert next(model.parameters()).is_meta
    assert not model.training
    with pytest.raises(ConfigError, match=r"the model has no option 'backnd'\. Did you mean"):
        MemoryModel.from_pretrained(folder, backnd="reference")


def test_a_checkpoint_is_checked_by_its_manifest(folder: Path) -> None:
    (folder / "model.safetensors.sha256").unlink()
    files = {"model.safetensors": {"bytes": 1, "sha256": "0" * 64}}
    (folder / "manifest.json").write_text(json.dumps({"files": files}))
    with pytest.raises(CheckpointError, match=r"damaged: its SHA-256 is not that in manifest.json"):
        MemoryModel.from_pretrained(folder)
