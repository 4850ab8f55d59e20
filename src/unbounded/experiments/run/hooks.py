"""Build the hooks of a run from its config."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from unbounded.experiments.config.check_training import has_gates
from unbounded.experiments.config.components import build
from unbounded.experiments.run.plan import Plan
from unbounded.training import Accuracy, Hook, WhenStalled
from unbounded.training.update import Trained


def training_hooks(
    planned: Plan, model: nn.Module, trained: Trained, validate: Callable[[], float]
) -> dict[str, Hook]:
    """The hooks of a run's training, in their order.

    Args:
        planned: the run.
        model: its model, not wrapped.
        trained: model, optimizer and schedule as wrapped by accelerate.
        validate: the measure of the plateau rule.
    """
    training = planned.config.training
    every = training.report_every
    hooks: dict[str, Hook | None] = {"temperature_noise": noise_hook(planned, model)}
    if training.accuracy_every:
        for lengths in dict.fromkeys((planned.train_lengths, planned.validation_lengths)):
            hooks[f"accuracy {lengths}"] = Accuracy(
                lengths, count=training.accuracy_count, every=training.accuracy_every
            )
    _, optimizer, schedule = trained
    hooks["plateau"] = build(
        "training.plateau",
        training.plateau,
        model=model,
        optimizer=optimizer,
        schedule=schedule,
        validate=validate,
    )
    hooks["early_abort"] = build("training.early_abort", training.early_abort)
    hooks["stop"] = build(
        "training.stop",
        training.stop,
        lengths=planned.validation_lengths,
        count=training.validation_count,
        report_every=every,
    )
    if training.patience:
        hooks["patience"] = WhenStalled(every=every, patience=training.patience)
    return {name: hook for name, hook in hooks.items() if hook is not None}


def noise_hook(planned: Plan, model: nn.Module) -> Hook | None:
    """The temperature noise of a run; None without noise or without memory gates."""
    config = planned.config
    if not has_gates(config):
        return None
    noise: Hook | None = build(
        "training.temperature_noise",
        config.training.temperature_noise,
        model=model,
        seed=config.seed,
    )
    return noise
