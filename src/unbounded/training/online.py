"""Per-symbol update of the authors' program: a step of SGD after every symbol, for its error alone.

Source: the program of Joulin & Mikolov 2015. The paper gives only "stochastic gradient descent and
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
from unbounded.training.carried_state import CarriedState
from unbounded.training.options import UPDATES, PhaseOptions
from unbounded.training.steps import BatchTrainer, StepResult
from unbounded.training.temperature_noise import TemperatureNoise

#: Truncation of the authors' program, in steps.
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
    carried: CarriedState | None,
    temperature_noise: TemperatureNoise | None = None,
) -> BatchTrainer | PerSymbolTrainer:
    """The trainer of a batch: a gradient step for each chunk of it, or for each symbol.

    Args:
        trained, accelerator, totals, carried: as for `BatchTrainer`.
        options: `update` is "chunk" (`BatchTrainer`) or "per_symbol" (`PerSymbolTrainer`, with
            `chunk_steps` as its reach).
        objective: the task's objective.
        temperature_noise: as for `BatchTrainer`; a per-symbol update has none.
    Raises:
        ChoiceError: `update` or `clip_by` is unknown.
        ConfigError: the model or the objective has no per-symbol update.
    """
    if options.update not in UPDATES:
        raise ChoiceError("update", options.update, UPDATES)
    model, optimizer, _ = trained
    if options.update == "chunk":
        return BatchTrainer(
            model, optimizer, accelerator, totals, options,
            objective=objective, carried=carried, temperature_noise=temperature_noise,
        )  # fmt: skip
    if objective != "cross_entropy":
        raise ConfigError([f"update: after every symbol only cross entropy, not {objective!r}"])
    return PerSymbolTrainer(
        sequence_model(accelerator.unwrap_model(model)),
        optimizer,
        reach=options.chunk_steps or DEFAULT_REACH,
        clip=options.clip,
        carried=carried or CarriedState(),
        stop=lambda: totals(torch.zeros(()))[1],
    )


class PerSymbolTrainer:
    """Trains a Stack RNN on one stream, with an update after each counted symbol.

    The error of the current symbol is backpropagated through at most `reach` stored steps, not past
    the start of the stream, and through at most as many steps as there were updates since. So where
    only answers count, the first errors reach less far. Activations are those of the forward pass,
    weights the current ones. Errors are clipped, not gradients, and the loss is not averaged. All
    this is as in the authors' program, which also skips the update at an epoch's first symbol.

    Args:
        model: a Stack RNN (`weights_of`).
        optimizer: only holds the learning rate.
        reach: most stored steps, at least 1.
        clip: bound on each element of an error, above 0.
        carried: holds the position in a stream.
        stop: returns the signal that requests a stop, or 0.
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
        carried: CarriedState,
        stop: Callable[[], int],
        report_steps: int = 200,
    ) -> None:
        weights_of(model.layer, model.output)
        self._model = model
        self._optimizer = optimizer
        self._reach = reach
        self._clip = clip
        self._carry = carried
        self._stop = stop
        self._report_steps = report_steps

    def train(self, whole: Batch, number: int) -> Iterator[StepResult]:
        """Train the rest of a stream; yield a result every `report_steps` symbols.

        Args:
            whole: one stream.
            number: its place in the run, for messages.
        Raises:
            ConfigError: there is more than one stream.
            NonFiniteError: the loss is not finite.
        """
        if len(whole.inputs) != 1:
            raise ConfigError([f"batch_size: expected 1 stream, got {len(whole.inputs)}"])
        carried, steps, size = self._carry, whole.inputs.shape[1], self._report_steps
        history = History.empty(self._model.layer)
        if carried.loaded:
            carried.rebuild(history.state())
        if carried.state is not None:
            history = History.of(carried.state)
        for first in range(carried.chunk * size, steps, size):
            last = min(first + size, steps)
            nats, tokens = self._train_symbols(whole, first, last, history)
            if not math.isfinite(nats):
                raise NonFiniteError(f"training stopped in step {number + 1}: the loss is {nats}")
            if last < steps:
                carried.move(carried.chunk + 1, history.state())
            else:
                carried.move(0, None)
                # Changes nothing without gradients; the schedule counts the optimizer's steps.
                self._optimizer.step()
            yield StepResult(nats, tokens, last - first, None, self._stop(), last / steps)

    def _train_symbols(
        self, whole: Batch, first: int, last: int, history: History
    ) -> tuple[float, int]:
        """Train symbols `first` to `last - 1`; return the loss and the number of counted ones."""
        weights = weights_of(self._model.layer, self._model.output)
        rate = float(self._optimizer.param_groups[0]["lr"])
        inputs, targets, mask = (field[0, first:last].tolist() for field in whole[:3])
        nats, tokens = 0.0, 0
        for symbol, target, is_counted in zip(inputs, targets, mask, strict=True):
            probabilities = step(weights, history, symbol)
            history.forget(self._reach)
            if not is_counted:
                continue
            nats -= math.log(max(float(probabilities[target]), 1e-300))
            tokens += 1
            history.updates += 1
            weight_gradients = gradients(
                weights, history, probabilities, target, reach=self._reach, clip=self._clip
            )
            for weight, gradient in zip(weights, weight_gradients, strict=True):
                weight += rate * gradient
        return nats, tokens
