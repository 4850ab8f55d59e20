"""A hook implements one idea of training, such as a stop rule, with its own state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from unbounded.errors import CheckpointError
from unbounded.tasks import LengthRange
from unbounded.training.state import LoopState

Record = Callable[[dict[str, Any]], None]


class Score(Protocol):
    """The result of an assessment; `unbounded.evaluation` computes it."""

    @property
    def count(self) -> int:
        """Number of scored sequences."""

    @property
    def correct(self) -> int:
        """Number of sequences that match exactly."""

    @property
    def exact_match(self) -> float:
        """Share of sequences that match exactly."""

    @property
    def partial_accuracy(self) -> float:
        """Mean share of a target before the first error."""


class Assess(Protocol):
    """Scores the model on validation examples `start` to `start + count - 1`."""

    def __call__(self, lengths: LengthRange, start: int, count: int) -> Score:
        """Score `count` examples of a length range."""


class Hook:
    """Base class of all hooks. A method does nothing unless a subclass overrides it.

    A new idea is one file in `training/hooks/` and one line in a registry of its `__init__.py`.
    The `Trainer` calls its hooks in the order of their list.

    Attributes:
        in_cooldown: whether `after_batch` is called during a cooldown of the learning rate too.
        saved: names of the attributes that a checkpoint holds: numbers, strings, None, tensors,
            lists and dicts of them, or objects with a `state_dict`.
    """

    in_cooldown: bool = False
    saved: tuple[str, ...] = ()

    def around_step(self, batch: int, chunk: int) -> AbstractContextManager[None] | None:
        """Return a context for the gradient step on a chunk of a batch, or None."""
        return None

    def clip(self, bound: float) -> float:
        """Return the bound on the next gradient, given the bound in the options."""
        return bound

    def on_report(self, state: LoopState, loss: float) -> dict[str, Any]:
        """This method is called at each report of training perplexity.

        Args:
            state: the state of the training; `window_tokens` counts the tokens of the report.
            loss: nats per token since the last report.
        Returns:
            Entries for the line of the metrics log.
        """
        return {}

    def after_batch(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """This method is called after each batch.

        If `assess` is interrupted, the call is repeated, so assess first and then change the state.

        Args:
            state: the state of the training.
            assess: scores the model on validation examples.
            record: writes a line to the metrics log.
        Returns:
            The reason to stop; None to go on.
        """
        return None

    def at_end(self) -> None:
        """This method is called at the end of training, after the last checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """The attributes named in `saved`."""
        values = {name: getattr(self, name) for name in self.saved}
        return {
            name: value.state_dict() if hasattr(value, "state_dict") else value
            for name, value in values.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            CheckpointError: attributes are missing or unknown.
        """
        if set(state) != set(self.saved):
            raise CheckpointError(
                f"{type(self).__name__}: expected the state {sorted(self.saved)}, got "
                f"{sorted(state)}"
            )
        for name, value in state.items():
            own = getattr(self, name)
            if hasattr(own, "load_state_dict"):
                own.load_state_dict(value)
            else:
                setattr(self, name, value)
