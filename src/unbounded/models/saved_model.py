"""Load a saved model from config.json and model.safetensors, which are checked first.

`MemoryModel.from_pretrained`, the commands and checkpoints share this loader.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from unbounded.checks import check_device
from unbounded.errors import CheckpointError, ConfigError, DeviceError
from unbounded.files import file_digest, refusal
from unbounded.options import options_of


class _Undrawn(TorchFunctionMode):
    """Skips normal draws, which would load torch's compiler on the meta device."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is nn.init.normal_ or func is Tensor.normal_:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def without_weights() -> Iterator[None]:
    """Within the block, create modules without allocating or drawing their weights."""
    with torch.device("meta"), _Undrawn():
        yield


M = TypeVar("M", bound=nn.Module)

#: The file with the weights' SHA-256, which detects a changed bit.
DIGEST: Final = "model.safetensors.sha256"
#: Prefix of weights that several processes saved.
_WRAPPER: Final = "module."
#: The dtypes of weights, as safetensors names them; other dtypes are rejected.
_FLOATING: Final = ("F16", "BF16", "F32", "F64")
#: Largest number of weights that a message names.
_NAMED: Final = 3


def read_model(
    folder: Path,
    build: Callable[..., M],
    changes: Mapping[str, Any] | None = None,
    map_location: str | torch.device = "cpu",
) -> M:
    """Load the model in a folder, in evaluation mode.

    Args:
        folder: has config.json and model.safetensors.
        build: creates the model from the keywords of config.json.
        changes: keywords that replace those in config.json.
        map_location: device of the weights.
    Returns:
        a model with finite weights. They are checked against their SHA-256 if the folder has it
        (model.safetensors.sha256, or a checkpoint's manifest.json).
    Raises:
        CheckpointError: a file is missing, unreadable, truncated, damaged or foreign, or from a
            newer version; the message names it.
        ConfigError: a component named in config.json has errors, or is custom and was not
            imported; each line names the file.
        DeviceError: `map_location` is not a device, or not usable here.
        ChoiceError, ConfigError, ShapeError: `changes` are invalid while config.json is valid.
    """
    device = _usable_device(map_location)
    _check_weights(folder)
    path = folder / "config.json"
    saved = _keywords(path, build)
    keywords = {**saved, **(changes or {})}
    sizes = _sizes(path, build, keywords, saved)
    path = folder / "model.safetensors"
    try:
        _check_header(sizes, path)
        model = build(**keywords)
        weights = load_file(path)
        model.load_state_dict({key.removeprefix(_WRAPPER): weights[key] for key in weights})
    except CheckpointError:
        raise
    except Exception as error:
        raise _unusable(path, error) from error
    bad = [name for name, weight in model.state_dict().items() if not _is_finite(weight)]
    if bad:
        raise CheckpointError(
            f"{path} holds numbers that are NaN or infinite, in {', '.join(bad[:3])}: the training "
            "diverged, or the file is damaged"
        )
    return model.to(device).eval()


def _usable_device(map_location: object) -> torch.device:
    """Return the device, after checking it by creating a tensor."""
    device = check_device(map_location, "map_location")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0].removesuffix(".")
        raise DeviceError(
            f"map_location: expected a device that can be used here, got {str(device)!r}: {reason}."
        ) from error
    return device


def _sizes(
    path: Path,
    build: Callable[..., nn.Module],
    keywords: Mapping[str, Any],
    saved: Mapping[str, Any],
) -> dict[str, torch.Tensor]:
    """The weights of a model on the meta device.

    Args:
        path: of config.json.
        build: creates the model.
        keywords: arguments of `build`. saved: those of config.json, to attribute an error.
    """
    try:
        with without_weights():
            return build(**keywords).state_dict()
    except Exception as error:
        if keywords != saved:
            _sizes(path, build, saved, saved)  # raises an error if the file itself is invalid
            raise
        if isinstance(error, ConfigError):
            raise ConfigError(f"{path}: {error}" for error in error.errors) from error
        raise _unusable(path, error) from error


