"""Ranges of lengths with both ends included, for drawing examples and for evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from unbounded.errors import ConfigError, collected

#: Largest length in a text form of a range; longer sequences do not fit into memory.
LONGEST = 1_000_000

_FORM = re.compile(r"\s*(-?\d+)\s*:\s*(-?\d+)\s*")


@dataclass(frozen=True, order=True)
class LengthRange:
    """The lengths `minimum`, `minimum + 1`, ..., `maximum`, both ends included.

    Args:
        minimum: shortest length, at least 1.
        maximum: longest length, at least `minimum`.

    Raises:
        ConfigError: an end is not an integer or below 1, or the range is reversed.
    """

    minimum: int
    maximum: int

    def __post_init__(self) -> None:
        errors = [
            f"length range: the {end} must be an integer of at least 1, got {value!r}"
            for end, value in (("minimum", self.minimum), ("maximum", self.maximum))
            if isinstance(value, bool) or not isinstance(value, int) or value < 1
        ]
        if not errors and self.minimum > self.maximum:
            errors.append(
                f"length range: {self.minimum}:{self.maximum} is reversed; "
                f"write {self.maximum}:{self.minimum}"
            )
        if errors:
            raise ConfigError(errors)

    @classmethod
    def parse(cls, text: str) -> LengthRange:
        """Read "MINIMUM:MAXIMUM", as in "65:128".

        Raises:
            ConfigError: the text has another form, the range is not valid, or it exceeds LONGEST.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ConfigError(
                f"length range: expected MINIMUM:MAXIMUM such as 65:128, got {text!r}"
            )
        if int(match[2]) > LONGEST:
            raise ConfigError(
                f"length range: expected lengths of at most {LONGEST}, got {text.strip()}"
            )
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of(cls, value: Lengths) -> LengthRange:
        """Accept a range, its text form or a pair of ends.

        Raises:
            ConfigError: `value` is none of these, or the range is not valid.
        """
        if isinstance(value, LengthRange):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if isinstance(value, (tuple, list)) and len(value) == 2:
            return cls(*value)
        raise ConfigError(f"length range: expected MINIMUM:MAXIMUM such as 65:128, got {value!r}")

    def __contains__(self, length: object) -> bool:
        return isinstance(length, int) and self.minimum <= length <= self.maximum

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.minimum, self.maximum + 1))

    def __len__(self) -> int:
        return self.maximum - self.minimum + 1

    def __str__(self) -> str:
        return f"{self.minimum}:{self.maximum}"


#: A range in any form that `LengthRange.of` accepts.
Lengths: TypeAlias = LengthRange | str | tuple[int, int]


def named_ranges(*found: str, **texts: Lengths) -> tuple[LengthRange, ...]:
    """Check length ranges given by the names of a task's options, and return them in order.

    Args:
        found: errors of the task's other options, which are raised together with errors of ranges.
        texts: each range, by the name of its option.
    Raises:
        ConfigError: errors were found, or a range is not valid; all errors, each with its name.
    """
    errors = [*found]
    ranges: list[LengthRange] = []
    for name, lengths in texts.items():
        with collected(errors, name):
            ranges.append(LengthRange.of(lengths))
    if errors:
        raise ConfigError(errors)
    return tuple(ranges)


def errors_of_ranges(
    errors_of: Callable[[LengthRange], list[str]], **ranges: LengthRange
) -> list[str]:
    """The errors of ranges, each after the name of its option.

    Args:
        errors_of: returns the errors of a range.
        ranges: each range, by the name of its option.
    """
    return [f"{name}: {line}" for name, lengths in ranges.items() for line in errors_of(lengths)]
