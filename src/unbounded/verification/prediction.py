"""The length of the first error: the observed one, and the one extrapolated from margins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from unbounded.verification.findings import Finding
from unbounded.verification.trend import Trend, trend_of

#: Kind of failure -> distance of a finding from it: an answer is wrong, a gate falls on the other
#: side, a read vector is nearer to another one.
_DISTANCES: Final[dict[str, Callable[[Finding], float | None]]] = {
    "answers": lambda finding: finding.margin,
    "gates": lambda finding: None if finding.certainty is None else finding.certainty - 0.5,
    "read_vectors": lambda finding: None if finding.displaced is None else 0.5 - finding.displaced,
}
#: Gates with at least this certainty at all correct lengths are meant to be saturated.
MEANT_WHOLE: Final = 0.9


def predict(findings: Sequence[Finding], shortest: int) -> dict[str, Any]:
    """The length of the first error, observed and extrapolated.

    Args:
        findings: at any lengths.
        shortest: the shortest training length; errors below it do not depend on the length.
    Returns:
        "right_up_to": the longest length up to which all are correct from `shortest` on, None
        without one. "first_error": the next length, None without errors. "predicted": from all
        correct lengths. "from_half": from the shorter half of them, for comparison with the
        outcome. The last two have "first_error" (None for never), "by" (the first failure) and
        "trends" (of each margin).
    """
    known = sorted((f for f in findings if f.length >= shortest), key=lambda f: f.length)
    wrong_lengths = [finding.length for finding in known if finding.right < finding.count]
    correct_findings = [
        finding for finding in known if not wrong_lengths or finding.length < wrong_lengths[0]
    ]
    reach = correct_findings[-1].length if correct_findings else None
    half = [
        finding for finding in correct_findings if finding.length <= correct_findings[-1].length / 2
    ]
    return {
        "right_up_to": reach,
        "first_error": wrong_lengths[0] if wrong_lengths else None,
        "predicted": _from(correct_findings),
        "from_half": _from(half),
    }


def _from(findings: Sequence[Finding]) -> dict[str, Any]:
    trends: dict[str, Trend] = {}
    # A network with soft gates does not fail when a gate becomes a little softer.
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
