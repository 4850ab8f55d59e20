"""Experiment trackers through accelerate: TensorBoard, Weights & Biases, MLflow, ..."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from accelerate import Accelerator
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers

from unbounded.training.metrics_log import Listener

#: The project name in every tracker.
PROJECT: Final = "unbounded"
_NOT_VALUES = {"kind", "batch", "lengths", "count"}
#: The keyword for a run's name, by tracker.
_RUN_NAMES: Final = {
    "wandb": "name",
    "mlflow": "run_name",
    "swanlab": "experiment_name",
    "clearml": "task_name",
    "trackio": "name",
}
_PACKAGES: Final = {"tensorboard": "unbounded[tensorboard]"}


def tracker_names(text: str | None) -> tuple[str, ...]:
    """Split a list such as `tensorboard,wandb` into names without duplicates."""
    return tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))


def tracker_errors(names: Sequence[str]) -> list[str]:
    """Errors for unknown or missing trackers, which accelerate would skip silently."""
    there = {str(name) for name in get_available_trackers()}
    errors = []
    for name in names:
        if name not in LOGGER_TYPE_TO_CLASS:
            valid = ", ".join(sorted(LOGGER_TYPE_TO_CLASS))
            errors.append(f"log_with: unknown tracker {name!r}; valid: {valid}")
        elif name not in there:
            package = _PACKAGES.get(name, name)
            errors.append(f"log_with: {name} is not installed; pip install '{package}'")
    return errors


class Trackers:
    """Sends the metrics of a run to an accelerator's trackers.

    Trackers open at the first record, so a run that cannot start leaves nothing behind. A failing
    tracker causes one warning and does not stop the run.

    Args:
        accelerator: created with `log_with`, in the process that writes.
        run_name: the run's name.
        config: the run's config as plain data.
    """

    def __init__(self, accelerator: Accelerator, run_name: str, config: Mapping[str, Any]) -> None:
        self._accelerator, self._run_name, self._config = accelerator, run_name, config
        self._is_open = self._has_failed = False

    def listener(self, prefix: str = "", after: int = 0) -> Listener:
        """Return a function that logs the numbers in each record of a phase.

        Args:
            prefix: prefix of the numbers' names.
            after: batches of the earlier phases; a tracker's steps must increase.
        """

        def listen(record: dict[str, Any]) -> None:
            kind = record["kind"]
            where = f"{kind}/{record['lengths'].replace(':', '-')}" if "lengths" in record else kind
            values = {
                f"{prefix}{where}/{name}": value
                for name, value in record.items()
                if name not in _NOT_VALUES
            }
            self._try(lambda: self._log(values, after + record["batch"]))

        return listen

    def close(self) -> None:
        """Let every tracker finish."""
        if self._is_open:
            for tracker in self._accelerator.trackers:
                self._try(tracker.finish)

    def _log(self, values: dict[str, Any], step: int) -> None:
        if not self._is_open:
            names = {name: {key: self._run_name} for name, key in _RUN_NAMES.items()}
            self._accelerator.init_trackers(PROJECT, dict(_flat("", self._config)), names)
            self._is_open = True
        self._accelerator.log(values, step=step)

    def _try(self, act: Callable[[], Any]) -> None:
        if self._has_failed:
            return
        try:
            act()
        except Exception as error:  # a failing tracker must not stop the run
            self._has_failed = True
            reason = str(error).split("\n", 1)[0]
            print(
                f"warning: log_with: the trackers receive no more of this run "
                f"({type(error).__name__}: {reason}); metrics.jsonl has all of it",
                file=sys.stderr,
            )


def _flat(prefix: str, data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return a config as dotted names and plain values, for trackers."""
    made: list[tuple[str, Any]] = []
    for name, value in data.items():
        if isinstance(value, Mapping):
            made += _flat(f"{prefix}{name}.", value)
        else:
            plain = isinstance(value, str | int | float) or value is None
            made.append((f"{prefix}{name}", value if plain else str(value)))
    return [(name, "null" if value is None else value) for name, value in made]
