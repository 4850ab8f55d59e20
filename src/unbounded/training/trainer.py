"""The trainer trains a model on a task, and writes metrics and checkpoints until it stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from unbounded.errors import NonFiniteError
from unbounded.signals import Interrupted, StopRequest
from unbounded.tasks import LengthRange, Task
from unbounded.training import finite
from unbounded.training.carried_state import CarriedState
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.clock import Clock
from unbounded.training.hook import Assess, Hook, Record, Score
from unbounded.training.hooks.curricula import stage
from unbounded.training.hooks.schedules import cooldown_of
from unbounded.training.hooks.stopping import FAILED
from unbounded.training.length_bucketing import LengthBuckets
from unbounded.training.metrics_log import MetricsLog
from unbounded.training.objective import perplexity
from unbounded.training.options import PhaseOptions
from unbounded.training.progress import Progress
from unbounded.training.state import LoopState
from unbounded.training.update import Trained, make_update


class Trainer:
    """Teacher-forced training, with a gradient step for each batch or each chunk of a batch.

    The content of a batch depends only on its number (`LengthBuckets`), so the order of data needs
    no state. Between two batches, the trainer first reports training perplexity if a report is due,
    then calls the hooks, and then writes a checkpoint if one is due. If a run is interrupted in a
    hook, it resumes with this hook.

    Args:
        task: yields the batches.
        trained: model, optimizer and schedule, prepared by `accelerator`; for the model's signature
            see `ChunkUpdate`.
        accelerator: device, precision and processes.
        options: the phase's options.
        log: takes the metrics.
        checkpoints: where the run is saved, with the states of the hooks.
        assess: scores the model on fresh validation examples.
        hooks: stop rules, curricula and all else that watches or changes the training, in order;
            with a curriculum that is a hook, and with chunks `carried`.
        progress: shows the run's progress.
        request: holds a request to stop.
        carried: holds the position in a batch that is trained in chunks.
        used: the threads and kernels of this session, noted in the state; None for no note.
        now: returns seconds, for the time budget and the checkpoint interval.
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
        hooks: Mapping[str, Hook],
        progress: Progress,
        request: StopRequest,
        carried: CarriedState | None = None,
        used: Mapping[str, Any] | None = None,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self._task = task
        self._model, _, self._schedule = trained
        self._cooldown = cooldown_of(self._schedule)
        self._accelerator = accelerator
        self._options = options
        self._log = log
        self._checkpoints = checkpoints
        self._assess_model = assess
        self._hooks = list(hooks.values())
        self._progress = progress
        self._request = request
        self._used = used
        self._update = make_update(
            trained, accelerator, self._totals, options,
            objective=task.objective, carried=carried, hooks=self._hooks,
            further=task.further_loss if task.has_further_loss else None,
        )  # fmt: skip
        self._buckets = LengthBuckets(
            task, options.seed, options.batch_size, options.length_bucketing
        )
        self._in_chunks = options.chunk_steps is not None
        self._clock = Clock(now, 60 * options.checkpoint_minutes)

    def run(self, state: LoopState) -> LoopState:
        """Train from `state` to the end of the run.

        Returns:
            The last state, with `finished` set; its checkpoint is written.
        Raises:
            Interrupted: a stop was requested; the run is saved.
            NonFiniteError: a loss or gradient is not finite; the last checkpoint is unchanged.
            StorageError: the disk refused; the last checkpoint is unchanged.
        """
        self._clock.begin(state.elapsed_s)
        self._model.train()
        self._progress.begin(state.batch)
        try:
            while state.finished is None:
                if state.next_check is None:
                    self._train_batch(state)
                self._check(state)
        except Interrupted:
            if self._accelerator.is_main_process:
                self._log.sync()
            state.elapsed_s = self._clock.elapsed()
            self._checkpoints.save(state)
            raise
        except NonFiniteError as error:
            error.batch = state.batch
            raise
        for hook in self._hooks:
            hook.at_end()
        return state

    def _train_batch(self, state: LoopState) -> None:
        """Train on one batch, or on the rest of it.

        Raises:
            Interrupted: a stop was requested; the batch is done, or its place is in `carried`.
        """
        if self._used is not None:
            state.go_on_with(self._used)
        batch = self._buckets.batch(state.batch, self._lengths_of(state))
        stop = 0
        for result in self._update.train(batch, state.batch):
            state.window_nats += result.nats
            state.window_tokens += result.tokens
            state.symbols += result.symbols
            if result.gradient_norm is not None:
                state.gradient_norm = result.gradient_norm
            if result.tokens:
                self._progress.step(state.batch + result.done, result.nats / result.tokens)
            self._clock.done(result.symbols if self._in_chunks else self._options.batch_size)
            stop = stop or result.stop
            # The carried states of other processes are not in the checkpoint of this process.
            if result.done < 1 and self._accelerator.num_processes == 1:
                if stop:
                    raise Interrupted(stop)
                if self._clock.overdue():
                    self._save(state)
        self._schedule.step()
        state.batch += 1
        state.next_check = 0
        if stop:
            raise Interrupted(stop)

    def _lengths_of(self, state: LoopState) -> LengthRange | None:
        """The length range of a batch, which it shares with the first batch in its bucket group."""
        if not self._task.has_lengths:
            return None
        return self._options.lengths_of(state.batch - state.batch % self._options.length_bucketing)

    def _check(self, state: LoopState) -> None:
        """Run the checks that are due after `state.batch` batches, from number `next_check` on."""
        options, cooldown = self._options, self._cooldown
        state.elapsed_s = self._clock.elapsed()
        is_cooling = cooldown is not None and cooldown.begin is not None
        hooks = [each for each in self._hooks if each.in_cooldown or not is_cooling]
        checks = [self._report, *(hook.after_batch for hook in hooks)]
        for number in range(state.next_check or 0, len(checks)):
            state.next_check = number
            reason = checks[number](state, partial(self._assess, state), self._recorder(state))
            state.reason = state.reason or reason
        state.next_check = len(checks)
        if self._accelerator.num_processes == 1:
            self._request.check()
        reason = state.reason or self._over(state)
        if cooldown is not None and not is_cooling and reason and not reason.startswith(FAILED):
            cooldown.start(state.batch, reason)
            self._progress.say(
                f"after batch {state.batch} the learning rate falls for {cooldown.batches} "
                f"batches: {reason.partition(':')[0]}"
            )
            reason = cooldown.over(state.batch)
        state.finished, state.reason, state.next_check = reason, None, None
        if reason or state.batch % options.checkpoint_every == 0 or self._clock.overdue():
            self._save(state)

    def _over(self, state: LoopState) -> str | None:
        """The reason why the cooldown, or the budget that includes it, is over; else None."""
        cooldown, seconds = self._cooldown, self._clock.seconds
        if cooldown is not None and cooldown.begin is not None:
            return cooldown.over(state.batch)
        batches = state.batch + (0 if cooldown is None else cooldown.batches)
        share = batches / max(state.batch, 1)
        return self._options.over(batches, int(share * state.symbols), share * seconds)

    def _save(self, state: LoopState) -> None:
        state.elapsed_s = self._clock.elapsed()
        bad = finite.first_bad(finite.parameters(self._model))
        if bad is not None:
            raise NonFiniteError(f"after batch {state.batch}, the first bad tensor: {bad}")
        if self._accelerator.is_main_process:
            self._log.sync()
        self._checkpoints.save(state)
        self._clock.saved()

    def _report(self, state: LoopState, assess: Assess, record: Record) -> None:
        """Report training perplexity if a report is due."""
        every = self._options.report_every
        if state.batch % every:
            return
        loss = state.window_nats / max(state.window_tokens, 1)
        state.perplexity = perplexity(loss)
        first = max(state.batch - every, 0)
        first -= first % self._options.length_bucketing
        state.stage = stage(self._options.lengths, first)
        line = {
            "kind": "train",
            "batch": state.batch,
            "loss_nats_per_token": loss,
            "perplexity": state.perplexity,
            "gradient_norm": state.gradient_norm,
            "learning_rate": float(self._schedule.get_last_lr()[0]),
            f"{'symbols' if self._in_chunks else 'sequences'}_per_s": self._clock.speed(),
            "elapsed_s": state.elapsed_s,
        }
        for hook in self._hooks:
            line |= hook.on_report(state, loss)
        state.window_nats, state.window_tokens = 0.0, 0
        record(line)

    def _assess(self, state: LoopState, lengths: LengthRange, start: int, count: int) -> Score:
        self._progress.looking(state.batch, str(lengths), count)
        self._model.eval()
        try:
            return self._assess_model(lengths, start, count)
        finally:
            self._model.train()

    def _recorder(self, state: LoopState) -> Record:
        def record(line: dict[str, Any]) -> None:
            if self._accelerator.is_main_process:
                self._log.append(line)
                self._progress.record(line)
            state.metrics_lines += 1

        return record

    def _totals(self, nats: Tensor) -> tuple[float, int]:
        """Return the summed loss of all processes and a signal that requests a stop; set the clock.

        All processes use the time of the first process, so their budgets end at the same batch.
        """
        signal = self._request.number or 0
        if self._accelerator.num_processes == 1:
            self._clock.agree(self._clock.elapsed())
            return float(nats.detach()), signal
        clock = self._clock.elapsed() if self._accelerator.is_main_process else 0.0
        local = torch.tensor([float(nats.detach()), signal, signal > 0, clock], dtype=torch.float64)
        total = self._accelerator.reduce(
            local.to(self._accelerator.device), reduction="sum"
        ).tolist()
        self._clock.agree(total[3])
        return total[0], round(total[1] / max(total[2], 1))
