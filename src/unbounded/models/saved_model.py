"""A saved model read back: config.json and model.safetensors, checked before anything is used.

The one loader, of `MemoryModel.from_pretrained`, of the commands and of checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from unbounded.errors import CheckpointError, ConfigError
from unbounded.files import file_digest, refusal
from unbounded.models.without_weights import without_weights
from unbounded.old_models import upgraded_keywords
from unbounded.options import options_of

M = TypeVar("M", bound=nn.Module)

#: Beside the weights: their SHA-256, by which a changed bit is found.
DIGEST: Final = "model.safetensors.sha256"
#: What several processes save stands inside.
_WRAPPER: Final = "module."


def read_model(
    folder: Path,
    build: Callable[..., M],
    changes: Mapping[str, Any] | None = None,
    map_location: str | torch.device = "cpu",
) -> M:
    """The model of a folder, in evaluation mode.

    Args:
        folder: has config.json and model.safetensors.
        build: makes the model from the keywords of config.json.
        changes: keywords that take the place of those in config.json.
        map_location: device of the weights.
    Returns:
        a model whose weights are finite, and those that were saved where their SHA-256 is beside
        them (model.safetensors.sha256, or a checkpoint's manifest.json).
    Raises:
        CheckpointError: a file is missing, unreadable, truncated, damaged or foreign, or from a
            newer version; the message names it.
        ConfigError: a component of the user's own was not imported.
    """
    _check_weights(folder)
    keywords = {**_keywords(folder / "config.json", build), **(changes or {})}
    path = folder / "config.json"
    try:
        with without_weights():
            sizes = build(**keywords).state_dict()
        path = folder / "model.safetensors"
        _check_shapes(sizes, path)
        model = build(**keywords)
        weights = load_file(path)
        model.load_state_dict({key.removeprefix(_WRAPPER): weights[key] for key in weights})
    except (CheckpointError, ConfigError):
        raise  # a component of the user's own that was not imported, for one: the message says it
    except Exception as error:
        raise _unusable(path, error) from error
    bad = [name for name, weight in model.state_dict().items() if not _is_finite(weight)]
    if bad:
        raise CheckpointError(
            f"{path} holds numbers that are NaN or infinite, in {', '.join(bad[:3])}: the training "
            "went bad, or the file is damaged"
        )
    return model.to(map_location).eval()


def _is_finite(weight: torch.Tensor) -> bool:
    return not weight.is_floating_point() or bool(weight.isfinite().all())


def _keywords(path: Path, build: Callable[..., Any]) -> dict[str, Any]:
    """The keywords of config.json, also as older versions wrote them."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError(f"expected an object of keywords, got {type(found).__name__}")
        keywords = upgraded_keywords(found)
    except OSError as error:
        raise CheckpointError(refusal(error)) from error
    except Exception as error:
        raise _unusable(path, error) from error
    known = options_of(build)
    unknown = [name for name in keywords if name not in known]
    if unknown:
        raise CheckpointError(
            f"{path} cannot be used: it has {', '.join(map(repr, unknown))}, which this version "
            "does not know. Install the version that saved it, or take the lines out if they are "
            "no option of the model"
        )
    missing = [n for n, option in known.items() if option.is_required and n not in keywords]
    if missing:
        raise CheckpointError(
            f"{path} cannot be used: it has no {', '.join(missing)}. It is not the config.json of "
            "a model of this library"
        )
    return keywords


def _unusable(path: Path, error: Exception) -> CheckpointError:
    if isinstance(error, OSError) and error.filename is not None:
        return CheckpointError(refusal(error))
    reason = str(error).split("\n", 1)[0]
    return CheckpointError(
        f"{path} cannot be used: {type(error).__name__}: {reason}. If it is damaged, move the "
        f"folder {path.parent.name} away, to go on with another checkpoint of the run"
    )


def _check_weights(folder: Path) -> None:
    """Check that a model's weights are those that were saved, where that is kept beside them."""
    path = folder / "model.safetensors"
    if not path.is_file():
        raise CheckpointError(f"{path} is missing or is no file")
    try:
        beside, wanted = _digest_beside(folder)
        if wanted is None or file_digest(path) == wanted:
            return
    except OSError as error:
        raise CheckpointError(refusal(error)) from error
    raise CheckpointError(
        f"{path} is damaged: its SHA-256 is not that in {beside.name}. {_cure(folder)}"
    )


def _digest_beside(folder: Path) -> tuple[Path, str | None]:
    """The file that has the SHA-256 of the weights, and it; None where there is no such file."""
    beside, manifest = folder / DIGEST, folder / "manifest.json"
    try:
        if beside.is_file():
            return beside, beside.read_text(encoding="ascii").split()[0]
        if manifest.is_file():
            files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
            return manifest, str(files["model.safetensors"]["sha256"])
    except (ValueError, LookupError, TypeError) as error:
        name = beside if beside.is_file() else manifest
        raise CheckpointError(f"{name} is not the SHA-256 of a file") from error
    return beside, None


def _check_shapes(sizes: Mapping[str, torch.Tensor], path: Path) -> None:
    """Check the sizes of config.json against the header of the weights, before memory is taken."""
    wanted = {name: list(weight.shape) for name, weight in sizes.items()}
    with safe_open(str(path), framework="pt") as file:
        for name in sorted(file.keys()):
            own, there = name.removeprefix(_WRAPPER), file.get_slice(name).get_shape()
            if wanted.get(own) != list(there):
                raise CheckpointError(
                    f"{path} cannot be used: {own} has shape {list(there)} in it, and "
                    f"{wanted.get(own, 'is not there')} by config.json"
                )


def _cure(folder: Path) -> str:
    if folder.name == "model-rounded":
        return f"`unbounded harden {folder.parent} --overwrite` makes it anew of the trained model."
    return (
        "A checkpoint of the run may be whole: move the folder away, and `unbounded evaluate` "
        "takes the newest."
    )
