"""The scores in a run's report: rows, further facts, and memory use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from unbounded.custom_components import NO_MEMORY
from unbounded.evaluation.following import following
from unbounded.evaluation.memory_use import memory_use
from unbounded.evaluation.metric_sets import EvaluationPlan, Evaluator
from unbounded.experiments.config.check import evaluation_of, ranges
from unbounded.experiments.config.check_training import grows
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.plan import Plan
from unbounded.models.discrete import sequence_model
from unbounded.tasks import LengthRange


def own_evaluation_plan(
    config: RunConfig, looking: Callable[[str, float], None] = lambda what, share: None
) -> EvaluationPlan:
    """The evaluation plan of a run's own report, on the test split.

    Args:
        config: the run's config.
        looking: called with the name of what is scored next and the finished share of the rows.
    """
    evaluation, memory = evaluation_of(config), config.model.memory
    # A memory that grows with every sequence starts anew for each n.
    is_bounded = memory["name"] == NO_MEMORY or not grows(config)
    return EvaluationPlan(
        "test",
        config.seed,
        None if evaluation.lengths is None else ranges(evaluation.lengths),
        evaluation.count,
        evaluation.every,
        evaluation.streams,
        evaluation.carry_state and is_bounded,
        looking,
        evaluation.symbols,
        evaluation.multiples or (),
    )


def scored(planned: Plan, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
    """The report's rows, and its entries on validation and memory."""
    facts = planned.metric_set.facts(evaluator, evaluation_plan)
    model, lengths = sequence_model(evaluator.model), planned.validation_lengths
    follows = following(model, planned.task, planned.config.seed, lengths)
    if follows is not None:
        facts["read_head_follows_path"] = follows
    used = used_memory(planned, evaluator, evaluation_plan)
    return {"rows": planned.metric_set.rows(evaluator, evaluation_plan), **facts, **used}


def used_memory(
    planned: Plan,
    evaluator: Evaluator,
    evaluation_plan: EvaluationPlan,
    lengths: Iterable[LengthRange] | None = None,
) -> dict[str, Any]:
    """The report's entry on memory use; empty for a model without memory gates.

    Args:
        planned, evaluator, evaluation_plan: those of the report.
        lengths: the ranges; None for those of training and validation.
    """
    own = dict.fromkeys((planned.train_lengths, planned.validation_lengths))
    used = memory_use(
        evaluator.model,
        planned.task,
        evaluation_plan.seed,
        own if lengths is None else lengths,
        evaluator.place.device,
        evaluation_plan.count,
    )
    return {} if used is None else {"memory_use": used}
