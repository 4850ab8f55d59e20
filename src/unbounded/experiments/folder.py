"""The files of a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from unbounded.errors import CheckpointError
from unbounded.experiments import plain_yaml
from unbounded.training.files import write_text


def write_config(folder: Path, config: dict[str, Any], threads: int) -> None:
    """Write config.yaml, with the threads the run began with."""
    text = plain_yaml.dump({**config, "threads_used": threads})
    write_text(folder / "config.yaml", text)


def read_config(folder: Path) -> dict[str, Any] | None:
    """What config.yaml says; None when there is none.

    Raises:
        CheckpointError: the file is not such a config.
    """
    path = folder / "config.yaml"
    if not path.exists():
        return None
    try:
        data = plain_yaml.load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not YAML: {error}") from error
    if not isinstance(data, dict) or "task" not in data:
        raise CheckpointError(f"{path} is not the config of a run")
    return data
