"""A transduction from its parts, with the faults of all of them together."""

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
    """Build the parts, collect the faults of all of them, put them together.

    Args:
        name: the name it is listed under.
        pairs: makes the source of the pairs.
        train_lengths, test_lengths: of the splits, in any form that a range has.
        layout: "pairs" or "answer".
    Raises:
        ConfigError: options are out of range; all faults together.
    """
    faults: list[str] = []
    built: dict[str, Any] = {}
    for part, build in (
        ("pairs", pairs),
        ("train_lengths", lambda: LengthRange.of(train_lengths)),
        ("test_lengths", lambda: LengthRange.of(test_lengths)),
    ):
        try:
            built[part] = build()
        except ConfigError as error:
            prefix = "" if part == "pairs" else f"{part}: "
            faults += [prefix + fault for fault in error.faults]
        except ChoiceError as error:
            faults.append(str(error))
    if not faults:
        source: PairSource = built["pairs"]
        for part in ("train_lengths", "test_lengths"):
            faults += [f"{part}: {fault}" for fault in source.range_faults(built[part])]
    if faults:
        raise ConfigError(faults)
    return TransductionTask(name, **built, layout=layout)
