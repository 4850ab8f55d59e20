"""The stop rule of a run from its config."""

from __future__ import annotations

from unbounded.experiments.config.components import build
from unbounded.experiments.config.schema import TrainingConfig
from unbounded.tasks import LengthRange
from unbounded.training.plateau import HalveOnPlateau
from unbounded.training.stopping import StopRule, WhenStalled, any_of


def make_stop_rule(
    training: TrainingConfig, lengths: LengthRange, plateau: HalveOnPlateau | None
) -> StopRule:
    """The rule that stops a run before its budget is used up; `lengths` are for validation."""
    rules: list[StopRule | None] = [
        plateau,
        build("training.early_abort", training.early_abort),
        build(
            "training.stop",
            training.stop,
            lengths=lengths,
            count=training.validation_count,
            report_every=training.report_every,
        ),
    ]
    if training.patience:
        rules.append(WhenStalled(every=training.report_every, patience=training.patience))
    chosen = [rule for rule in rules if rule is not None]
    return chosen[0] if len(chosen) == 1 else any_of(*chosen)
