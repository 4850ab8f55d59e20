"""Normalisation of the length of a Lie-access memory's actions, and the choice of each paper."""

from __future__ import annotations

from typing import Final, NamedTuple


class Step(NamedTuple):
    """Normalisation of the length of actions.

    Fields:
        floor: added to the square of a length before a division by the length; None leaves the
            lengths unchanged.
        candidate: whether the candidate is normalised before the interpolation, not the action
            after it. The initial action, and the share of it that a gate keeps, then has any
            length. Without an action gate both are equal.
    """

    floor: float | None
    candidate: bool = False


STEPS: Final[dict[str, Step]] = {
    "free": Step(None),
    "normalised": Step(1e-12),
    "bounded": Step(1.0),
    "normalised_candidate": Step(1e-12, candidate=True),
}


class LieVariant(NamedTuple):
    """The choices of a paper.

    Fields:
        step: one of STEPS. action_gate: whether actions are interpolated.
    """

    step: str
    action_gate: bool


#: Yang 2016, and the tables of Yang & Rush 2017.
VARIANTS: Final[dict[str, LieVariant]] = {
    "2016": LieVariant("normalised", action_gate=True),
    "2017": LieVariant("bounded", action_gate=False),
}
