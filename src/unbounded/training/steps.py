"""Gradient steps: one a batch, or one a piece of it with the state carried on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator, DistributedType
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn
from torch.optim.optimizer import (
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
)

from unbounded.errors import ChoiceError, NonFiniteError
from unbounded.memories import detach_state
from unbounded.tasks import Batch, pieces
from unbounded.training import finite
from unbounded.training.bound_steps import bound_gradient
from unbounded.training.carry import Carry
from unbounded.training.looked_up import looked_up
from unbounded.training.objective import training_loss
from unbounded.training.optimizers import CLIPS
from unbounded.training.options import PhaseOptions
from unbounded.training.random_sharpness import RandomSharpness


class StepResult(NamedTuple):
    """What training a batch, or a piece of one, gave.

    Fields:
        nats, tokens: summed loss and counted steps, over all processes; without the smoothing of
            labels, which only the gradient has.
        symbols: steps of all sequences, counted or not.
        gradient_norm: before clipping; None where nothing counted.
        stop: the signal that asked any process to stop, or 0.
        done: share of the batch that is trained, 1 at its end.
    """

    nats: float
    tokens: int
    symbols: int
    gradient_norm: float | None
    stop: int
    done: float


def bare_optimizer(
    optimizer: torch.optim.Optimizer, accelerator: Accelerator
) -> torch.optim.Optimizer:
    """What steps: torch's own optimizer, where accelerate's plain wrapper adds nothing to a step.

    It does with a float16 loss scaler and on a TPU, and another of its wrappers steps elsewhere
    (DeepSpeed's); otherwise it only looks for packages on the disk, twice in each step, which is
    a sixth of the step of a small model.
    """
    is_needed = accelerator.scaler is not None or (
        accelerator.distributed_type == DistributedType.XLA
    )
    is_plain = type(optimizer) is AcceleratedOptimizer and not is_needed
    return getattr(optimizer, "optimizer", optimizer) if is_plain else optimizer


def plain_sgd(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of an optimizer is nothing but `step_plain_sgd`."""
    return (
        type(optimizer) is torch.optim.SGD
        and not _runs_step_hooks(optimizer)
        and not any(
            group[name]
            for group in optimizer.param_groups
            for name in ("momentum", "weight_decay", "nesterov", "maximize", "differentiable")
        )
    )


def _runs_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )


@torch.no_grad()
def step_plain_sgd(optimizer: torch.optim.Optimizer) -> None:
    """Take the gradient times the rate from each parameter: a fifth of what torch's own call takes.

    For a small model a step of `torch.optim.SGD` is mostly its hooks and profiling.
    """
    for group in optimizer.param_groups:
        moved = [each for each in group["params"] if each.grad is not None]
        if moved:
            torch._foreach_add_(moved, [each.grad for each in moved], alpha=-group["lr"])


