"""The length of the first error, as observed and as extrapolated from margins."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from unbounded.verification.findings import Finding

#: Name of a scale of lengths -> its transformation and the inverse.
SCALES: Final[dict[str, tuple[Callable[[float], float], Callable[[float], float]]]] = {
    "linear": (float, float),
    "root": (math.sqrt, lambda place: max(place, 0.0) ** 2),
    "logarithm": (math.log, math.exp),
    "one over root": (
        lambda length: -1 / math.sqrt(length),
        lambda place: math.inf if place >= 0 else place**-2,
    ),
}
#: Least number of lengths for a trend.
LEAST: Final = 4
#: A margin that would reach 0 beyond this length counts as never reaching it.
FARTHEST: Final = 1e9
# More lengths would hardly change a median of slopes, and their pairs would take long.
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

    A slope whose 95 % interval contains 0 counts as 0. The margin then never reaches 0.

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
    # A line is rejected if it reaches 0 at a length without an error.
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


#: Kind of failure -> distance of a finding from the failure. The kinds are a wrong answer, a gate
#: on the other side, and a read vector that is nearer to another one.
_DISTANCES: Final[dict[str, Callable[[Finding], float | None]]] = {
    "answers": lambda finding: finding.margin,
    "gates": lambda finding: None if finding.certainty is None else finding.certainty - 0.5,
    "read_vectors": lambda finding: None if finding.displaced is None else 0.5 - finding.displaced,
}
#: If all gates have at least this certainty at all correct lengths, they are considered saturated
#: by design.
MEANT_WHOLE: Final = 0.9


def predict(findings: Sequence[Finding], shortest: int) -> dict[str, Any]:
    """The length of the first error, observed and extrapolated.

    Args:
        findings: at any lengths.
        shortest: the shortest training length; errors below it do not depend on the length.
    Returns:
        "correct_up_to": the longest length up to which all are correct from `shortest` on, None
        without one. "first_error": the next length, None without errors. "predicted": from all
        correct lengths. "from_half": from the shorter half of these lengths, for comparison with
        the outcome. The last two have "first_error" (None for never), "by" (the first failure) and
        "trends" (of each margin).
    """
    known = sorted((f for f in findings if f.length >= shortest), key=lambda f: f.length)
    wrong_lengths = [finding.length for finding in known if finding.correct < finding.count]
    correct_findings = [
        finding for finding in known if not wrong_lengths or finding.length < wrong_lengths[0]
    ]
    reach = correct_findings[-1].length if correct_findings else None
    half = [
        finding for finding in correct_findings if finding.length <= correct_findings[-1].length / 2
    ]
    return {
        "correct_up_to": reach,
        "first_error": wrong_lengths[0] if wrong_lengths else None,
        "predicted": _from(correct_findings),
        "from_half": _from(half),
    }


def _from(findings: Sequence[Finding]) -> dict[str, Any]:
    trends: dict[str, Trend] = {}
    # A network with soft gates does not fail if a gate becomes slightly softer.
    is_hard = all((finding.certainty or 0) >= MEANT_WHOLE for finding in findings)
    for name, distance in _DISTANCES.items():
        points = [
            (finding.length, value)
            for finding in findings
            if (value := distance(finding)) is not None
        ]
        if any(value <= 0 for _, value in points) or (name != "answers" and not is_hard):
            continue
        trend = trend_of([length for length, _ in points], [value for _, value in points])
        if trend is not None:
            trends[name] = trend
    ends = {name: t.reaches_zero for name, t in trends.items() if t.reaches_zero is not None}
    first = min(ends, key=lambda name: ends[name], default=None)
    return {
        "first_error": None if first is None else round(ends[first]),
        "by": first,
        "trends": {name: trend._asdict() for name, trend in trends.items()},
    }
