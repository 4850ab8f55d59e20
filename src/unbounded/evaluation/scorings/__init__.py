"""The scorings by name: each says how well a model does the tasks that name it."""

from __future__ import annotations

from typing import Final

from unbounded.evaluation.scorings.answers import Programs, Sizes
from unbounded.evaluation.scorings.base import Exam, Place, Scoring, Sweep
from unbounded.evaluation.scorings.bits import Bits
from unbounded.evaluation.scorings.labels import labels
from unbounded.evaluation.scorings.lengths import Lengths
from unbounded.evaluation.scorings.membership import Membership
from unbounded.evaluation.scorings.perplexity import Perplexity
from unbounded.evaluation.scorings.sequences import Sequences
from unbounded.own_parts import find_part

__all__ = ["SCORINGS", "Exam", "Place", "Scoring", "Sweep", "scoring_of"]

SCORINGS: Final[dict[str, Scoring]] = {
    "sequences": Sequences(),
    "labels": labels(),
    "membership": Membership(),
    "bits": Bits(),
    "lengths": Lengths(),
    "perplexity": Perplexity(),
    "answers": Sizes(),
    "programs": Programs(),
}


def scoring_of(name: str) -> Scoring:
    """The scoring of that name, or of that import path.

    Raises:
        ChoiceError: there is no such scoring.
        ConfigError: the module was not imported, or holds no such class.
    """
    part = find_part("scoring", name, SCORINGS, Scoring)
    if isinstance(part, Scoring):
        return part
    scoring: Scoring = part()
    return scoring
