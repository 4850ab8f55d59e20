"""What is done to the length of a Lie-access memory's steps, and what each paper chooses."""

from __future__ import annotations

from typing import Final, NamedTuple


class Step(NamedTuple):
    """What is done to the length of actions.

    Fields:
        floor: what is added to the square of a length before something is divided by the length;
            None leaves lengths as they are.
        candidate: whether the candidate is divided before it is interpolated, and not the action
            after; then the first action, and what a gate keeps of it, has any length. Without an
            action gate it is the same.
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
    """What a paper chooses.

    Fields:
        step: one of STEPS. action_gate: whether actions are interpolated.
    """

    step: str
    action_gate: bool


#: Yang 2016, and what the tables of Yang & Rush 2017 were made with.
VARIANTS: Final[dict[str, LieVariant]] = {
    "2016": LieVariant("normalised", action_gate=True),
    "2017": LieVariant("bounded", action_gate=False),
}
