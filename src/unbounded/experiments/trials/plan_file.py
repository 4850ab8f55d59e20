"""The file of planned runs, with a line of JSON for each run. All workers of a study read it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from unbounded.errors import CheckpointError
from unbounded.experiments.config.identity import with_id
from unbounded.experiments.config.schema import from_dict, to_dict
from unbounded.experiments.trials.trial import Trial
from unbounded.files import json_text, read_text, write_text

#: Name of the file in a study's folder.
PLAN: Final = "plan.jsonl"
_FIELDS: Final = ("task", "model", "phase", "verify", "axes")


def write_plan(path: Path, trials: Iterable[Trial]) -> None:
    """Write a plan; if the file has the same plan, it is not changed.

    Raises:
        StorageError: the file cannot be written.
    """
    lines = [json_text(_line(trial)) + "\n" for trial in trials]
    text = "".join(lines)
    if not path.is_file() or read_text(path) != text:
        write_text(path, text)


def _line(trial: Trial) -> Mapping[str, Any]:
    own = {name: getattr(trial, name) for name in _FIELDS}
    return {"run": trial.name, **own, "config": to_dict(with_id(trial.config))}


def read_plan(path: Path) -> list[Trial]:
    """The trials of a plan.

    Raises:
        CheckpointError: the file is damaged.
        StorageError: the file cannot be read.
    """
    trials = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        try:
            data = json.loads(line)
            config = from_dict(data["config"])
            trials.append(Trial(config=config, **{name: data[name] for name in _FIELDS}))
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path}, line {number} is damaged: {error!r}. Delete the file; the study's "
                "command writes it again"
            ) from error
    return trials
