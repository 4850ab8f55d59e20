"""The update of the authors' program: a step of SGD after every symbol, for its error alone.

Source: the program of Joulin & Mikolov 2015; the paper only says "stochastic gradient descent and
back-propagation through time, 50 steps".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from unbounded.errors import ChoiceError, ConfigError, NonFiniteError
from unbounded.layers.symbol_steps import History, gradients, step, weights_of
from unbounded.models.discrete import sequence_model
from unbounded.models.sequence_model import SequenceModel
from unbounded.tasks import Batch
from unbounded.training.carry import Carry
from unbounded.training.optimizers import UPDATES
from unbounded.training.options import PhaseOptions
from unbounded.training.random_sharpness import RandomSharpness
from unbounded.training.steps import BatchTrainer, StepResult

#: Steps that the authors' program goes back.
DEFAULT_REACH = 50


#: Model, optimizer and schedule, as accelerate prepared them.
Trained = tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]


def make_trainer(
    trained: Trained,
    accelerator: Accelerator,
    totals: Callable[[Tensor], tuple[float, int]],
    options: PhaseOptions,
    *,
    objective: str,
    carry: Carry | None,
    sharpness: RandomSharpness | None = None,
) -> BatchTrainer | SymbolTrainer:
    """What trains a batch: a gradient step for each piece of it, or for each symbol.

    Args:
        trained, accelerator, totals, carry: as for `BatchTrainer`.
        options: `update` is "piece" (`BatchTrainer`) or "symbol" (`SymbolTrainer`, with the pieces
            as its reach).
        objective: of the task.
        sharpness: as for `BatchTrainer`; an update after each symbol has none.
    Raises:
        ChoiceError: `update` or `clip_by` is not among those there are.
        ConfigError: the model or the objective cannot be updated after every symbol.
    """
    if options.update not in UPDATES:
        raise ChoiceError("update", options.update, UPDATES)
    model, optimizer, _ = trained
    if options.update == "piece":
        return BatchTrainer(
            model, optimizer, accelerator, totals, options,
            objective=objective, carry=carry, sharpness=sharpness,
        )  # fmt: skip
    if objective != "cross_entropy":
        raise ConfigError([f"update: after every symbol only cross entropy, not {objective!r}"])
    return SymbolTrainer(
        sequence_model(accelerator.unwrap_model(model)),
        optimizer,
        reach=options.piece_steps or DEFAULT_REACH,
        clip=options.clip,
        carry=carry or Carry(),
        stop=lambda: totals(torch.zeros(()))[1],
    )


class SymbolTrainer:
    """Trains a Stack RNN on one stream, with an update after each symbol that counts.

    The error of the current symbol goes back through at most `reach` stored steps, not past the
    beginning of the stream, and through no more steps than there have been updates since then:
    where only answers count, the first of them reach less far. Activations are those stored when
    they were computed, weights the current ones. Errors are clipped, not gradients, and the
    learning rate is not averaged over anything. All this is as in the authors' program; what it
    does differently is that the first symbol of an epoch is passed without an update.

    Args:
        model: a Stack RNN (`weights_of`).
        optimizer: says the learning rate, and nothing else.
        reach: most stored steps, at least 1.
        clip: bound on each element of an error, above 0.
        carry: holds the place in a stream.
        stop: says which signal asked to stop, or 0.
        report_steps: symbols between two results.
    Raises:
        ConfigError: the model is of another kind.
    """

    def __init__(
        self,
        model: SequenceModel,
        optimizer: torch.optim.Optimizer,
        *,
        reach: int,
        clip: float,
        carry: Carry,
        stop: Callable[[], int],
        report_steps: int = 200,
    ) -> None:
        weights_of(model.layer, model.output)
        self._model = model
        self._optimizer = optimizer
        self._reach = reach
        self._clip = clip
        self._carry = carry
        self._stop = stop
        self._report_steps = report_steps

    def train(self, whole: Batch, number: int) -> Iterator[StepResult]:
        """Train a stream from where it was left; a result every `report_steps` symbols.

        Args:
            whole: one stream.
            number: its place in the run, for messages.
        Raises:
            ConfigError: there is more than one stream.
            NonFiniteError: the loss went bad.
        """
        if len(whole.inputs) != 1:
            raise ConfigError([f"batch_size: expected 1 stream, got {len(whole.inputs)}"])
        carry, steps, size = self._carry, whole.inputs.shape[1], self._report_steps
        history = History.empty(self._model.layer)
        if carry.loaded:
            carry.rebuild(history.state())
        if carry.state is not None:
            history = History.of(carry.state)
        for first in range(carry.piece * size, steps, size):
            last = min(first + size, steps)
            nats, tokens = self._train_symbols(whole, first, last, history)
            if not math.isfinite(nats):
                raise NonFiniteError(f"training stopped in step {number + 1}: the loss is {nats}")
            if last < steps:
                carry.move(carry.piece + 1, history.state())
            else:
                carry.move(0, None)
                # Without gradients this changes nothing; the schedule counts its steps.
                self._optimizer.step()
            yield StepResult(nats, tokens, last - first, None, self._stop(), last / steps)

    def _train_symbols(
        self, whole: Batch, first: int, last: int, history: History
    ) -> tuple[float, int]:
        """Symbols `first` to `last - 1` of a stream; the loss and how many counted."""
        weights = weights_of(self._model.layer, self._model.output)
        rate = float(self._optimizer.param_groups[0]["lr"])
        inputs, targets, mask = (field[0, first:last].tolist() for field in whole[:3])
        nats, tokens = 0.0, 0
        for symbol, target, counts in zip(inputs, targets, mask, strict=True):
            chances = step(weights, history, symbol)
            history.forget(self._reach)
            if not counts:
                continue
            nats -= math.log(max(float(chances[target]), 1e-300))
            tokens += 1
            history.updates += 1
            found = gradients(weights, history, chances, target, reach=self._reach, clip=self._clip)
            for weight, gradient in zip(weights, found, strict=True):
                weight += rate * gradient
        return nats, tokens
