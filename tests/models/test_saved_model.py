"""A loaded model equals the saved one, or an error names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from unbounded.errors import CheckpointError, ChoiceError, ConfigError, DeviceError, DTypeError
from unbounded.experiments.run.run_folder import RunFolder
from unbounded.models import MemoryModel


def tiny() -> MemoryModel:
    torch.manual_seed(0)
    memory = {"name": "queue", "width": 3}
    return MemoryModel(inputs=5, outputs=4, memory=memory, hidden_size=4, embedding_size=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    RunFolder(tmp_path).save_model(tiny())
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
            "has shape .* in the file, and .* by config.json",
        ),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors is missing"),
        (
            lambda f: (f / "model.safetensors.sha256").write_text(""),
            "model.safetensors.sha256 is not the SHA-256 of a file",
        ),
    ],
)
def test_python_and_the_command_line_share_checks(
    folder: Path, harm: Callable[[Path], Any], message: str
) -> None:
    """Flipped bits, unknown keys and NaN were loaded silently."""
    harm(folder)
    with pytest.raises(CheckpointError, match=message):
        MemoryModel.from_pretrained(folder)


def test_an_invalid_option_is_named(folder: Path) -> None:
    changed_config(folder, lambda data: data["memory"].update(width="3"))
    with pytest.raises(ConfigError, match="width: expected an integer, got '3'"):
        MemoryModel.from_pretrained(folder)


def test_options_replace_saved_ones(folder: Path) -> None:
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


@pytest.mark.parametrize("path", [None, 3, b"model"])
def test_a_path_is_a_text_or_a_path(path: Any) -> None:
    message = "pretrained_model_name_or_path: expected a path, got .*Give a str or Path"
    with pytest.raises(DTypeError, match=message):
        MemoryModel.from_pretrained(path)


@pytest.mark.parametrize("device", ["gpu", None, {"cpu": "cpu"}, "xla", "cuda:99"])
def test_map_location_must_be_usable(folder: Path, device: Any) -> None:
    with pytest.raises(DeviceError, match="map_location: expected a device") as caught:
        MemoryModel.from_pretrained(folder, map_location=device)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda w: w.update({name: weight.int() for name, weight in w.items()}),
            "sequence.embedding.weight has dtype I32 in it, expected one of F16, BF16, F32, F64; "
            ".*; and 5 more errors",
        ),
        (
            lambda w: w.update({f"module.{name}": w[name] + 1 for name in sorted(w)[:1]}),
            "it has both sequence.embedding.weight and module.sequence.embedding.weight",
        ),
        (
            lambda w: w.pop("sequence.output.bias"),
            "it lacks sequence.output.bias, which the model of config.json has",
        ),
        (lambda w: [w.pop(name) for name in sorted(w)[1:]], "it lacks .*, .*, .* and 4 more, "),
        (lambda w: w.update(gate=torch.ones(2)), r"gate has shape \[2\] in the file, and is"),
    ],
)
def test_weights_that_disagree_with_the_config_are_named(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], Any], message: str
) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path)
    (folder / "model.safetensors.sha256").unlink()
    with pytest.raises(CheckpointError, match=f"model.safetensors cannot be used: .*{message}"):
        MemoryModel.from_pretrained(folder)


def test_weights_saved_by_several_processes_or_in_halves_are_read(folder: Path) -> None:
    path = folder / "model.safetensors"
    save_file({f"module.{name}": w.bfloat16() for name, w in load_file(path).items()}, path)
    (folder / "model.safetensors.sha256").unlink()
    weights = MemoryModel.from_pretrained(folder).state_dict()
    assert all(torch.equal(weights[name], w.bfloat16()) for name, w in tiny().state_dict().items())


def test_errors_in_the_config_name_its_file_and_errors_in_options_do_not(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"- memory 'queue' has no option 'wdth'"):
        MemoryModel.from_pretrained(folder, memory={"name": "queue", "wdth": 3})
    with pytest.raises(ChoiceError, match="unknown memory 'queu'"):
        MemoryModel.from_pretrained(folder, memory="queu")
    changed_config(folder, lambda data: data["memory"].update(wdth=3))
    message = r"- .*/model/config.json: memory 'queue' has no option 'wdth'. Did you mean 'width'"
    for options in ({}, {"backend": "reference"}):
        with pytest.raises(ConfigError, match=message):
            MemoryModel.from_pretrained(folder, **options)


def test_advice_about_other_checkpoints_is_for_runs_only(folder: Path) -> None:
    def message() -> str:
        with pytest.raises(CheckpointError) as caught:
            MemoryModel.from_pretrained(folder)
        return str(caught.value)

    flip(folder)
    assert message().endswith("Save the model again, or copy or download its files again.")
    (folder.parent / "config.yaml").write_text("task: copy")
    assert "A checkpoint of the run may be intact" in message()
    cut(folder)
    assert "move the folder model away to continue with another checkpoint" in message()
    (folder.parent / "config.yaml").unlink()
    assert message().endswith("save the model again, or copy or download its files again")
