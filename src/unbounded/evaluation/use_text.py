"""What a report says of the use of a memory, in words: for the screen and for tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

#: More numbers of a head than these are not shown on the screen.
_SHOWN = 4


def use_lines(report: Mapping[str, Any]) -> list[str]:
    """What a report says of it, as lines for the screen; none where it says nothing."""
    told = {lengths: use_text(report, lengths) for lengths in report.get("memory_use") or {}}
    return [f"memory at {lengths}, validation: {text}" for lengths, text in told.items() if text]


def use_text(report: Mapping[str, Any], lengths: str) -> str:
    """What a report says of it at some lengths; empty where it says nothing.

    A head of many numbers, such as the actions of ten stacks, is in the report alone.
    """
    phases = (report.get("memory_use") or {}).get(lengths, {})
    parts = []
    # Of a stream or of labels every step is scored, and nothing is only read.
    answer = "answering" if "unscored" in phases else "at every step"
    for phase, said in (("reading", "unscored"), (answer, "scored")):
        heads = filter(None, (_shown(*each) for each in phases.get(said, {}).items()))
        text = ", ".join(heads)
        parts += [f"{phase} {text}"] if text else []
    return "; ".join(parts)


def _shown(name: str, mean: Any) -> str:
    numbers = list(_numbers(mean))
    if len(numbers) > _SHOWN:
        return ""
    return f"{name} {' '.join(f'{number:.2f}' for number in numbers)}"


def _numbers(mean: Any) -> Iterator[float]:
    """The numbers of nested lists, in their order; null is NaN, which JSON has no number for.

    Raises:
        TypeError, ValueError: one is no number, in a damaged report.
    """
    if isinstance(mean, list):
        for each in mean:
            yield from _numbers(each)
    else:
        yield math.nan if mean is None else float(mean)
