"""A phase of training: from a task and a model to metrics, checkpoints and a reason to stop."""

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
from unbounded.training.carried_state import CarriedState
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.clock import Clock
from unbounded.training.curricula import Doubling, stage
from unbounded.training.length_bucketing import LengthBuckets
from unbounded.training.metrics_log import MetricsLog
from unbounded.training.objective import perplexity
from unbounded.training.online import Trained, make_trainer
from unbounded.training.options import PhaseOptions
from unbounded.training.progress import Progress
from unbounded.training.schedules import cooldown_of
from unbounded.training.signals import Interrupted, StopRequest
from unbounded.training.state import LoopState
from unbounded.training.stopping import FAILED, Assess, StopRule
from unbounded.training.temperature_noise import TemperatureNoise


class Phase:
    """A phase of teacher-forced training: a gradient step for each batch or each chunk of one.

    A batch's content follows from its number (`LengthBuckets`), so the data order needs no state.
    Between two batches come, when due and in this order: the report of training perplexity, the
    accuracies, the stop rule, a checkpoint. They are repeatable: a run that is interrupted among
    them repeats them from the first.

    Args:
        task: yields the batches.
        trained: model, optimizer and schedule, prepared by `accelerator`; for the model's signature
            see `BatchTrainer`.
        accelerator: device, precision and processes.
        options: the phase's options.
        log: takes the metrics.
        checkpoints: where the run is saved; with chunks `carried` must be among its extras.
        assess: scores the model on fresh validation examples.
        stop_rule: ends the phase before its budget does.
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
        stop_rule: StopRule,
        progress: Progress,
        request: StopRequest,
        carried: CarriedState | None = None,
        used: Mapping[str, Any] | None = None,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._task = task
        self._model, _, self._schedule = trained
        self._cooldown = cooldown_of(self._schedule)
        self._accelerator = accelerator
        self._options = options
        self._log = log
        self._checkpoints = checkpoints
        self._assess = assess
        self._stop_rule = stop_rule
        self._progress = progress
        self._request = request
        self._used = used
        self._temperature_noise = None
        if options.temperature_noise is not None:
            model = accelerator.unwrap_model(trained[0])
            self._temperature_noise = TemperatureNoise(
                model, options.seed, **options.temperature_noise
            )
        self._trainer = make_trainer(
            trained, accelerator, self._totals, options,
            objective=task.objective, carried=carried,
            temperature_noise=self._temperature_noise,
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
        resumable = copy.deepcopy(state)
        try:
            while state.finished is None:
                if state.actions_due:
                    resumable = copy.deepcopy(state)
                    self._act(state)
                else:
                    stop = self._step(state)
                    resumable = copy.deepcopy(state)
                    if stop:
                        raise Interrupted(stop)
        except Interrupted:
            self._log_cut(resumable)
            resumable.elapsed_s = self._clock.elapsed()
            self._checkpoints.save(resumable)
            raise
        return state

    def _step(self, state: LoopState) -> int:
        """Train one batch, or the rest of it; return the signal that requests a stop, or 0."""
        if self._used is not None:
            state.go_on_with(self._used)
        if self._temperature_noise is not None:
            self._temperature_noise.most = state.inverse_temperature
        size = self._options.batch_size
        batch = self._buckets.batch(state.batch, self._lengths_of(state))
        stop = 0
        for result in self._trainer.train(batch, state.batch):
            state.window_nats += result.nats
            state.window_tokens += result.tokens
            state.symbols += result.symbols
            if result.gradient_norm is not None:
                state.gradient_norm = result.gradient_norm
            if result.tokens:
                self._progress.step(state.batch + result.done, result.nats / result.tokens)
            self._clock.done(result.symbols if self._in_chunks else size)
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
        """The range of a batch: that of the first one of its buckets."""
        if not self._task.has_lengths:
            return None
        first = state.batch - state.batch % self._options.length_bucketing
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
        if (
            reason
            and self._cooldown
            and self._cooldown.begin is None
            and not reason.startswith(FAILED)
        ):
            self._cooldown.start(state.batch, reason)
            why = reason.partition(":")[0]
            self._progress.say(
                f"after batch {state.batch} the learning rate falls for {self._cooldown.batches} "
                f"batches: {why}"
            )
            reason = self._cooldown.over(state.batch)
        state.finished = reason
        state.actions_due = False
        if reason or state.batch % options.checkpoint_every == 0 or self._clock.overdue():
            self._save(state)

    def _reason(self, state: LoopState) -> str | None:
        """Why training is over, or its cooldown starts; None to go on."""
        cooldown, seconds = self._cooldown, self._clock.seconds
        if cooldown is not None and cooldown.begin is not None:
            return cooldown.over(state.batch)
        reason = self._stop_rule(state, self._watched_assess(state), self._recorder(state))
        if reason is not None:
            return reason
        # The budget includes the cooldown.
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

    def _report(self, state: LoopState) -> None:
        tokens = state.window_tokens
        loss = state.window_nats / max(tokens, 1)
        state.perplexity = perplexity(loss)
        state.window_nats, state.window_tokens = 0.0, 0
        extra, curriculum = {}, self._options.lengths
        first = max(state.batch - self._options.report_every, 0)
        first -= first % self._options.length_bucketing
        state.begin_stage(stage(curriculum, first, state.longest))
        if self._temperature_noise is not None:
            extra["greatest_factor"] = state.inverse_temperature
            if state.stage is None and tokens:
                self._temperature_noise.most = state.inverse_temperature
                state.inverse_temperature = self._temperature_noise.after_report(loss)
        if isinstance(curriculum, Doubling):
            extra["longest"] = curriculum.range_of(state.longest).maximum
            state.longest = curriculum.longer(state.longest, loss)
        self._recorder(state)(
            {
                "kind": "train",
                "batch": state.batch,
                "loss_nats_per_token": loss,
                "perplexity": state.perplexity,
                "gradient_norm": state.gradient_norm,
                "learning_rate": float(self._schedule.get_last_lr()[0]),
                f"{'symbols' if self._in_chunks else 'sequences'}_per_s": self._clock.speed(),
                "elapsed_s": state.elapsed_s,
                **extra,
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
                "exact_match": score.exact_match,
                "partial_accuracy": score.partial_accuracy,
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
        """The summed loss of all processes and a signal that requests a stop; sets the clock.

        All processes use the first one's time, so their budgets end at the same batch.
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

    def _log_cut(self, state: LoopState) -> None:
        if self._accelerator.is_main_process:
            state.metrics_lines = self._log.cut(state.metrics_lines)
            self._log.sync()
