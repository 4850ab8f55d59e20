"""What a report says of a model: the rows of its scoring, and what was looked at beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from unbounded.evaluation.following import following
from unbounded.evaluation.memory_use import memory_use
from unbounded.evaluation.scorings import Exam, Sweep
from unbounded.experiments.config.check import ranges
from unbounded.experiments.config.schema import RunConfig
from unbounded.experiments.run.plan import Plan
from unbounded.models.discrete import sequence_model
from unbounded.tasks import LengthRange


def own_sweep(
    config: RunConfig, looking: Callable[[str, float], None] = lambda what, share: None
) -> Sweep:
    """What a run's own report is made of, on the test split.

    Args:
        config: of the run.
        looking: told what is about to be scored, and the share of the rows that is done.
    """
    evaluation = config.evaluation
    return Sweep(
        "test",
        config.seed,
        None if evaluation.lengths is None else ranges(evaluation.lengths),
        evaluation.count,
        evaluation.every,
        evaluation.streams,
        evaluation.carry,
        looking,
        evaluation.symbols,
        evaluation.multiples or (),
    )


def scored(planned: Plan, exam: Exam, sweep: Sweep) -> dict[str, Any]:
    """The rows of a run's own report, and what it says of validation and of the memory."""
    facts = planned.scoring.facts(exam, sweep)
    model, lengths = sequence_model(exam.model), planned.validation_lengths
    follows = following(model, planned.task, planned.config.seed, lengths)
    if follows is not None:
        facts["read_head_follows_path"] = follows
    used = used_memory(planned, exam, sweep)
    return {"rows": planned.scoring.rows(exam, sweep), **facts, **used}


def used_memory(
    planned: Plan, exam: Exam, sweep: Sweep, lengths: Iterable[LengthRange] | None = None
) -> dict[str, Any]:
    """What a report says of the use of its memory; nothing where there is none that decides.

    Args:
        planned, exam, sweep: of the report.
        lengths: the ranges; None for those of training and of validation.
    """
    own = dict.fromkeys((planned.train_lengths, planned.validation_lengths))
    used = memory_use(
        exam.model,
        planned.task,
        sweep.seed,
        own if lengths is None else lengths,
        exam.place.device,
        sweep.count,
    )
    return {} if used is None else {"memory_use": used}
