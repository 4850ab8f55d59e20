"""Gradient steps: one for each batch, or one for each chunk of a batch with a carried state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator, DistributedType
from accelerate.optimizer import AcceleratedOptimizer
from torch import Tensor, nn
from torch.optim.optimizer import (
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
)

from unbounded.checks import check_choice
from unbounded.errors import NonFiniteError
from unbounded.memories import detach_state
from unbounded.tasks import Batch, chunks
from unbounded.training import finite
from unbounded.training.carried_state import CarriedState
from unbounded.training.hook import Hook
from unbounded.training.objective import training_loss
from unbounded.training.options import CLIPS, REDUCTIONS, PhaseOptions
from unbounded.training.row_sparse import row_sparse
from unbounded.training.static_buffer_step import static_gradient


class StepResult(NamedTuple):
    """The result of training on a batch or on a chunk of a batch.

    Fields:
        nats, tokens: summed loss and counted steps, over all processes; without label smoothing,
            which affects only the gradient.
        symbols: steps of all sequences, counted or not.
        gradient_norm: before clipping; None if nothing counted.
        stop: a signal that requests a stop of any process, or 0.
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
    """Torch's own optimizer if accelerate's wrapper adds nothing to a step.

    The wrapper adds to a step if there is a float16 loss scaler, and on a TPU. DeepSpeed's wrapper
    makes the step elsewhere. Otherwise the wrapper only searches for packages on the disk, twice in
    each step, which takes a sixth of the step of a small model.
    """
    is_needed = accelerator.scaler is not None or (
        accelerator.distributed_type == DistributedType.XLA
    )
    is_plain = type(optimizer) is AcceleratedOptimizer and not is_needed
    return getattr(optimizer, "optimizer", optimizer) if is_plain else optimizer


