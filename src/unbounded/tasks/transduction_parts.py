"""Build a transduction from its parts, and report the errors of all parts together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks.lengths import LengthRange
from unbounded.tasks.transduction import PairSource, TransductionTask

Lengths: TypeAlias = LengthRange | str | tuple[int, int]


def transduction(
    name: str,
    pairs: Callable[[], PairSource],
    train_lengths: Lengths,
    test_lengths: Lengths,
    layout: str = "pairs",
) -> TransductionTask:
    """Build a transduction from its parts; collect all errors.

    Args:
        name: the name it is listed under.
        pairs: constructs the source of the pairs.
        train_lengths, test_lengths: of the splits, in any form of a range.
        layout: "pairs" or "answer".
    Raises:
        ConfigError: options are out of range; all errors together.
    """
    errors: list[str] = []
    components: dict[str, Any] = {}
    for part, build in (
        ("pairs", pairs),
        ("train_lengths", lambda: LengthRange.of(train_lengths)),
        ("test_lengths", lambda: LengthRange.of(test_lengths)),
    ):
        try:
            components[part] = build()
        except ConfigError as error:
            prefix = "" if part == "pairs" else f"{part}: "
            errors += [prefix + message for message in error.errors]
        except ChoiceError as error:
            errors.append(str(error))
    if not errors:
        source: PairSource = components["pairs"]
        for part in ("train_lengths", "test_lengths"):
            errors += [f"{part}: {message}" for message in source.range_errors(components[part])]
    if errors:
        raise ConfigError(errors)
    return TransductionTask(name, **components, layout=layout)
