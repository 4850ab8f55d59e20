"""What is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from unbounded.checks import number_faults
from unbounded.errors import ConfigError

#: Shares of the longest length of training at which sequences are drawn too.
SHORTER: Final = (0.125, 0.25, 0.5, 1.0)

#: The greatest multiple of the longest length of training.
MOST_TIMES: Final = 10_000


@dataclass(frozen=True)
class VerifyOptions:
    """How much is looked at.

    Args:
        most: the greatest length of which every sequence is taken, while there are few.
        symbols_each: symbols of all sequences of one length beyond which they are drawn.
        alphabet: of sources, symbols of the small alphabet whose every word is taken.
        times: multiples of the longest length of training at which sequences are drawn.
        count: sequences drawn at each.
        seed: of what is drawn.
    Raises:
        ConfigError: an option is out of range; all faults together.
    """

    most: int = 2000
    symbols_each: int = 50_000
    alphabet: int = 2
    times: tuple[float, ...] = (2, 4, 10, 100)
    count: int = 100
    seed: int = 1

    def __post_init__(self) -> None:
        faults = [
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
            faults += [
                f"times: expected numbers above 0, at most {MOST_TIMES}, got {time!r}"
                for time in times
                if number_faults("times", time, above=0, at_most=MOST_TIMES)
            ]
        else:
            faults.append(f"times: expected a tuple of numbers, such as (2, 4), got {self.times!r}")
        if not faults and not self.times and not (self.most and self.symbols_each):
            faults.append(
                "most: nothing is to be looked at: no length whole, and none drawn; give lengths, "
                "such as most 100 or times 2"
            )
        if faults:
            raise ConfigError(faults)

    def drawn_lengths(self, trained: int) -> list[int]:
        """The lengths at which sequences are drawn, rising.

        Beside the multiples an eighth, a quarter, a half and the whole of the longest length of
        training, where a trend has to begin.
        """
        times = (*self.times, *(SHORTER if self.times else ()))
        return sorted({length for time in times if (length := round(time * trained)) > 0})