def plain_sgd(optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer's step equals `step_plain_sgd`."""
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
    """Subtract gradient times rate from each parameter, in a fifth of the time that torch needs.

    For a small model, hooks and profiling take most of the time of a step of `torch.optim.SGD`.
    """
    for group in optimizer.param_groups:
        trained = [weight for weight in group["params"] if weight.grad is not None]
        if trained:
            torch._foreach_add_(trained, [weight.grad for weight in trained], alpha=-group["lr"])


class ChunkUpdate:
    """Trains a model on one batch after another.

    With `chunk_steps` a batch is split along time for truncated BPTT. Each chunk is a gradient
    step. The state is carried from chunk to chunk, detached, and is reset at each batch.

    Args:
        model: prepared by `accelerator`. It returns logits [B, T, V] and the state. It is called as
            model(inputs), for a later chunk as model(inputs, state), and where sequences are
            shorter than the batch as model(inputs, state, lengths).
        optimizer: prepared by `accelerator`.
        accelerator: device, precision and processes.
        totals: sums a loss over all processes; also returns the signal that requests a stop, or 0.
        options: clip, clip_by, chunk_steps, reduction and label_smoothing.
        objective: the task's objective, one of `OBJECTIVES`.
        further: a loss of logits and batch, summed over the sequences, that is minimised together
            with the objective, without label smoothing. A binary objective then counts the first
            output only. None for no further loss.
        carried: holds the position in a batch; training resumes there.
        hooks: may surround a step and change the bound on the gradient.
    Raises:
        ChoiceError: `clip_by` or `reduction` is unknown.
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
        further: Callable[[Tensor, Batch], Tensor] | None = None,
        carried: CarriedState | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        check_choice("clip_by", options.clip_by, CLIPS)
        check_choice("reduction", options.reduction, REDUCTIONS)
        self._model = model
        self._parameters = list(model.parameters())
        self._optimizer = bare_optimizer(optimizer, accelerator)
        # A schedule wraps `step`, and warns unless `step` was called once.
        self._plain = plain_sgd(self._optimizer)
        self._has_stepped = False
        self._accelerator = accelerator
        self._totals = totals
        self._loss = training_loss(objective)
        self._smoothed = None
        if options.label_smoothing:
            self._smoothed = training_loss(objective, options.label_smoothing)
        self._further, self._is_binary = further, objective == "binary"
        self._clip, self._clip_by = options.clip, options.clip_by
        self._chunk_steps = options.chunk_steps
        self._carried = carried or CarriedState()
        self._mean = options.reduction == "mean"
        # Because a step is short, only the hooks that act on it are called.
        self._around = [each for each in hooks if type(each).around_step is not Hook.around_step]
        self._clips = [each for each in hooks if type(each).clip is not Hook.clip]
        self._static = None
        if further is None:
            self._static = static_gradient(model, accelerator, options, objective)
        self._row_sparse = None
        if self._plain and options.clip_by == "value":
            self._row_sparse = row_sparse(model, accelerator, self._optimizer)

    def train(self, whole: Batch, number: int) -> Iterator[StepResult]:
        """Train on the rest of a batch. All processes have the same batch.

        Args:
            whole: the batch of all processes.
            number: its place in the run, for messages.
        Returns:
            The results of the gradient steps, one after each.
        Raises:
            NonFiniteError: a loss or gradient is not finite.
        """
        carried = self._carried
        # An error may have ended the previous step, after which the caller may have continued.
        self._forget_gradients()
        if self._chunk_steps is None:
            yield self._step(whole, number)._replace(done=1.0)
            return
        if carried.loaded:
            # The model is called only for the structure of its state. Random numbers after a
            # checkpoint stay the same.
            device = self._accelerator.device
            with torch.random.fork_rng([device] if device.type == "cuda" else []):
                carried.rebuild(self._skip(next(chunks(whole, 1)), None))
        steps = whole.inputs.shape[1]
        for place, chunk in enumerate(chunks(whole, self._chunk_steps)):
            if place < carried.chunk:
                continue
            result = self._step(chunk, number)
            after = (place + 1) * self._chunk_steps
            if after >= steps:
                carried.move(0, None)
            yield result._replace(done=min(1.0, after / steps))

    def _call(self, share: Batch, state: Any, *, is_ragged: bool = False) -> Any:
        if is_ragged:
            return self._model(share.inputs, state, share.lengths)
        return self._model(share.inputs) if state is None else self._model(share.inputs, state)

    def _skip(self, chunk: Batch, state: Any) -> Any:
        """Carry the state over a chunk without training on it."""
        with torch.no_grad():
            return self._call(self._share(chunk), state)[1]

    def _step(self, chunk: Batch, number: int) -> StepResult:
        """Make a gradient step on a chunk, and move the carried state."""
        carried, tokens, symbols = self._carried, int(chunk.mask.sum()), int(chunk.lengths.sum())
        if tokens == 0 and self._chunk_steps is not None:
            carried.move(carried.chunk + 1, self._skip(chunk, carried.state))
            stop = self._totals(torch.zeros(()))[1]
            return StepResult(0.0, 0, symbols, None, stop, 0.0)
        with ExitStack() as around:
            for hook in self._around:
                if (context := hook.around_step(number, carried.chunk)) is not None:
                    around.enter_context(context)
            nats, norm, stop, state = self._update_weights(chunk, tokens, number)
            if self._row_sparse is not None:
                self._row_sparse.step()
        self._forget_gradients()
        if self._chunk_steps is not None:
            carried.move(carried.chunk + 1, state)
        return StepResult(nats, tokens, symbols, norm, stop, 0.0)

    def _update_weights(
        self, chunk: Batch, tokens: int, number: int
    ) -> tuple[float, float, int, Any]:
        """Step the optimizer on a chunk; return loss, gradient norm, signal and state."""
        carried, share = self._carried, self._share(chunk)
        processes = self._accelerator.num_processes
        # Processes average their gradients. If each sum is divided by the tokens of all processes
        # and multiplied by their number, the average is the gradient of the chunk's mean.
        scale = processes / (tokens if self._mean else 1)
        if self._static is not None and self._static.fits(share):
            nats, logits, state = self._static.step(share, carried.state, scale)
            minimised = nats
        else:
            is_ragged = int(chunk.lengths.min()) < chunk.inputs.shape[1]
            results = self._through_graph(share, scale, is_ragged=is_ragged)
            nats, minimised, logits, state = results
        nats_of_all, stop = self._totals(nats)
        if not math.isfinite(nats_of_all):
            self._raise_not_finite(number, share, logits, minimised)
        norm = float(self._clip_gradient())
        # In float16 the loss scaler produces infinite gradients on purpose and then skips the step.
        if self._accelerator.mixed_precision != "fp16" and not math.isfinite(norm):
            self._raise_not_finite(number, share, logits, minimised)
        if self._plain and self._has_stepped and not _runs_step_hooks(self._optimizer):
            step_plain_sgd(self._optimizer)
        else:
            self._optimizer.step()
            self._has_stepped = True
        return nats_of_all, norm, stop, state

    def _through_graph(
        self, share: Batch, scale: float, *, is_ragged: bool
    ) -> tuple[Tensor, Tensor, Tensor, Any]:
        """Compute gradients by torch's graph.

        Return loss, minimised loss, logits and state of a chunk.
        """
        # Models are causal, so the padding after a sequence does not affect a counted step. If the
        # lengths are given, the model can skip the padding.
        columns = self._row_sparse
        # The optimizer's hooks must see the whole gradient.
        if columns is None or _runs_step_hooks(self._optimizer) or not columns.fits():
            result = self._call(share, self._carried.state, is_ragged=is_ragged)
        else:
            lengths = share.lengths if is_ragged else None
            result = columns.run(share, self._carried.state, lengths)
        logits = result[0]
        is_first_alone = self._further is not None and self._is_binary
        counted = (logits[..., :1] if is_first_alone else logits, share.targets, share.mask)
        if self._smoothed is None:
            nats = minimised = self._loss(*counted)
        else:
            minimised = self._smoothed(*counted)
            with torch.no_grad():
                # All processes must notice if only the smoothed loss is not finite.
                nats = torch.where(minimised.isfinite(), self._loss(*counted), minimised)
        if self._further is not None:
            minimised = minimised + self._further(logits, share)
        self._accelerator.backward(minimised * scale)
        state = None if self._chunk_steps is None else detach_state(result[1])
        return nats, minimised, logits, state

    def _forget_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None
        if self._row_sparse is not None:
            self._row_sparse.forget()

    def _column_gradient(self) -> Tensor | None:
        return None if self._row_sparse is None else self._row_sparse.grad

    def _clip_gradient(self) -> Tensor:
        """Clip the gradient, and return its norm before clipping."""
        parameters = self._parameters
        clip = self._clip
        for hook in self._clips:
            clip = hook.clip(clip)
        if self._clip_by == "norm":
            return torch.as_tensor(self._accelerator.clip_grad_norm_(parameters, clip))
        self._accelerator.unscale_gradients()
        gradients = [tensor.grad for tensor in parameters if tensor.grad is not None]
        if (columns := self._column_gradient()) is not None:
            gradients.append(columns)
        # The computation is as in torch.nn.utils for tensors on one device, without the search for
        # other devices.
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        if not math.isfinite(norm):
            # Squares overflow long before elements do, and clipped elements are still usable.
            in_double = [tensor.double() for tensor in gradients]
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(in_double)))
        # No element exceeds the norm. The factor 0.999 allows for the norm's rounding error.
        if not norm < 0.999 * clip:
            torch._foreach_clamp_min_(gradients, -clip)
            torch._foreach_clamp_max_(gradients, clip)
        return norm

    def _share(self, batch: Batch) -> Batch:
        """Return this process's rows of a batch, on its device."""
        rank, processes = self._accelerator.process_index, self._accelerator.num_processes
        device = self._accelerator.device
        if processes == 1 and device.type == "cpu":
            return batch
        return Batch(*(field[rank::processes].to(device) for field in batch))

    def _raise_not_finite(self, number: int, share: Batch, logits: Tensor, loss: Tensor) -> None:
        error = (
            finite.first_bad(finite.parameters(self._model))
            or finite.first_bad_output(self._model, share.inputs)
            or finite.first_bad([("logits", logits), ("loss", loss)])
            or finite.first_bad(finite.gradients(self._model))
            or finite.first_bad([("gradient of the columns looked up", self._column_gradient())])
            or self._without_bad_tensor()
        )
        raise NonFiniteError(
            f"training stopped in batch {number + 1}: the loss or its gradient is not finite; "
            f"the first bad tensor: {error}"
        )

    def _without_bad_tensor(self) -> str:
        if self._accelerator.num_processes > 1:
            return "not in this process; see the messages of the others"
        return (
            "none, but the gradient's norm is, because the squares of its numbers are too large; a "
            "lower training.learning_rate or another seed may help"
        )
