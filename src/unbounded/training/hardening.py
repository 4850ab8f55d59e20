"""Hardening: decisions are sharpened step by step, while all weights learn on, until they are made.

Source: Joulin & Mikolov 2015 (NIPS), section 3, who call it rounding; the schedule, the guard and
the stopping rule are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields

import torch
from torch import Tensor, nn

from unbounded.checks import check_callable, check_module, is_number, number_faults
from unbounded.errors import ConfigError
from unbounded.models.decisions import least_decided
from unbounded.models.discrete import discretized, sharpen
from unbounded.tasks import Batch
from unbounded.tasks.batch import check_batch
from unbounded.training.backup import Backup
from unbounded.training.optimizers import scale_rate
from unbounded.training.state import LoopState
from unbounded.training.stopping import Assess, Record

#: Steps back after which hardening is over: the factor's logarithm is then a 64th of what it was.
_MOST_STEPS_BACK = 6
#: Looks for which what does not hold may learn on, before it goes back.
_PATIENCE = 3
#: Validation error up to which a hardened model counts as settled: all is correct, and the rest of
#: the measure is uncertainty.
_SETTLED = 1e-3
#: Looks between two confirmations that failed.
_BETWEEN = 5
#: A machine is clearly better than the best before if validation says so much less against it.
_CLEARLY = 0.9
#: What the learning rate is multiplied by at each look while the end is cooled.
_COOLING = 0.8


@dataclass
class _Numbers:
    """Where a hardening stands; a checkpoint holds all of it."""

    looked: float = 0
    #: What validation said at the last look, of the model and of its discrete machine.
    soft: float = math.inf
    hard: float = math.inf
    least_soft: float = math.inf
    least_hard: float = math.inf
    decided: float = 0.0
    #: At the last look, and what the weights were multiplied by after it.
    sharpness: float = 1.0
    pending: float = 1.0
    factor: float = 1.0
    steps_back: float = 0
    #: Looks in a row at which the model did not hold.
    waited: float = 0
    #: Looks in a row at which the hardened model's error was at most `_SETTLED`.
    settled: float = 0
    #: Whether `confirm` took the hardened model, and looks to come before it is asked again.
    confirmed: float = 0
    refused: float = 0
    #: Of the weights that were last found to hold.
    sound_sharpness: float = 1.0
    #: Looks since it could have been over, at which the rate fell.
    cooled: float = 0
    #: Looks in a row without a machine clearly better than the last that was, which had `mark`.
    stalled: float = 0
    mark: float = math.inf


class Harden:
    """A stop rule that hardens a trained model: give it to the training loop that fine-tunes it.

    The trained model is measured before any batch: it is what later weights are compared with. A
    look comes after the first batch and then after every `every`. Each look validates the model
    and its discrete machine (`unbounded.models.discretized`). The weights whose machine was best so
    far, the later of two that are equal, are kept, and so are the last ones that hold: those with
    which the model is no worse than at its best by more than `tolerance`. If it holds, what decides
    is multiplied by `factor`. If it does not, it learns on as it is; if it still does not three
    looks later, the weights go back to those that did, and factor and learning rate become smaller:
    its root, and half of it.

    It is over when the least decided decision on `batch` has at least the certainty `decided`; when
    what decides has been multiplied by `largest` (what is undecided even then, the model hardly
    uses); after `settle` looks in a row at which the machine's validation error is at most 0.001;
    when the validation errors of model and machine are at most `enough`; after `patience` looks in
    a row without a clearly better machine; or after six steps back: the task is not done with these
    decisions made harder. With `cool` it then goes on for so many looks, at which nothing is
    sharpened and the learning rate falls by a fifth each: a machine that is wrong on one pair of
    symbols in ten thousand is so for the rate's noise.

    The ends that claim success (all gates saturated, settled, enough) need `confirm`: a closer look
    at the hardened model, by more strings and by others. Where it refuses, training goes on, and it
    is asked again five looks later.

    `restore` puts the best weights back: those of the machine if it holds too, else the last that
    held; `is_decided` says which. All is in the loop's checkpoints (`Checkpoints(extra=...)`), so
    that an interrupted hardening goes on where it was.

    Args:
        model: what is trained, with a memory that decides; not wrapped.
        batch: validation sequences on which it is seen how decided the decisions are.
        validate: measures a model; lower is better, for example the share of sequences that are
            wrong. It must not be test data.
        validate_machine: measures a discrete machine, which may be asked for more; None measures it
            as the model.
        every: batches of fine-tuning between two looks.
        factor: above 1. 1.1 to 1.5 are small steps that the other weights can follow.
        decided: certainty that every decision must have, above 0.5 and below 1.
        largest: product of the factors at which hardening ends undecided.
        settle: looks in a row at which the machine's error must be at most 0.001; 0 goes on to the
            other ends.
        confirm: takes the hardened model and says whether hardening may end with it; None confirms
            each. It must not look at test data.
        enough: what validation may say against the machine, and the model, in what it measures;
            None goes on to the other ends.
        patience: looks in a row without a machine that validation says a tenth less against than
            against the last that was so much better; 0 goes on to the other ends.
        tolerance: how much worse than at its best a model may be, in what `validate` measures.
        cool: looks at the end, of a hardening that holds, at which the rate falls.
        cool_at: the batch from which that begins also without one of the other ends; None waits.
        optimizer, schedule: hold the learning rate; None leaves it as it is.
        piece_steps: steps of one call of the model on `batch`.
        device: where the model is.
    Raises:
        ConfigError: a number is out of range, all of them together; nothing decides in the model.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        validate: Callable[[nn.Module], float],
        *,
        validate_machine: Callable[[nn.Module], float] | None = None,
        confirm: Callable[[nn.Module], bool] | None = None,
        every: int = 50,
        factor: float = 1.25,
        decided: float = 0.999,
        largest: float = 1e4,
        settle: int = 0,
        enough: float | None = None,
        patience: int = 0,
        tolerance: float = 0.03,
        cool: int = 0,
        cool_at: int | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
        piece_steps: int = 1000,
        device: torch.device | str = "cpu",
    ) -> None:
        check_module("model", model)
        check_batch(batch)
        for name, function in (("validate", validate), ("validate_machine", validate_machine)):
            if function is not None or name == "validate":
                check_callable(name, function)
        if confirm is not None:
            check_callable("confirm", confirm)
        faults = [
            *_integer_faults("every", every, 1),
            *number_faults("factor", factor, above=1),
            *(
                []
                if is_number(decided) and 0.5 < decided < 1
                else [f"decided: expected a number above 0.5 and below 1, got {decided!r}"]
            ),
            *number_faults("largest", largest, above=1, at_most=1e9),
            *_integer_faults("settle", settle, 0),
            *([] if enough is None else _from_0("enough", enough)),
            *_integer_faults("patience", patience, 0),
            *_from_0("tolerance", tolerance),
            *_integer_faults("cool", cool, 0),
            *([] if cool_at is None else _integer_faults("cool_at", cool_at)),
            *_integer_faults("piece_steps", piece_steps, 1),
        ]
        if faults:
            raise ConfigError(faults)
        self._cool, self._cool_at = cool, cool_at
        self._model, self._batch, self._validate = model, batch, validate
        self._validate_machine = validate_machine or validate
        self._confirm = confirm
        self._every, self._bound, self._largest = every, decided, largest
        self._settle, self._enough, self._patience = settle, enough, patience
        self._tolerance, self._optimizer, self._schedule = tolerance, optimizer, schedule
        self._piece_steps, self._device = piece_steps, device
        self._at = _Numbers(factor=factor)
        names = [field.name for field in fields(_Numbers)]
        self._best = Backup(model, names, "the state of the hardening")
        self._sound = Backup(model, [], "the weights that hold")
        self._at.decided = self._least()  # fails here, before any training, if nothing decides
        self._measure()
        self._sound.keep()

    @property
    def sharpness(self) -> float:
        """The product of the factors at the last look."""
        return self._at.sharpness

    @property
    def steps_back(self) -> int:
        """How often the weights went back to those that held."""
        return int(self._at.steps_back)

    @property
    def least_doubt(self) -> float:
        """What validation says against the best discrete machine so far."""
        return self._at.least_hard

    @property
    def is_decided(self) -> bool:
        """Whether a discrete machine was found that does no worse than the model."""
        at = self._at
        return at.least_hard <= at.least_soft + self._tolerance

    def __call__(self, state: LoopState, assess: Assess, record: Record) -> str | None:
        """Look, when a look is due."""
        at = self._at
        if state.batch != 1 and state.batch % self._every:
            return None
        # A look that is repeated after an interruption must not sharpen once more.
        if state.batch != at.looked:
            self._look(state.batch)
        record(
            {
                "kind": "rounding",
                "batch": state.batch,
                "validation_loss": at.soft,
                "validation_loss_discrete": at.hard,
                "best_validation_loss_discrete": at.least_hard,
                "least_action_weight": at.decided,
                "sharpness": at.sharpness,
                "steps_back": int(at.steps_back),
            }
        )
        return self._over()

    def _over(self) -> str | None:
        at = self._at
        if not at.cooled:
            return self._end()
        if at.cooled <= self._cool:
            return None
        return (
            f"hardening: the rate fell over {self._cool} looks at sharpness {at.sharpness:.3g}; "
            f"the least decided decision has certainty {at.decided:.4f}"
        )

    def _end(self) -> str | None:
        at = self._at
        least = f"the least decided decision has certainty {at.decided:.4f}"
        if self._patience and at.stalled >= self._patience:
            return (
                f"hardening: no clearly better discrete machine in {at.stalled:.0f} looks, "
                f"validation says {at.least_hard:.3g} against the best; {least}"
            )
        if not self._holds():
            if at.steps_back <= _MOST_STEPS_BACK:
                return None
            return (
                f"hardening: beyond sharpness {at.sound_sharpness:.3g} the model gets worse, also "
                f"with smaller steps; {least}"
            )
        if at.confirmed:
            return f"hardening: {self._success()}; {least}"
        if at.sharpness >= self._largest:
            return f"hardening: the sharpness reached {at.sharpness:.3g}; {least}"
        return None

    def _success(self) -> str | None:
        """Why hardening may end with this hardened model, before it is confirmed; None goes on."""
        at = self._at
        if at.decided >= self._bound:
            return f"all is decided at sharpness {at.sharpness:.3g}"
        if self._enough is not None and max(at.soft, at.hard) <= self._enough:
            return (
                f"validation says {at.hard:.2g} against the discrete machine at sharpness "
                f"{at.sharpness:.3g}, which is enough"
            )
        if self._settle and at.settled >= self._settle:
            return (
                f"the hardened model's validation error was at most {_SETTLED:g} at "
                f"{at.settled:.0f} looks in a row, at sharpness {at.sharpness:.3g}"
            )
        return None

    def _ask(self) -> None:
        """Ask for a confirmation, where hardening would end and none was refused of late."""
        at = self._at
        at.confirmed, at.refused = 0, max(0, at.refused - 1)
        if self._success() is None or at.refused or not self._holds():
            return
        if not self._is_confirmed():
            at.refused = _BETWEEN
            return
        at.confirmed, at.least_hard = 1, at.hard
        self._best.keep()

    def _holds(self) -> bool:
        return self._at.soft <= self._at.least_soft + self._tolerance

    def _look(self, batch: int) -> None:
        at = self._at
        at.looked, at.sharpness, at.pending = batch, at.sharpness * at.pending, 1.0
        self._measure()
        at.settled = at.settled + 1 if at.hard <= _SETTLED else 0
        if not at.cooled:
            self._ask()
        if self._holds():
            self._sound.keep()
            at.sound_sharpness, at.waited = at.sharpness, 0
        else:
            at.waited += 1
            if at.waited <= _PATIENCE:
                return
            self._step_back()
        is_late = self._cool_at is not None and batch >= self._cool_at
        is_over = self._end() is not None
        if at.cooled or (self._cool and self._holds() and (is_late or is_over)):
            at.cooled += 1
            if at.cooled <= self._cool:
                self._scale_rate(_COOLING)
            elif self._keeps_confirmed() and at.hard <= at.least_hard and self._is_confirmed():
                at.least_hard = at.hard
                self._best.keep()
        elif self._end() is None:
            at.pending = at.factor
            sharpen(self._model, at.factor)

    def _measure(self) -> None:
        at, training = self._at, self._model.training
        self._model.eval()
        try:
            at.soft = self._validate(self._model)
            at.hard = self._validate_machine(discretized(self._model))
            at.decided = self._least()
        finally:
            self._model.train(training)
        at.least_soft = min(at.least_soft, at.soft)
        at.stalled += 1
        if at.hard < _CLEARLY * at.mark:
            at.stalled, at.mark = 0, at.hard
        if at.hard <= at.least_hard and not self._keeps_confirmed():
            at.least_hard = at.hard
            self._best.keep()

    def _keeps_confirmed(self) -> bool:
        """Whether the best was confirmed: what comes while the rate falls must be so too."""
        return self._confirm is not None and bool(self._at.confirmed and self._at.cooled)

    def _is_confirmed(self) -> bool:
        return self._confirm is None or self._confirm(discretized(self._model).eval())

    def _step_back(self) -> None:
        at = self._at
        self._sound.restore()
        at.sharpness, at.factor = at.sound_sharpness, math.sqrt(at.factor)
        at.steps_back, at.waited = at.steps_back + 1, 0
        self._scale_rate(0.5)

    def _scale_rate(self, factor: float) -> None:
        if self._optimizer is not None and self._schedule is not None:
            scale_rate(self._optimizer, self._schedule, factor)

    def _least(self) -> float:
        return least_decided(
            self._model, self._batch, piece_steps=self._piece_steps, device=self._device
        )

    def restore(self) -> None:
        """Put the best weights back; without a look so far nothing changes."""
        (self._best if self.is_decided else self._sound).restore()

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must hold of it."""
        sound = {f"sound/{name}": tensor for name, tensor in self._sound.tensors().items()}
        return {**self._best.tensors(*astuple(self._at)), **sound}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `tensors` gave.

        Raises:
            CheckpointError: something is missing.
        """
        # Checkpoints of before there were these have none.
        later = {name: torch.zeros(()) for name in ("cooled", "stalled", "confirmed", "refused")}
        later["mark"] = torch.tensor(math.inf)
        self._at = _Numbers(*self._best.load({**later, **tensors}))
        own = {name: tensor for name, tensor in tensors.items() if name.startswith("sound/")}
        self._sound.load({name.removeprefix("sound/"): tensor for name, tensor in own.items()})


def _integer_faults(name: str, value: object, least: float = -math.inf) -> list[str]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return []
    bound = "" if least == -math.inf else f" >= {least}"
    return [f"{name}: expected an integer{bound}, got {value!r}"]


def _from_0(name: str, value: object) -> list[str]:
    if is_number(value) and value >= 0:
        return []
    return [f"{name}: expected a finite number of at least 0, got {value!r}"]