class BatchTrainer:
    """Trains a model on one batch after another.

    With `piece_steps` a batch is cut along time for truncated BPTT: each piece is a gradient step,
    the state goes on from piece to piece without its gradient, and begins anew with the batch.

    Args:
        model: prepared by `accelerator`; called as model(inputs), as model(inputs, state) on a
            further piece, and as model(inputs, state, lengths) where not all sequences are as long
            as the batch; gives logits [B, T, V] and the state.
        optimizer: prepared by `accelerator`.
        accelerator: device, precision and processes.
        totals: sums a loss over all processes; also says which signal asked to stop, or 0.
        options: clip, clip_by, piece_steps, average, prediction_clip and label_smoothing.
        objective: of the task, one of `OBJECTIVES`.
        carry: holds the place in a batch; one that a checkpoint gave lets it be taken up there.
        sharpness: makes decisions and units surer for the time of a step; None leaves them.
    Raises:
        ChoiceError: `clip_by` is neither.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        accelerator: Accelerator,
        totals: Callable[[Tensor], tuple[float, int]],
        options: PhaseOptions,
        *,
        objective: str = "cross_entropy",
        carry: Carry | None = None,
        sharpness: RandomSharpness | None = None,
    ) -> None:
        if options.clip_by not in CLIPS:
            raise ChoiceError("clip_by", options.clip_by, CLIPS)
        self._model = model
        self._parameters = list(model.parameters())
        self._optimizer = bare_optimizer(optimizer, accelerator)
        # What schedules wrap is called once, or they warn of a step that was none.
        self._plain = plain_sgd(self._optimizer)
        self._has_stepped = False
        self._accelerator = accelerator
        self._totals = totals
        clip = options.prediction_clip
        self._loss = training_loss(objective, prediction_clip=clip)
        self._smoothed = None
        if options.label_smoothing:
            self._smoothed = training_loss(
                objective, prediction_clip=clip, label_smoothing=options.label_smoothing
            )
        self._clip, self._clip_by = options.clip, options.clip_by
        self._piece_steps = options.piece_steps
        self._carry = carry or Carry()
        self._average = options.average
        self._sharpness = sharpness
        self._bound = bound_gradient(model, accelerator, options, objective)
        self._looked_up = None
        if self._plain and options.clip_by == "value":
            self._looked_up = looked_up(model, accelerator, self._optimizer)

    def train(self, whole: Batch, number: int) -> Iterator[StepResult]:
        """Train a batch, the same one on all processes, from where it was left.

        Args:
            whole: the batch of all processes.
            number: its place in the run, for messages.
        Returns:
            The result of each gradient step, when it is made.
        Raises:
            NonFiniteError: a loss or gradient went bad.
        """
        carry = self._carry
        # Those of a step that an error ended; the caller may have gone on.
        self._forget_gradients()
        if self._piece_steps is None:
            yield self._step(whole, number)._replace(done=1.0)
            return
        if carry.loaded:
            # For the state's form alone; what is drawn after a checkpoint stays what it would be.
            device = self._accelerator.device
            with torch.random.fork_rng([device] if device.type == "cuda" else []):
                carry.rebuild(self._pass_by(next(pieces(whole, 1)), None))
        steps = whole.inputs.shape[1]
        for place, piece in enumerate(pieces(whole, self._piece_steps)):
            if place < carry.piece:
                continue
            result = self._step(piece, number)
            after = (place + 1) * self._piece_steps
            if after >= steps:
                carry.move(0, None)
            yield result._replace(done=min(1.0, after / steps))

    def _call(self, share: Batch, state: Any, *, is_ragged: bool = False) -> Any:
        if is_ragged:
            return self._model(share.inputs, state, share.lengths)
        return self._model(share.inputs) if state is None else self._model(share.inputs, state)

    def _pass_by(self, piece: Batch, state: Any) -> Any:
        """Carry the state over a piece without training on it."""
        with torch.no_grad():
            return self._call(self._share(piece), state)[1]

    def _step(self, piece: Batch, number: int) -> StepResult:
        """A gradient step, and the state carried over it."""
        carry, tokens, symbols = self._carry, int(piece.mask.sum()), int(piece.lengths.sum())
        if tokens == 0 and self._piece_steps is not None:
            carry.move(carry.piece + 1, self._pass_by(piece, carry.state))
            stop = self._totals(torch.zeros(()))[1]
            return StepResult(0.0, 0, symbols, None, stop, 0.0)
        sharpness = self._sharpness
        with nullcontext() if sharpness is None else sharpness.of_step(number, carry.piece):
            nats, norm, stop, state = self._move(piece, tokens, number)
            if self._looked_up is not None:
                self._looked_up.step()
        self._forget_gradients()
        if self._piece_steps is not None:
            carry.move(carry.piece + 1, state)
        return StepResult(nats, tokens, symbols, norm, stop, 0.0)

    def _move(self, piece: Batch, tokens: int, number: int) -> tuple[float, float, int, Any]:
        """Move the weights by the gradient of a piece: its loss, the norm, a signal, the state."""
        carry, share = self._carry, self._share(piece)
        processes = self._accelerator.num_processes
        # Processes average their gradients; each sum divided by the tokens of all processes and
        # times their number makes that average the gradient of the piece's mean.
        scale = processes / (tokens if self._average else 1)
        if self._bound is not None and self._bound.fits(share):
            nats, logits, state = self._bound.step(share, carry.state, scale)
            minimised = nats
        else:
            is_ragged = int(piece.lengths.min()) < piece.inputs.shape[1]
            results = self._through_graph(share, scale, is_ragged=is_ragged)
            nats, minimised, logits, state = results
        nats_of_all, stop = self._totals(nats)
        if not math.isfinite(nats_of_all):
            self._went_bad(number, share, logits, minimised)
        norm = float(self._clip_gradient())
        # In float16 the loss scaler meets infinite gradients on purpose and skips the step.
        if self._accelerator.mixed_precision != "fp16" and not math.isfinite(norm):
            self._went_bad(number, share, logits, minimised)
        if self._plain and self._has_stepped and not _runs_step_hooks(self._optimizer):
            step_plain_sgd(self._optimizer)
        else:
            self._optimizer.step()
            self._has_stepped = True
        return nats_of_all, norm, stop, state

    def _through_graph(
        self, share: Batch, scale: float, *, is_ragged: bool
    ) -> tuple[Tensor, Tensor, Tensor, Any]:
        """Loss, what is minimised, logits and state after a piece; and the gradients, by torch."""
        # Models are causal: padding behind a sequence changes nothing that the mask counts, and
        # whoever knows where it begins can leave it out.
        columns = self._looked_up
        # Hooks of the optimizer see the whole gradient.
        if columns is None or _runs_step_hooks(self._optimizer) or not columns.fits():
            result = self._call(share, self._carry.state, is_ragged=is_ragged)
        else:
            lengths = share.lengths if is_ragged else None
            result = columns.run(share, self._carry.state, lengths)
        logits = result[0]
        counted = (logits, share.targets, share.mask)
        if self._smoothed is None:
            nats = minimised = self._loss(*counted)
        else:
            minimised = self._smoothed(*counted)
            with torch.no_grad():
                # Where the smoothed loss alone is not finite, all processes have to see it.
                nats = torch.where(minimised.isfinite(), self._loss(*counted), minimised)
        self._accelerator.backward(minimised * scale)
        state = None if self._piece_steps is None else detach_state(result[1])
        return nats, minimised, logits, state

    def _forget_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None
        if self._looked_up is not None:
            self._looked_up.forget()

    def _column_gradient(self) -> Tensor | None:
        return None if self._looked_up is None else self._looked_up.grad

    def _clip_gradient(self) -> Tensor:
        """Clip; the norm before."""
        parameters = self._parameters
        # What is sharper has a steeper loss, and a bound that lets it learn would throw it off.
        sharpest = 1 if self._sharpness is None else self._sharpness.most
        clip = self._clip / math.sqrt(sharpest)
        if self._clip_by == "norm":
            return torch.as_tensor(self._accelerator.clip_grad_norm_(parameters, clip))
        self._accelerator.unscale_gradients()
        gradients = [each.grad for each in parameters if each.grad is not None]
        if (columns := self._column_gradient()) is not None:
            gradients.append(columns)
        # What torch.nn.utils does for tensors on one device, without looking for others.
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if not math.isfinite(norm):
            # Squares overflow long before elements do, and cut they are as good as any.
            whole = [each.double() for each in gradients]
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(whole)))
        # No element is larger than the norm, which is rounded.
        if not norm < 0.999 * clip:
            torch._foreach_clamp_min_(gradients, -clip)
            torch._foreach_clamp_max_(gradients, clip)
        return norm

    def _share(self, batch: Batch) -> Batch:
        """This process's rows of a batch, on its device."""
        rank, processes = self._accelerator.process_index, self._accelerator.num_processes
        device = self._accelerator.device
        if processes == 1 and device.type == "cpu":
            return batch
        return Batch(*(field[rank::processes].to(device) for field in batch))

    def _went_bad(self, number: int, share: Batch, logits: Tensor, loss: Tensor) -> None:
        fault = (
            finite.first_bad(finite.parameters(self._model))
            or finite.first_bad_output(self._model, share.inputs)
            or finite.first_bad([("logits", logits), ("loss", loss)])
            or finite.first_bad(finite.gradients(self._model))
            or finite.first_bad([("gradient of the columns looked up", self._column_gradient())])
            or self._of_no_tensor()
        )
        raise NonFiniteError(
            f"training stopped in step {number + 1}: the loss or its gradient is not finite; "
            f"the first bad tensor: {fault}"
        )

    def _of_no_tensor(self) -> str:
        if self._accelerator.num_processes > 1:
            return "none of this process's; look at the others"
        return (
            "none, but the gradient's norm is, because the squares of its numbers are too large; a "
            "lower training.learning_rate or another seed may help"
        )
