"""The length of the first error: where it is found, and where the margins say it must come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from unbounded.verification.findings import Finding
from unbounded.verification.trend import Trend, trend_of

#: What may fail -> how far a finding is from it: an answer is wrong, a decision falls the other
#: way, a reading is nearer to something else.
_DISTANCES: Final[dict[str, Callable[[Finding], float | None]]] = {
    "answers": lambda finding: finding.margin,
    "decisions": lambda finding: None if finding.certainty is None else finding.certainty - 0.5,
    "readings": lambda finding: None if finding.displaced is None else 0.5 - finding.displaced,
}
#: Decisions that are surer than this wherever all is right are meant to be whole.
MEANT_WHOLE: Final = 0.9


def predict(findings: Sequence[Finding], shortest: int) -> dict[str, Any]:
    """Where the first error comes, found and predicted.

    Args:
        findings: at any lengths.
        shortest: the shortest length of training; what is wrong below it is said by the findings
            and is no matter of length.
    Returns:
        "right_up_to", the longest length of all that are right from `shortest` on, None if there
        is none; "first_error", the next one, None where all are right; "predicted", from all that
        are right, and "from_half", from the shorter half of these alone, which can be compared
        with what came: each with "first_error" (None for never), "by" (what fails first) and
        "trends", what each margin says.
    """
    known = sorted((f for f in findings if f.length >= shortest), key=lambda f: f.length)
    wrong = [finding.length for finding in known if finding.right < finding.count]
    right = [finding for finding in known if not wrong or finding.length < wrong[0]]
    reach = right[-1].length if right else None
    half = [finding for finding in right if finding.length <= right[-1].length / 2]
    return {
        "right_up_to": reach,
        "first_error": wrong[0] if wrong else None,
        "predicted": _from(right),
        "from_half": _from(half),
    }


def _from(findings: Sequence[Finding]) -> dict[str, Any]:
    trends: dict[str, Trend] = {}
    # A network that never decides wholly does not err when it decides a little less.
    whole = all((finding.certainty or 0) >= MEANT_WHOLE for finding in findings)
    for name, distance in _DISTANCES.items():
        points = [
            (finding.length, value)
            for finding in findings
            if (value := distance(finding)) is not None
        ]
        if any(value <= 0 for _, value in points) or (name != "answers" and not whole):
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
