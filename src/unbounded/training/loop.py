"""A phase of training: a task and a model in, metrics, checkpoints and a reason to stop out."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from unbounded.errors import NonFiniteError
from unbounded.tasks import LengthRange, Task
from unbounded.training import finite
from unbounded.training.carry import Carry
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.clock import Clock
from unbounded.training.curricula import Doubling, stage
from unbounded.training.dealing import Dealer
from unbounded.training.metrics_log import MetricsLog
from unbounded.training.objective import perplexity
from unbounded.training.online import Trained, make_trainer
from unbounded.training.options import PhaseOptions
from unbounded.training.progress import Progress
from unbounded.training.random_sharpness import RandomSharpness, greatest_factor
from unbounded.training.signals import Interrupted, StopRequest
from unbounded.training.state import LoopState
from unbounded.training.stopping import FAILED, Assess, StopRule
from unbounded.training.tail import tail_of


class Phase:
    """A phase of teacher-forced training: a gradient step a batch, or one a piece of a batch.

    What a batch has follows from its number (`Dealer`), so the data order needs no state. Between
    two batches come, in this order and each when it is due: the report of training perplexity, the
    accuracies, the stop rule, a checkpoint. They are repeatable: a run interrupted among them takes
    them up again from the first.

    Args:
        task: yields the batches.
        trained: model, optimizer and schedule, prepared by `accelerator`; the model is called as
            `BatchTrainer` says.
        accelerator: device, precision and processes.
        options: how far and in which steps.
        log: takes the metrics.
        checkpoints: where the run is saved; with pieces `carry` must be among its extras.
        assess: scores the model on fresh validation examples.
        stop_rule: ends the phase before its budget does.
        progress: shown what happens.
        request: asks for an early end.
        carry: holds the place in a batch that is trained in pieces.
        used: the threads and kernels that train here, which the state is to note; None notes none.
        now: seconds, for both kinds of minutes.
    """

    def __init__(
        self,
        task: Task,
        trained: Trained,
        accelerator: Accelerator,
        options: PhaseOptions,
        *,
        log: MetricsLog,
        checkpoints: Checkpoints,
        assess: Assess,
        stop_rule: StopRule,
        progress: Progress,
        request: StopRequest,
        carry: Carry | None = None,
        used: Mapping[str, Any] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._task = task
        self._model, _, self._schedule = trained
        self._tail = tail_of(self._schedule)
        self._accelerator = accelerator
        self._options = options
        self._log = log
        self._checkpoints = checkpoints
        self._assess = assess
        self._stop_rule = stop_rule
        self._progress = progress
        self._request = request
        self._used = used
        self._sharpness = None
        if options.random_sharpness > 1:
            model = accelerator.unwrap_model(trained[0])
            units = options.random_sharpness_units
            self._sharpness = RandomSharpness(model, seed=options.seed, units=units)
        self._trainer = make_trainer(
            trained, accelerator, self._totals, options,
            objective=task.objective, carry=carry, sharpness=self._sharpness,
        )  # fmt: skip
        self._dealer = Dealer(task, options.seed, options.batch_size, options.deal)
        self._in_pieces = options.piece_steps is not None
        self._clock = Clock(now, 60 * options.checkpoint_minutes)

    def run(self, state: LoopState) -> LoopState:
        """Train from `state` to the end of the run.

        Returns:
            The last state, with `finished` set; its checkpoint is written.
        Raises:
            Interrupted: asked to stop; the run is saved.
            NonFiniteError: a loss or gradient went bad; the last checkpoint is left as it was.
            StorageError: the disk refused; the last checkpoint is left as it was.
        """
        self._clock.begin(state.elapsed_s)
        self._model.train()
        self._progress.begin(state.batch)
        before = copy.deepcopy(state)
        try:
            while state.finished is None:
                if state.actions_due:
                    before = copy.deepcopy(state)
                    self._act(state)
                else:
                    stop = self._step(state)
                    before = copy.deepcopy(state)
                    if stop:
                        raise Interrupted(stop)
        except Interrupted:
            self._log_cut(before)
            before.elapsed_s = self._clock.elapsed()
            self._checkpoints.save(before)
            raise
        return state

    def _step(self, state: LoopState) -> int:
        """Train one batch, or what is left of it; the signal that asked to stop, or 0."""
        if self._used is not None:
            state.go_on_with(self._used)
        if self._sharpness is not None:
            self._sharpness.most = state.sharpness
        size = self._options.batch_size
        whole = self._dealer.batch(state.batch, self._lengths_of(state))
        stop = 0
        for result in self._trainer.train(whole, state.batch):
            state.window_nats += result.nats
            state.window_tokens += result.tokens
            state.symbols += result.symbols
            if result.gradient_norm is not None:
                state.gradient_norm = result.gradient_norm
            if result.tokens:
                self._progress.step(state.batch + result.done, result.nats / result.tokens)
            self._clock.done(result.symbols if self._in_pieces else size)
            stop = stop or result.stop
            # The carried state of other processes is not in this one's checkpoint.
            if result.done < 1 and self._accelerator.num_processes == 1:
                if stop:
                    return stop
                if self._clock.overdue():
                    self._save(state)
        self._schedule.step()
        state.batch += 1
        state.actions_due = True
        return stop

    def _lengths_of(self, state: LoopState) -> LengthRange | None:
        """The range of a batch: of those that are dealt together, that of the first."""
        if not self._task.has_lengths:
            return None
        first = state.batch - state.batch % self._options.deal
        return self._options.lengths_of(first, state.longest)

    def _act(self, state: LoopState) -> None:
        """Do what is due after `state.batch` batches."""
        options = self._options
        state.elapsed_s = self._clock.elapsed()
        if state.batch % options.report_every == 0:
            self._report(state)
        if options.accuracy_every and state.batch % options.accuracy_every == 0:
            for lengths in options.accuracy_lengths:
                self._accuracy(state, lengths)
        reason = self._reason(state)
        if self._accelerator.num_processes == 1:
            self._request.check()
        if reason and self._tail and self._tail.begin is None and not reason.startswith(FAILED):
            self._tail.start(state.batch, reason)
            why = reason.partition(":")[0]
            self._progress.say(
                f"after batch {state.batch} the learning rate falls for {self._tail.batches} "
                f"batches: {why}"
            )
            reason = self._tail.over(state.batch)
        state.finished = reason
        state.actions_due = False
        if reason or state.batch % options.checkpoint_every == 0 or self._clock.overdue():
            self._save(state)

    def _reason(self, state: LoopState) -> str | None:
        """Why training is over, or its learning rate falls from now on; None to go on as it is."""
        tail, seconds = self._tail, self._clock.seconds
        if tail is not None and tail.begin is not None:
            return tail.over(state.batch)
        reason = self._stop_rule(state, self._watched_assess(state), self._recorder(state))
        if reason is not None:
            return reason
        # The budget has room for the tail.
        batches = state.batch + (0 if tail is None else tail.batches)
        share = batches / max(state.batch, 1)
        return self._options.over(batches, int(share * state.symbols), share * seconds)

    def _save(self, state: LoopState) -> None:
        state.elapsed_s = self._clock.elapsed()
        fault = finite.first_bad(finite.parameters(self._model))
        if fault is not None:
            raise NonFiniteError(f"after batch {state.batch}, the first bad tensor: {fault}")
        if self._accelerator.is_main_process:
            self._log.sync()
        self._checkpoints.save(state)
        self._clock.saved()

    def _report(self, state: LoopState) -> None:
        tokens = state.window_tokens
        loss = state.window_nats / max(tokens, 1)
        state.perplexity = perplexity(loss)
        state.window_nats, state.window_tokens = 0.0, 0
        further, curriculum = {}, self._options.lengths
        first = max(state.batch - self._options.report_every, 0)
        first -= first % self._options.deal
        state.begin_stage(stage(curriculum, first, state.longest))
        if self._sharpness is not None:
            further["greatest_factor"] = state.sharpness
            if state.stage is None and tokens:
                state.sharpness = greatest_factor(
                    state.sharpness,
                    loss,
                    below=self._options.random_sharpness_below,
                    limit=self._options.random_sharpness,
                )
        if isinstance(curriculum, Doubling):
            further["longest"] = curriculum.range_of(state.longest).maximum
            state.longest = curriculum.longer(state.longest, loss)
        self._recorder(state)(
            {
                "kind": "train",
                "batch": state.batch,
                "loss_nats_per_token": loss,
                "perplexity": state.perplexity,
                "gradient_norm": state.gradient_norm,
                "learning_rate": float(self._schedule.get_last_lr()[0]),
                f"{'symbols' if self._in_pieces else 'sequences'}_per_s": self._clock.speed(),
                "elapsed_s": state.elapsed_s,
                **further,
            }
        )

    def _accuracy(self, state: LoopState, lengths: LengthRange) -> None:
        score = self._watched_assess(state)(lengths, state.drawn, self._options.accuracy_count)
        state.drawn += self._options.accuracy_count
        self._recorder(state)(
            {
                "kind": "accuracy",
                "batch": state.batch,
                "lengths": str(lengths),
                "count": score.count,
                "accuracy_coarse": score.coarse,
                "accuracy_fine": score.fine,
            }
        )

    def _watched_assess(self, state: LoopState) -> Assess:
        def assess(lengths: LengthRange, start: int, count: int) -> Any:
            self._progress.looking(state.batch, str(lengths), count)
            self._model.eval()
            try:
                return self._assess(lengths, start, count)
            finally:
                self._model.train()

        return assess

    def _recorder(self, state: LoopState) -> Any:
        def record(line: dict[str, Any]) -> None:
            if self._accelerator.is_main_process:
                self._log.append(line)
                self._progress.record(line)
            state.metrics_lines += 1

        return record

    def _totals(self, nats: Tensor) -> tuple[float, int]:
        """Over all processes: summed loss, a signal that asks to stop; and take the first's clock.

        The clock is the same for all, so that all find the budget used up at the same batch.
        """
        signal = self._request.number or 0
        if self._accelerator.num_processes == 1:
            self._clock.agree(self._clock.elapsed())
            return float(nats.detach()), signal
        clock = self._clock.elapsed() if self._accelerator.is_main_process else 0.0
        own = torch.tensor([float(nats.detach()), signal, signal > 0, clock], dtype=torch.float64)
        total = self._accelerator.reduce(own.to(self._accelerator.device), reduction="sum").tolist()
        self._clock.agree(total[3])
        return total[0], round(total[1] / max(total[2], 1))

    def _log_cut(self, state: LoopState) -> None:
        if self._accelerator.is_main_process:
            state.metrics_lines = self._log.cut(state.metrics_lines)
            self._log.sync()
