"""The length of the first error, extrapolated from the margins at some lengths.

A robust line is fitted: the median of the slopes between all pairs (Theil 1950, Sen 1968), which
few outliers cannot change. The scale of the lengths on which it is a line depends on what drifts.
Rests of rows that a strength of 0.999 leaves add up at each step, so margins fall with the length.
Rests of either sign add up with its square root, and so does the width of a mixture; under it a
margin falls with 1 over the square root and need not end. What a controller forgets goes with the
logarithm. A margin may also rise at first, up to the training lengths. So lines are fitted on each
of these scales, through all lengths and through the longer half, each without the last third. The
best fit to that third is fitted again with it, unless it is then 0 where there was no error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

#: Scale of the lengths -> its transformation and the inverse.
SCALES: Final[dict[str, tuple[Callable[[float], float], Callable[[float], float]]]] = {
    "linear": (float, float),
    "root": (math.sqrt, lambda place: max(place, 0.0) ** 2),
    "logarithm": (math.log, math.exp),
    "one over root": (
        lambda length: -1 / math.sqrt(length),
        lambda place: math.inf if place >= 0 else place**-2,
    ),
}
#: Least number of lengths of a trend.
LEAST: Final = 4
#: A margin that would reach 0 beyond this length counts as never reaching it.
FARTHEST: Final = 1e9
# More lengths do not change a median of slopes, and their pairs would take long.
_MOST = 200


class Trend(NamedTuple):
    """A margin as a function of the length.

    Fields:
        scale: one of SCALES.
        slope: of the margin per unit of the scale.
        reaches_zero: the length at which the line is 0; None for never.
        lengths: the shortest and the longest of the fit.
    """

    scale: str
    slope: float
    reaches_zero: float | None
    lengths: tuple[int, int]


def trend_of(lengths: Sequence[int], margins: Sequence[float]) -> Trend | None:
    """The trend of margins; None for fewer than LEAST lengths.

    A slope whose 95 % interval contains 0 counts as none: the margin then never reaches 0.

    Args:
        lengths: ascending, at least 1; without errors.
        margins: finite, one for each.
    """
    if len(lengths) < LEAST:
        return None
    kept = np.unique(np.linspace(0, len(lengths) - 1, _MOST).round().astype(int))
    points = [(int(lengths[place]), float(margins[place])) for place in kept]
    known = points[: max(2, len(points) - len(points) // 3)]

    def distance(fit: tuple[str, bool]) -> float:
        scale, recent = fit
        forward = SCALES[scale][0]
        slope, start, _ = _line(_part(known, recent), forward)
        return float(
            np.median([abs(start + slope * forward(n) - m) for n, m in points[len(known) :]])
        )

    fits = sorted(((scale, recent) for scale in SCALES for recent in (False, True)), key=distance)
    trends = [_on_scale(scale, _part(points, recent)) for scale, recent in fits]
    # A line that is 0 where there was no error is rejected.
    last = lengths[-1]
    possible = [t for t in trends if t.reaches_zero is None or t.reaches_zero > last]
    return possible[0] if possible else trends[0]


def _part(points: list[tuple[int, float]], recent: bool) -> list[tuple[int, float]]:
    """All points, or the longer half of them."""
    return points[-max(LEAST, len(points) // 2) :] if recent else points


def _on_scale(scale: str, points: Sequence[tuple[int, float]]) -> Trend:
    forward, back = SCALES[scale]
    slope, start, highest = _line(points, forward)
    end = None
    if slope < 0 and highest < 0 and -start / slope < forward(FARTHEST):
        end = max(back(-start / slope), 1.0)
    return Trend(scale, slope, end, (points[0][0], points[-1][0]))


def _line(
    points: Sequence[tuple[int, float]], forward: Callable[[float], float]
) -> tuple[float, float, float]:
    """Slope, start, and the upper end of the slope's interval."""
    from scipy.stats import theilslopes

    if len({margin for _, margin in points}) == 1:
        return 0.0, points[0][1], 0.0
    places, margins = [forward(n) for n, _ in points], [margin for _, margin in points]
    line = theilslopes(margins, places)
    return float(line.slope), float(line.intercept), float(line.high_slope)
