"""Rounding: actions are sharpened step by step, while all weights learn on, until they are hard.

Source: Joulin & Mikolov 2015 (NIPS), section 3; the schedule and the stopping rule are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.models.discrete import discretized, least_decided, scale_actions
from unbounded.tasks import Batch
from unbounded.training.backup import Backup
from unbounded.training.state import LoopState
from unbounded.training.stopping import Assess, Record

_NUMBERS = ("best_loss", "looked", "loss", "decided", "sharpness")


class RoundActions:
    """A stop rule that rounds a trained model: give it to the training loop that fine-tunes it.

    A look comes after the first batch and then after every `every`. At each look the model's
    discrete machine (`unbounded.models.discrete.discretized`) is validated, and the weights whose
    machine was best so far, the later of two that are equal, become the backup. The run is over
    when the least decided action of `batch` has at least the weight `decided`, or when the actions
    have been sharpened `largest` times: what is undecided even then, the model hardly uses. If it
    is not over, the action weights are multiplied by `factor`. `restore` puts the backup back, and
    `discretized` of that is the result.

    Weights, sharpness and backup are in the loop's checkpoints (`Checkpoints(extra=...)`), so an
    interrupted rounding goes on where it was.

    Args:
        model: what is trained, with superposition stacks or lists; not wrapped.
        batch: validation streams on which it is seen how decided the actions are.
        validate: measures a discrete machine; lower is better, for example `stream_loss` or the
            share of sequences that are wrong. It must not be test data.
        every: batches of fine-tuning between two looks.
        factor: above 1. 1.1 to 1.5 are small steps that the other weights can follow.
        decided: weight that every action must have, above 0.5 and below 1.
        largest: product of the factors at which rounding ends undecided.
        piece_steps: steps of one call of the model on `batch`.
        device: where the model is.
    Raises:
        ConfigError: a number is out of range, all of them together; the model has no such memory.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        validate: Callable[[nn.Module], float],
        *,
        every: int = 50,
        factor: float = 1.25,
        decided: float = 0.999,
        largest: float = 1e4,
        piece_steps: int = 1000,
        device: torch.device | str = "cpu",
    ) -> None:
        faults = []
        if not isinstance(every, int) or isinstance(every, bool) or every < 1:
            faults.append(f"every: expected an integer >= 1, got {every!r}")
        if not 1 < factor < math.inf:
            faults.append(f"factor: expected a finite number above 1, got {factor!r}")
        if not 0.5 < decided < 1:
            faults.append(f"decided: expected a number above 0.5 and below 1, got {decided!r}")
        if not 1 < largest <= 1e9:
            faults.append(f"largest: expected a number above 1, at most 1e9, got {largest!r}")
        if faults:
            raise ConfigError(faults)
        self._model, self._batch, self._validate = model, batch, validate
        self._every, self._factor = every, factor
        self._bound, self._largest = decided, largest
        self._piece_steps, self._device = piece_steps, device
        self._best = math.inf
        self._looked, self._loss, self._decided, self._sharpness = 0, math.inf, 0.0, 1.0
        self._backup = Backup(model, _NUMBERS, "the state of the rounding")
        self._decided = self._least()  # fails here, before any training, without such a memory

    @property
    def sharpness(self) -> float:
        """The product of the factors at the last look."""
        return self._sharpness

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Look, when a look is due."""
        if state.batch != 1 and state.batch % self._every:
            return None
        # A look that is repeated after an interruption must not sharpen once more.
        if state.batch != self._looked:
            self._look(state.batch)
        record(
            {
                "kind": "rounding",
                "batch": state.batch,
                "validation_loss_discrete": self._loss,
                "best_validation_loss_discrete": self._best,
                "least_action_weight": self._decided,
                "sharpness": self._sharpness,
            }
        )
        if self._decided >= self._bound:
            return (
                f"rounding: all actions are decided, the least weight is {self._decided:.4f} at "
                f"sharpness {self._sharpness:.3g}"
            )
        if self._sharpness >= self._largest:
            return (
                f"rounding: the sharpness reached {self._sharpness:.3g} and the least decided "
                f"action has weight {self._decided:.4f}"
            )
        return None

    def _look(self, batch: int) -> None:
        if self._looked:
            self._sharpness *= self._factor  # that is what the last look did to the weights
        self._looked = batch
        training = self._model.training
        self._model.eval()
        try:
            self._loss, self._decided = self._validate(discretized(self._model)), self._least()
        finally:
            self._model.train(training)
        if self._loss <= self._best:
            self._best = self._loss
            self._backup.keep()
        if self._decided < self._bound and self._sharpness < self._largest:
            scale_actions(self._model, self._factor)

    def _least(self) -> float:
        return least_decided(
            self._model, self._batch, piece_steps=self._piece_steps, device=self._device
        )

    def restore(self) -> None:
        """Put the best weights back; without a look so far nothing changes."""
        self._backup.restore()

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold of it."""
        return self._backup.tensors(
            self._best, self._looked, self._loss, self._decided, self._sharpness
        )

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave.

        Raises:
            CheckpointError: something is missing.
        """
        numbers = self._backup.load(tensors)
        self._best, looked, self._loss, self._decided, self._sharpness = numbers
        self._looked = int(looked)
