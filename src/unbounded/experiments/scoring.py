"""Scores of the model of a run: looks at validation sequences, and the table at the end."""

from __future__ import annotations

from typing import Any

from accelerate import Accelerator

from unbounded.evaluation import Score, make_report, score, sweep
from unbounded.experiments.build import ranges
from unbounded.experiments.config import RunConfig, model_name, to_dict
from unbounded.models.transduction import TransductionModel
from unbounded.tasks import LengthRange, Task
from unbounded.training.progress import Progress
from unbounded.training.signals import StopRequest
from unbounded.training.state import LoopState


class Scorer:
    """Scores the model that a run trains, the work shared by all of its processes.

    Args:
        config: of the run.
        task: yields the sequences.
        model: what the accelerator wraps.
        accelerator: device and processes.
        request: asks for an early end.
    """

    def __init__(
        self,
        config: RunConfig,
        task: Task,
        model: TransductionModel,
        accelerator: Accelerator,
        request: StopRequest,
    ) -> None:
        self._config = config
        self._task = task
        self._model = model
        self._accelerator = accelerator
        self._request = request

    def assess(self, lengths: LengthRange, start: int, count: int) -> Score:
        """Score validation examples `start` to `start + count - 1`."""
        return self._score("validation", lengths, start, count)

    def report(self, state: LoopState, shown: Progress) -> dict[str, Any]:
        """The report of the run: scores on the test split, and how the training went."""
        config, evaluation = self._config, self._config.evaluation
        if evaluation.lengths is None:
            train = train_lengths(config, self._task)
            lengths = default_lengths(train, self._task.test_lengths)
        else:
            lengths = ranges(evaluation.lengths)
        self._model.eval()

        def score_range(each: LengthRange) -> Score:
            shown.looking(state.batch, str(each), evaluation.count)
            return self._score("test", each, 0, evaluation.count)

        return make_report(
            task=config.task,
            split="test",
            seed=config.seed,
            model=model_name(config.model),
            rows=sweep(lengths, score_range),
            batches=state.batch,
            minutes=state.elapsed_s / 60,
            stopped=state.finished,
            perplexity_train=state.perplexity,
            parameters=sum(p.numel() for p in self._model.parameters() if p.requires_grad),
            config=to_dict(config),
        )

    def _score(self, split: str, lengths: LengthRange, start: int, count: int) -> Score:
        accelerator = self._accelerator
        alone = accelerator.num_processes == 1
        return score(
            self._model,
            self._task,
            seed=self._config.seed,
            split=split,
            lengths=lengths,
            start=start,
            count=count,
            device=accelerator.device,
            share=(accelerator.process_index, accelerator.num_processes),
            total=lambda part: accelerator.reduce(part, reduction="sum"),
            # One of several processes giving up would leave the others waiting.
            check=self._request.check if alone else None,
        )


def train_lengths(config: RunConfig, task: Task) -> LengthRange:
    """The range a run trains on: the config's, or else the task's own."""
    own = config.training.lengths
    return LengthRange.parse(own) if own else task.train_lengths


def validation_lengths(config: RunConfig, task: Task) -> LengthRange:
    """The range of a run's stop rule: the config's, or else the task's test range."""
    own = config.training.validation_lengths
    return LengthRange.parse(own) if own else task.test_lengths


def default_lengths(train: LengthRange, test: LengthRange) -> tuple[LengthRange, ...]:
    """The training range, the test range, and one as long again: 8:64, 65:128, 129:256."""
    return (train, test, LengthRange(test.maximum + 1, 2 * test.maximum))
