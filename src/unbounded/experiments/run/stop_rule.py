"""The stop rule of a run from its config."""

from __future__ import annotations

from unbounded.experiments.config.schema import TrainingConfig
from unbounded.tasks import LengthRange
from unbounded.training.plateau import HalveOnPlateau
from unbounded.training.stopping import (
    EarlyAbort,
    StopRule,
    WhenConverged,
    WhenSolved,
    WhenStalled,
    any_of,
    never,
)


def make_stop_rule(
    training: TrainingConfig, lengths: LengthRange, plateau: HalveOnPlateau | None
) -> StopRule:
    """The rule that stops a run before its budget is used up; `lengths` are for validation."""
    rules: dict[str, StopRule] = {
        "solved": WhenSolved(
            lengths,
            every=training.validate_every,
            count=training.validation_count,
            share=training.validation_share,
        ),
        "converged": WhenConverged(
            every=training.report_every,
            bound=training.converged_perplexity,
            times=training.converged_reports,
        ),
    }
    chosen = [rules.get(training.stop, never)]
    if training.patience:
        stalled = WhenStalled(every=training.report_every, patience=training.patience)
        chosen.append(stalled)
    if training.early_abort_after:
        chosen.insert(0, EarlyAbort(training.early_abort_after, training.early_abort_perplexity))
    if plateau is not None:
        chosen.insert(0, plateau)
    return chosen[0] if len(chosen) == 1 else any_of(*chosen)
