"""From the margins at some lengths the length at which the first error is to be expected.

A line is laid through them that few odd points cannot turn (the median of the slopes between all
pairs: Theil 1950, Sen 1968). On which scale of the lengths it is a line depends on what drifts.
What a strength of 0.999 leaves of a row adds up with each step, so that margins fall with the
length itself; where such rests have either sign they add up with its square root, and so does the
width of a mixture, under which a margin falls with 1 over the square root and need not end; what
a controller forgets goes with the logarithm. And a margin may rise at
first, while a network comes to the lengths that it knows. So a line is laid on each of these
scales, through all lengths and through the longer half of them, each time without the last third;
which comes nearest to that third is laid again with it, unless it then is 0 where there was no
error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

#: Scale of the lengths -> what a length is on it, and back.
SCALES: Final[dict[str, tuple[Callable[[float], float], Callable[[float], float]]]] = {
    "linear": (float, float),
    "root": (math.sqrt, lambda place: max(place, 0.0) ** 2),
    "logarithm": (math.log, math.exp),
    "one over root": (
        lambda length: -1 / math.sqrt(length),
        lambda place: math.inf if place >= 0 else place**-2,
    ),
}
#: Fewer lengths than these make no trend.
LEAST: Final = 4
#: A margin that would reach 0 beyond this length is said to have no end.
FARTHEST: Final = 1e9
# More lengths than these do not change a median of slopes; their pairs would take long.
_MOST = 200


class Trend(NamedTuple):
    """How a margin goes with the length.

    Fields:
        scale: one of SCALES.
        slope: of the margin for each unit on it.
        reaches_zero: the length at which the line is 0; None where it never comes so far.
        lengths: the shortest and the longest that it was laid through.
    """

    scale: str
    slope: float
    reaches_zero: float | None
    lengths: tuple[int, int]


def trend_of(lengths: Sequence[int], margins: Sequence[float]) -> Trend | None:
    """The trend of margins, one for each of the lengths; None of fewer than LEAST lengths.

    A slope whose interval of 95 % holds 0 is none: the margin is then said never to reach 0.

    Args:
        lengths: rising, at least 1; all is right at each of them.
        margins: finite, one for each.
    """
    if len(lengths) < LEAST:
        return None
    kept = np.unique(np.linspace(0, len(lengths) - 1, _MOST).round().astype(int))
    points = [(int(lengths[place]), float(margins[place])) for place in kept]
    known = points[: max(2, len(points) - len(points) // 3)]

    def distance(way: tuple[str, bool]) -> float:
        scale, recent = way
        to = SCALES[scale][0]
        slope, start, _ = _line(_part(known, recent), to)
        return float(np.median([abs(start + slope * to(n) - m) for n, m in points[len(known) :]]))

    ways = sorted(((scale, recent) for scale in SCALES for recent in (False, True)), key=distance)
    trends = [_on_scale(scale, _part(points, recent)) for scale, recent in ways]
    # A line that is 0 where nothing went wrong is not how it goes on.
    last = lengths[-1]
    possible = [t for t in trends if t.reaches_zero is None or t.reaches_zero > last]
    return possible[0] if possible else trends[0]


def _part(points: list[tuple[int, float]], recent: bool) -> list[tuple[int, float]]:
    """All points, or the longer half of them."""
    return points[-max(LEAST, len(points) // 2) :] if recent else points


def _on_scale(scale: str, points: Sequence[tuple[int, float]]) -> Trend:
    to, back = SCALES[scale]
    slope, start, highest = _line(points, to)
    end = None
    if slope < 0 and highest < 0 and -start / slope < to(FARTHEST):
        end = max(back(-start / slope), 1.0)
    return Trend(scale, slope, end, (points[0][0], points[-1][0]))


def _line(
    points: Sequence[tuple[int, float]], to: Callable[[float], float]
) -> tuple[float, float, float]:
    """Slope, start, and the upper end of the slope's interval."""
    from scipy.stats import theilslopes

    if len({margin for _, margin in points}) == 1:
        return 0.0, points[0][1], 0.0
    places, margins = [to(n) for n, _ in points], [margin for _, margin in points]
    line = theilslopes(margins, places)
    return float(line.slope), float(line.intercept), float(line.high_slope)
