"""Gradient steps: one a batch, or one a piece of it with the state carried on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from unbounded.errors import ChoiceError, NonFiniteError
from unbounded.memories import detach_state
from unbounded.tasks import Batch, pieces
from unbounded.training import finite
from unbounded.training.objective import masked_cross_entropy

CLIPS = ("norm", "value")


class BatchResult(NamedTuple):
    """What training a batch gave.

    Fields:
        nats, tokens: summed loss and counted steps, over all processes.
        gradient_norm: of the last step, before clipping.
        stop: the signal that asked any process to stop, or 0.
    """

    nats: float
    tokens: int
    gradient_norm: float
    stop: int


class BatchTrainer:
    """Trains a model on one batch after another.

    With `piece_steps` a batch is cut along time for truncated BPTT: each piece is a gradient step,
    the state goes on from piece to piece without its gradient, and begins anew with the batch.

    Args:
        model: prepared by `accelerator`; called as model(inputs), or model(inputs, state) on a
            further piece; gives logits [B, T, V] and the state.
        optimizer: prepared by `accelerator`.
        accelerator: device, precision and processes.
        totals: sums a loss over all processes; also says which signal asked to stop, or 0.
        clip: bound on the gradient.
        clip_by: "norm" scales the gradient, "value" cuts each of its elements.
        piece_steps: time steps of a piece, None for the whole batch at once.
    Raises:
        ChoiceError: `clip_by` is neither.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        accelerator: Accelerator,
        totals: Callable[[Tensor], tuple[float, int]],
        *,
        clip: float,
        clip_by: str = "norm",
        piece_steps: int | None = None,
    ) -> None:
        if clip_by not in CLIPS:
            raise ChoiceError("clip_by", clip_by, CLIPS)
        self._model = model
        self._optimizer = optimizer
        self._accelerator = accelerator
        self._totals = totals
        self._clip = clip
        self._clip_by = clip_by
        self._piece_steps = piece_steps

    def train(self, whole: Batch, number: int) -> BatchResult:
        """Train a batch, the same one on all processes.

        Args:
            whole: the batch of all processes.
            number: its place in the run, for messages.
        Raises:
            NonFiniteError: a loss or gradient went bad.
        """
        state: Any = None
        nats, tokens, norm, stop = 0.0, 0, 0.0, 0
        for piece in self._cut(whole):
            counted = int(piece.mask.sum())
            if counted == 0 and self._piece_steps is not None:
                state = self._pass_by(piece, state)
                continue
            of_piece, norm, signal, state = self._step(piece, counted, state, number)
            nats, tokens, stop = nats + of_piece, tokens + counted, stop or signal
        return BatchResult(nats, tokens, norm, stop)

    def _cut(self, whole: Batch) -> Iterable[Batch]:
        return [whole] if self._piece_steps is None else pieces(whole, self._piece_steps)

    def _call(self, share: Batch, state: Any) -> Any:
        return self._model(share.inputs) if state is None else self._model(share.inputs, state)

    def _pass_by(self, piece: Batch, state: Any) -> Any:
        """Carry the state over a piece in which nothing counts."""
        with torch.no_grad():
            return self._call(self._share(piece), state)[1]

    def _step(
        self, piece: Batch, tokens: int, state: Any, number: int
    ) -> tuple[float, float, int, Any]:
        share = self._share(piece)
        processes = self._accelerator.num_processes
        # Models are causal: padding behind a sequence changes nothing that the mask counts.
        result = self._call(share, state)
        logits = result[0]
        nats = masked_cross_entropy(logits, share.targets, share.mask)
        # Processes average their gradients; each sum divided by the tokens of all processes and
        # times their number makes that average the gradient of the piece's mean.
        self._accelerator.backward(nats * (processes / tokens))
        nats_of_all, stop = self._totals(nats)
        if not math.isfinite(nats_of_all):
            self._went_bad(number, share, logits, nats)
        norm = self._clip_gradient()
        # In float16 the loss scaler meets infinite gradients on purpose and skips the step.
        if self._accelerator.mixed_precision != "fp16" and not bool(torch.isfinite(norm)):
            self._went_bad(number, share, logits, nats)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        after = None if self._piece_steps is None else detach_state(result[1])
        return nats_of_all, float(norm), stop, after

    def _clip_gradient(self) -> Tensor:
        """Clip; the norm before."""
        parameters = list(self._model.parameters())
        if self._clip_by == "norm":
            return torch.as_tensor(self._accelerator.clip_grad_norm_(parameters, self._clip))
        self._accelerator.unscale_gradients()
        gradients = [each.grad for each in parameters if each.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        torch.nn.utils.clip_grad_value_(parameters, self._clip)
        return norm

    def _share(self, batch: Batch) -> Batch:
        """This process's rows of a batch, on its device."""
        rank, processes = self._accelerator.process_index, self._accelerator.num_processes
        device = self._accelerator.device
        return Batch(*(field[rank::processes].to(device) for field in batch))

    def _went_bad(self, number: int, share: Batch, logits: Tensor, loss: Tensor) -> None:
        fault = (
            finite.first_bad(finite.parameters(self._model))
            or finite.first_bad_output(self._model, share.inputs)
            or finite.first_bad([("logits", logits), ("loss", loss)])
            or finite.first_bad(finite.gradients(self._model))
            or "none of this process's; look at the others"
        )
        raise NonFiniteError(
            f"training stopped in step {number + 1}: the loss or its gradient is not finite; "
            f"the first bad tensor: {fault}"
        )
