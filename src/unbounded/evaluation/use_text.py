"""The use of a memory in a report as text, for the screen and for tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

#: A head of more numbers is not shown on the screen.
_SHOWN = 4


def use_lines(report: Mapping[str, Any]) -> list[str]:
    """A report's memory use as lines for the screen; none where it has none."""
    lines = {lengths: use_text(report, lengths) for lengths in report.get("memory_use") or {}}
    return [f"memory at {lengths}, validation: {text}" for lengths, text in lines.items() if text]


def use_text(report: Mapping[str, Any], lengths: str) -> str:
    """A report's memory use at some lengths; empty where it has none.

    A head of many numbers, such as the actions of ten stacks, is only in the report.
    """
    phases = (report.get("memory_use") or {}).get(lengths, {})
    parts = []
    # For a stream or for labels every step is scored, and no step only reads.
    answer = "answering" if "unscored" in phases else "at every step"
    for phase, key in (("reading", "unscored"), (answer, "scored")):
        heads = filter(None, (_shown(*head) for head in phases.get(key, {}).items()))
        text = ", ".join(heads)
        parts += [f"{phase} {text}"] if text else []
    return "; ".join(parts)


def _shown(name: str, mean: Any) -> str:
    numbers = list(_numbers(mean))
    if len(numbers) > _SHOWN:
        return ""
    return f"{name} {' '.join(f'{number:.2f}' for number in numbers)}"


def _numbers(mean: Any) -> Iterator[float]:
    """The numbers of nested lists, in order; null is NaN, which JSON lacks.

    Raises:
        TypeError, ValueError: an item is no number, in a damaged report.
    """
    if isinstance(mean, list):
        for item in mean:
            yield from _numbers(item)
    else:
        yield math.nan if mean is None else float(mean)
