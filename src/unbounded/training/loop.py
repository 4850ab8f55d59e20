"""The training loop: a task and a model in, metrics, checkpoints and a reason to stop out."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from unbounded.errors import NonFiniteError
from unbounded.tasks import Batch, LengthRange, Task
from unbounded.training import finite
from unbounded.training.checkpoint import Checkpoints
from unbounded.training.metrics_log import MetricsLog
from unbounded.training.objective import masked_cross_entropy, perplexity
from unbounded.training.progress import Progress
from unbounded.training.signals import Interrupted, StopRequest
from unbounded.training.state import LoopState
from unbounded.training.stopping import Assess, StopRule


class TrainingLoop:
    """Teacher-forced training, one gradient step a batch.

    Batch n holds the task's training examples n * B to (n + 1) * B - 1, so the data order needs
    no state. Between two steps come, in this order and each when it is due: the report of
    training perplexity, the accuracies, the stop rule, a checkpoint. They are repeatable: a run
    interrupted among them takes them up again from the first.

    Args:
        task: yields the batches.
        model: prepared by `accelerator`; called as model(inputs), gives logits
            [B, T, V] first.
        optimizer, schedule: prepared by `accelerator`.
        accelerator: device, precision and processes.
        log: takes the metrics.
        checkpoints: where the run is saved.
        assess: scores the model on fresh validation examples.
        stop_rule: ends the run before its budget does.
        progress: shown what happens.
        request: asks for an early end.
        seed: of the training examples.
        batch_size: sequences a batch over all processes.
        batches: budget.
        minutes: budget of training time, None for none.
        clip: bound on the gradient's norm.
        lengths: range of the training sequences.
        report_every: batches between reports of training perplexity.
        accuracy_every: batches between the accuracies, 0 for none.
        accuracy_lengths: the ranges they are taken over.
        accuracy_count: sequences a range.
        checkpoint_every: batches between checkpoints.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        accelerator: Accelerator,
        *,
        log: MetricsLog,
        checkpoints: Checkpoints,
        assess: Assess,
        stop_rule: StopRule,
        progress: Progress,
        request: StopRequest,
        seed: int,
        batch_size: int,
        batches: int,
        minutes: float | None,
        clip: float,
        lengths: LengthRange,
        report_every: int,
        accuracy_every: int,
        accuracy_lengths: Sequence[LengthRange],
        accuracy_count: int,
        checkpoint_every: int,
    ) -> None:
        self._task = task
        self._model = model
        self._optimizer = optimizer
        self._schedule = schedule
        self._accelerator = accelerator
        self._log = log
        self._checkpoints = checkpoints
        self._assess = assess
        self._stop_rule = stop_rule
        self._progress = progress
        self._request = request
        self._seed = seed
        self._batch_size = batch_size
        self._batches = batches
        self._minutes = minutes
        self._clip = clip
        self._lengths = lengths
        self._report_every = report_every
        self._accuracy_every = accuracy_every
        self._accuracy_lengths = tuple(accuracy_lengths)
        self._accuracy_count = accuracy_count
        self._checkpoint_every = checkpoint_every

    def run(self, state: LoopState) -> LoopState:
        """Train from `state` to the end of the run.

        Returns:
            The last state, with `finished` set; its checkpoint is written.
        Raises:
            Interrupted: asked to stop; the run is saved.
            NonFiniteError: a loss or gradient went bad; the last checkpoint is left as it was.
            StorageError: the disk refused; the last checkpoint is left as it was.
        """
        self._seconds = state.elapsed_s
        self._started = time.perf_counter() - state.elapsed_s
        self._session_batch, self._session_start = state.batch, time.perf_counter()
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
                    state.actions_due = True
                    before = copy.deepcopy(state)
                    if stop:
                        raise Interrupted(stop)
        except Interrupted:
            self._log_cut(before)
            before.elapsed_s = self._elapsed()
            self._checkpoints.save(before)
            raise
        return state

    def _step(self, state: LoopState) -> int:
        """Train one batch; the signal that asked any process to stop, or 0."""
        whole = self._task.batch(
            self._seed, "train", state.batch * self._batch_size, self._batch_size, self._lengths
        )
        share = self._share(whole)
        processes = self._accelerator.num_processes
        tokens = int(whole.mask.sum())
        # Models are causal: padding behind a sequence changes nothing that the mask counts.
        logits = self._model(share.inputs)[0]
        nats = masked_cross_entropy(logits, share.targets, share.mask)
        # Processes average their gradients; each sum divided by the tokens of all processes and
        # times their number makes that average the gradient of the batch's mean.
        self._accelerator.backward(nats * (processes / tokens))
        nats_of_all, stop, self._seconds = self._totals(nats)
        if not math.isfinite(nats_of_all):
            self._went_bad(state.batch, share, logits, nats)
        norm = self._accelerator.clip_grad_norm_(self._model.parameters(), self._clip)
        # In float16 the loss scaler meets infinite gradients on purpose and skips the step.
        if self._accelerator.mixed_precision != "fp16" and not bool(torch.isfinite(norm)):
            self._went_bad(state.batch, share, logits, nats)
        self._optimizer.step()
        self._schedule.step()
        self._optimizer.zero_grad(set_to_none=True)
        state.batch += 1
        state.window_nats += nats_of_all
        state.window_tokens += tokens
        state.gradient_norm = float(norm)
        self._progress.step(state.batch, nats_of_all / tokens)
        return stop

    def _act(self, state: LoopState) -> None:
        """Do what is due after `state.batch` batches."""
        state.elapsed_s = self._elapsed()
        if state.batch % self._report_every == 0:
            self._report(state)
        if self._accuracy_every and state.batch % self._accuracy_every == 0:
            for lengths in self._accuracy_lengths:
                self._accuracy(state, lengths)
        reason = self._stop_rule(state, self._watched_assess(state), self._recorder(state))
        if reason is None and state.batch >= self._batches:
            reason = f"budget: {self._batches} batches are done"
        # All processes go by the clock of the first, or one would train on alone.
        if reason is None and self._minutes is not None and self._seconds >= 60 * self._minutes:
            reason = f"budget: {self._minutes:g} minutes are over"
        if self._accelerator.num_processes == 1:
            self._request.check()
        state.finished = reason
        state.actions_due = False
        state.elapsed_s = self._elapsed()
        if reason is not None or state.batch % self._checkpoint_every == 0:
            self._check_parameters(state.batch)
            if self._accelerator.is_main_process:
                self._log.sync()
            self._checkpoints.save(state)

    def _report(self, state: LoopState) -> None:
        loss = state.window_nats / state.window_tokens
        state.perplexity = perplexity(loss)
        state.window_nats, state.window_tokens = 0.0, 0
        self._recorder(state)(
            {
                "kind": "train",
                "batch": state.batch,
                "loss_nats_per_token": loss,
                "perplexity": state.perplexity,
                "gradient_norm": state.gradient_norm,
                "learning_rate": float(self._schedule.get_last_lr()[0]),
                "sequences_per_s": self._speed(state.batch),
                "elapsed_s": state.elapsed_s,
            }
        )

    def _accuracy(self, state: LoopState, lengths: LengthRange) -> None:
        score = self._watched_assess(state)(lengths, state.drawn, self._accuracy_count)
        state.drawn += self._accuracy_count
        self._recorder(state)(
            {
                "kind": "accuracy",
                "batch": state.batch,
                "lengths": str(lengths),
                "count": self._accuracy_count,
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

    def _share(self, batch: Batch) -> Batch:
        """This process's rows of a batch, on its device."""
        rank, processes = self._accelerator.process_index, self._accelerator.num_processes
        device = self._accelerator.device
        return Batch(*(field[rank::processes].to(device) for field in batch))

    def _totals(self, nats: Tensor) -> tuple[float, int, float]:
        """Over all processes: summed loss, a signal that asks to stop, the first one's clock."""
        signal = self._request.number or 0
        if self._accelerator.num_processes == 1:
            return float(nats.detach()), signal, self._elapsed()
        clock = self._elapsed() if self._accelerator.is_main_process else 0.0
        own = torch.tensor([float(nats.detach()), signal, signal > 0, clock], dtype=torch.float64)
        total = self._accelerator.reduce(own.to(self._accelerator.device), reduction="sum").tolist()
        return total[0], round(total[1] / max(total[2], 1)), total[3]

    def _log_cut(self, state: LoopState) -> None:
        if self._accelerator.is_main_process:
            self._log.cut(state.metrics_lines)
            self._log.sync()

    def _check_parameters(self, batch: int) -> None:
        fault = finite.first_bad(finite.parameters(self._model))
        if fault is not None:
            raise NonFiniteError(f"after batch {batch}, the first bad tensor: {fault}")

    def _went_bad(self, batch: int, share: Batch, logits: Tensor, loss: Tensor) -> None:
        fault = (
            finite.first_bad(finite.parameters(self._model))
            or finite.first_bad_output(self._model, share.inputs)
            or finite.first_bad([("logits", logits), ("loss", loss)])
            or finite.first_bad(finite.gradients(self._model))
            or "none of this process's; look at the others"
        )
        raise NonFiniteError(
            f"training stopped in step {batch + 1}: the loss or its gradient is not finite; "
            f"the first bad tensor: {fault}"
        )

    def _elapsed(self) -> float:
        return time.perf_counter() - self._started

    def _speed(self, batch: int) -> float:
        seconds = time.perf_counter() - self._session_start
        return (batch - self._session_batch) * self._batch_size / max(seconds, 1e-9)
