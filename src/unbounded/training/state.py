"""The state of a training run without its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from unbounded.errors import CheckpointError

_AFTER = "after_batch"


@dataclass
class LoopState:
    """The fields are plain numbers and strings, so that a checkpoint stores them exactly, as JSON.

    Fields:
        batch: batches trained so far; the next one draws examples batch * B, ..., in order.
        next_check: number of the next report or hook that is due after `batch`; None if all are
            done.
        symbols: input symbols trained on so far, counted in the loss or not.
        window_nats, window_tokens: sums since the last report of training perplexity.
        gradient_norm: of the last batch, before clipping.
        perplexity: the last training perplexity reported, None before the first.
        drawn: validation examples used so far; each check takes fresh ones.
        stage: longest length of the last report's batches while longer ones are to come, else None.
        elapsed_s: wall-clock seconds of training over all sessions.
        metrics_lines: lines of metrics.jsonl that belong to this state.
        reason: why a hook ends the run after `batch`; None if no hook has ended it.
        finished: why the run is over, None while it is not.
        trained_with: the threads and kernels of the training, in order. `after_batch` is the batch
            after which each started; it may repeat where they trained parts of one batch.
    """

    batch: int = 0
    next_check: int | None = None
    symbols: int = 0
    window_nats: float = 0.0
    window_tokens: int = 0
    gradient_norm: float = 0.0
    perplexity: float | None = None
    drawn: int = 0
    stage: int | None = None
    elapsed_s: float = 0.0
    metrics_lines: int = 0
    reason: str | None = None
    finished: str | None = None
    trained_with: list[dict[str, Any]] = field(default_factory=list)

    def go_on_with(self, used: Mapping[str, Any]) -> None:
        """Record the threads and kernels of the training from now on, if they have changed."""
        if used != self.last_used():
            self.trained_with.append({_AFTER: self.batch, **used})

    def last_used(self) -> dict[str, Any] | None:
        """The threads and kernels that were used last; None if unknown."""
        if not self.trained_with:
            return None
        return {name: value for name, value in self.trained_with[-1].items() if name != _AFTER}

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: object) -> LoopState:
        """Build the state from its fields.

        Raises:
            CheckpointError: fields are missing or unknown.
        """
        names = {item.name for item in fields(cls)}
        if not isinstance(data, dict) or set(data) != names:
            given = sorted(data) if isinstance(data, dict) else type(data).__name__
            raise CheckpointError(f"loop state must have the fields {sorted(names)}, got {given}")
        return cls(**data)
