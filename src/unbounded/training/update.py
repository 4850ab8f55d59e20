"""Define when weights change: after each chunk of a batch, or after each symbol."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from unbounded.checks import check_choice
from unbounded.errors import ConfigError
from unbounded.models.discrete import sequence_model
from unbounded.tasks import Batch
from unbounded.training.carried_state import CarriedState
from unbounded.training.chunk_update import ChunkUpdate
from unbounded.training.hook import Hook
from unbounded.training.options import UPDATES, PhaseOptions
from unbounded.training.per_symbol_update import DEFAULT_REACH, PerSymbolUpdate

#: Model, optimizer and schedule, as accelerate prepared them.
Trained = tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]


def make_update(
    trained: Trained,
    accelerator: Accelerator,
    totals: Callable[[Tensor], tuple[float, int]],
    options: PhaseOptions,
    *,
    objective: str,
    carried: CarriedState | None,
    further: Callable[[Tensor, Batch], Tensor] | None = None,
    hooks: Sequence[Hook] = (),
) -> ChunkUpdate | PerSymbolUpdate:
    """Make the update for a batch, with a gradient step for each chunk or for each symbol.

    Args:
        trained, accelerator, totals, carried: as for `ChunkUpdate`.
        options: `update` is "chunk" (`ChunkUpdate`) or "per_symbol" (`PerSymbolUpdate`, with
            `chunk_steps` as its reach).
        objective: the task's objective.
        further: the task's further loss; None for none.
        hooks: as for `ChunkUpdate`; a per-symbol update has none around its steps.
    Raises:
        ChoiceError: `update` or `clip_by` is unknown.
        ConfigError: the model or the objective has no per-symbol update.
    """
    check_choice("update", options.update, UPDATES)
    model, optimizer, _ = trained
    if options.update == "chunk":
        return ChunkUpdate(
            model, optimizer, accelerator, totals, options,
            objective=objective, further=further, carried=carried, hooks=hooks,
        )  # fmt: skip
    if objective != "cross_entropy":
        raise ConfigError(f"update: the per-symbol update needs cross entropy, got {objective!r}")
    return PerSymbolUpdate(
        sequence_model(accelerator.unwrap_model(model)),
        optimizer,
        reach=options.chunk_steps or DEFAULT_REACH,
        clip=options.clip,
        carried=carried or CarriedState(),
        stop=lambda: totals(torch.zeros(()))[1],
    )
