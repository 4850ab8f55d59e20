"""The options of a verification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from unbounded.checks import number_errors
from unbounded.errors import ConfigError

#: Sequences are also drawn at these shares of the longest training length.
SHORTER: Final = (0.125, 0.25, 0.5, 1.0)

#: Largest multiple of the longest training length.
MOST_TIMES: Final = 10_000


@dataclass(frozen=True)
class VerifyOptions:
    """The extent of a verification.

    Args:
        most: largest length of which all sequences are checked, while they are few.
        symbols_each: symbols of all sequences of one length beyond which they are drawn.
        alphabet: number of source symbols over which all strings are checked.
        times: multiples of the longest training length at which sequences are drawn.
        count: sequences drawn at each.
        seed: seed of the draws.
    Raises:
        ConfigError: an option is out of range; all errors together.
    """

    most: int = 2000
    symbols_each: int = 50_000
    alphabet: int = 2
    times: tuple[float, ...] = (2, 4, 10, 100)
    count: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        errors = [
            f"{name}: expected an integer of at least {least}, got {getattr(self, name)!r}"
            for name, least in (
                ("most", 0),
                ("symbols_each", 0),
                ("alphabet", 1),
                ("count", 1),
                ("seed", 0),
            )
            if type(getattr(self, name)) is not int or getattr(self, name) < least
        ]
        times: object = self.times
        if isinstance(times, tuple | list):
            errors += [
                f"times: expected numbers above 0, at most {MOST_TIMES}, got {time!r}"
                for time in times
                if number_errors("times", time, above=0, at_most=MOST_TIMES)
            ]
        else:
            errors.append(f"times: expected a tuple of numbers, such as (2, 4), got {self.times!r}")
        if not errors and not self.times and not (self.most and self.symbols_each):
            errors.append(
                "most: nothing is to be checked: no length in full, and none drawn; give lengths, "
                "such as most 100 or times 2"
            )
        if errors:
            raise ConfigError(errors)

    def drawn_lengths(self, trained: int) -> list[int]:
        """The lengths at which sequences are drawn, in rising order.

        The lengths are the given multiples of the longest training length, and an eighth, a
        quarter, a half and all of it. The shorter lengths show how a trend starts.
        """
        times = (*self.times, *(SHORTER if self.times else ()))
        return sorted({length for time in times if (length := round(time * trained)) > 0})
