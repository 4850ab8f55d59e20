"""What ends a run before its budget does, as its config says."""

from __future__ import annotations

from unbounded.experiments.config.schema import TrainingConfig
from unbounded.tasks import LengthRange
from unbounded.training.plateau import HalveOnPlateau
from unbounded.training.stopping import (
    StopRule,
    WhenConverged,
    WhenHopeless,
    WhenSolved,
    WhenStalled,
    any_of,
    never,
)


def make_stop_rule(
    training: TrainingConfig, lengths: LengthRange, plateau: HalveOnPlateau | None
) -> StopRule:
    """What ends the run before its budget does; `lengths` are those of validation."""
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
    if training.give_up_after:
        chosen.insert(0, WhenHopeless(training.give_up_after, training.give_up_perplexity))
    if plateau is not None:
        chosen.insert(0, plateau)
    return chosen[0] if len(chosen) == 1 else any_of(*chosen)