def _is_finite(weight: torch.Tensor) -> bool:
    return not weight.is_floating_point() or bool(weight.isfinite().all())


def _keywords(path: Path, build: Callable[..., Any]) -> dict[str, Any]:
    """Return the keywords in config.json."""
    try:
        keywords = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(keywords, dict):
            raise TypeError(f"expected an object of keywords, got {type(keywords).__name__}")
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
    reason = str(error).split("\n", 1)[0].removesuffix(".")
    advice = "save the model again, or copy or download its files again"
    if _is_of_run(path.parent):
        advice = f"move the folder {path.parent.name} away to continue with another checkpoint"
    return CheckpointError(
        f"{path} cannot be used: {type(error).__name__}: {reason}. If it is damaged, {advice}"
    )


def _is_of_run(folder: Path) -> bool:
    """Whether a model's folder belongs to a run, which may have other models."""
    above = folder.absolute().parents[:2]
    return any((parent / "config.yaml").is_file() for parent in above) or (
        folder.absolute().parent.name == "checkpoints"
    )


def _check_weights(folder: Path) -> None:
    """Check a model's weights against their SHA-256, if the folder contains it."""
    path = folder / "model.safetensors"
    if not path.is_file():
        raise CheckpointError(f"{path} is missing or is not a file")
    try:
        digest_file, expected = _saved_digest(folder)
        if expected is None or file_digest(path) == expected:
            return
    except OSError as error:
        raise CheckpointError(refusal(error)) from error
    raise CheckpointError(
        f"{path} is damaged: its SHA-256 is not that in {digest_file.name}. {_cure(folder)}"
    )


def _saved_digest(folder: Path) -> tuple[Path, str | None]:
    """Return the file with the SHA-256 of the weights, and the SHA-256; None without a file."""
    digest_file, manifest = folder / DIGEST, folder / "manifest.json"
    try:
        if digest_file.is_file():
            return digest_file, digest_file.read_text(encoding="ascii").split()[0]
        if manifest.is_file():
            files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
            return manifest, str(files["model.safetensors"]["sha256"])
    except (ValueError, LookupError, TypeError) as error:
        name = digest_file if digest_file.is_file() else manifest
        raise CheckpointError(f"{name} is not the SHA-256 of a file") from error
    return digest_file, None


def _check_header(sizes: Mapping[str, torch.Tensor], path: Path) -> None:
    """Check the header of the weights against config.json, before memory is allocated."""
    errors: list[str] = []
    with safe_open(str(path), framework="pt") as file:
        names = sorted(file.keys())
        times = Counter(name.removeprefix(_WRAPPER) for name in names)
        twice = [name for name, count in times.items() if count > 1]
        errors += [f"it has both {name} and {_WRAPPER}{name}" for name in twice[:_NAMED]]
        for name in names:
            weight, part = name.removeprefix(_WRAPPER), file.get_slice(name)
            shape, kind = list(part.get_shape()), part.get_dtype()
            expected = list(sizes[weight].shape) if weight in sizes else "is not there"
            if shape != expected:
                errors.append(
                    f"{weight} has shape {shape} in the file, and {expected} by config.json"
                )
            elif sizes[weight].is_floating_point() and kind not in _FLOATING:
                errors.append(
                    f"{weight} has dtype {kind} in it, expected one of {', '.join(_FLOATING)}"
                )
    missing = [name for name in sizes if name not in times]
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        errors.append(
            f"it lacks {', '.join(missing[:_NAMED])}{more}, which the model of config.json has"
        )
    if errors:
        more = f"; and {len(errors) - _NAMED} more errors" if len(errors) > _NAMED else ""
        raise CheckpointError(f"{path} cannot be used: {'; '.join(errors[:_NAMED])}{more}")


def _cure(folder: Path) -> str:
    if not _is_of_run(folder):
        return "Save the model again, or copy or download its files again."
    if folder.name == "model-hardened":
        return f"`unbounded harden {folder.parent} --overwrite` recreates it."
    return (
        "A checkpoint of the run may be intact: move the folder away, and `unbounded evaluate` "
        "takes the newest."
    )
