"""Checks of single config values; each appends its errors to a list."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import Task


def check_number(
    found: list[str],
    name: str,
    value: float,
    least: float,
    most: float = math.inf,
    above: bool = False,
) -> None:
    """Check that a number is between `least`, which may be excluded, and `most`."""
    low = value > least if above else value >= least
    if not (low and value <= most and math.isfinite(value)):
        bound = f"above {least:g}" if above else f"at least {least:g}"
        if low and value > most:
            bound = f"at most {most if isinstance(most, int) else format(most, '.15g')}"
        found.append(f"{name}: expected a number {bound}, got {value!r}")


def check_choice(found: list[str], name: str, kind: str, given: str, valid: Iterable[str]) -> None:
    """Check that a name is among the valid ones."""
    names = list(valid)
    if given not in names:
        found.append(f"{name}: {ChoiceError(kind, given, names)}")


def check_builds(found: list[str], name: str, build: Callable[[], Any]) -> None:
    """Call a function that builds an object, and report its errors under the option's name."""
    try:
        build()
    except ConfigError as error:
        found += [f"{name}: {line}" for line in error.errors]
    except ChoiceError as error:
        found.append(f"{name}: {error}")


def check_task(found: list[str], build: Callable[[], Task]) -> Task | None:
    """Build a task, None on errors; errors of its corpus are reported under --data."""
    try:
        return build()
    except ConfigError as error:
        found += [
            f"{'--' if line.startswith('data: ') else 'task: '}{line}" for line in error.errors
        ]
    except ChoiceError as error:
        found.append(f"task: {error}")
    return None
