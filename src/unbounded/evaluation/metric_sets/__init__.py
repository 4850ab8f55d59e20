"""The metric sets by name; a task names its metric set."""

from __future__ import annotations

from typing import Final

from unbounded.custom_components import find_part
from unbounded.evaluation.metric_sets.above_bound import AboveBound
from unbounded.evaluation.metric_sets.answer_scores import Programs, Sizes
from unbounded.evaluation.metric_sets.base import (
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
)
from unbounded.evaluation.metric_sets.bits import Bits
from unbounded.evaluation.metric_sets.by_length import ByLength
from unbounded.evaluation.metric_sets.lengths import Lengths
from unbounded.evaluation.metric_sets.membership import Membership, labels
from unbounded.evaluation.metric_sets.perplexity import Perplexity
from unbounded.evaluation.metric_sets.recognition import Recognised
from unbounded.evaluation.metric_sets.sequences import Sequences
from unbounded.evaluation.score import Place

__all__ = [
    "METRIC_SETS",
    "EvaluationPlan",
    "Evaluator",
    "Examples",
    "MetricSet",
    "Place",
    "metric_set_of",
]

METRIC_SETS: Final[dict[str, MetricSet]] = {
    "sequences": Sequences(),
    "labels": labels(),
    "membership": Membership(),
    "bits": Bits(),
    "lengths": Lengths(),
    "perplexity": Perplexity(),
    "answers": Sizes(),
    "by_length": ByLength(),
    "recognition": Recognised(),
    "above_bound": AboveBound(),
    "programs": Programs(),
}


def metric_set_of(name: str) -> MetricSet:
    """Return the metric set with a name or an import path.

    Raises:
        ChoiceError: there is no such metric set.
        ConfigError: the module was not imported, or has no such class.
    """
    component = find_part("metric_set", name, METRIC_SETS, MetricSet)
    if isinstance(component, MetricSet):
        return component
    metric_set: MetricSet = component()
    return metric_set
