"""What a run must know about the kind of its task, and nobody else about a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import torch
from torch import Tensor

from unbounded.experiments.config import RunConfig
from unbounded.models.stream import StreamModel
from unbounded.models.transduction import TransductionModel
from unbounded.tasks import Batch, LengthRange, Task
from unbounded.training.curricula import Curriculum, Growing
from unbounded.training.stopping import Score

Model: TypeAlias = TransductionModel | StreamModel
TaskT = TypeVar("TaskT", bound=Task)


@dataclass(frozen=True)
class Place:
    """Where a model is scored.

    Fields:
        device: of the model.
        share: this process's rank and how many share the work.
        total: sums a tensor over all processes; needed with several.
        check: called now and then; may raise to give up.
    """

    device: torch.device
    share: tuple[int, int] = (0, 1)
    total: Callable[[Tensor], Tensor] | None = None
    check: Callable[[], None] | None = None


@dataclass(frozen=True)
class Sweep:
    """What the rows of a report are made of.

    Fields:
        split: "train", "validation" or "test".
        seed: of the sequences.
        lengths: ranges; None for those of the task.
        count: sequences a range, or of each n where each n has its score.
        every, streams, carry: as in `EvaluationConfig`.
        looking: told each range and count before it is scored.
    """

    split: str
    seed: int
    lengths: Sequence[LengthRange] | None
    count: int
    every: int = 1
    streams: int = 1
    carry: bool = False
    looking: Callable[[str, int], None] = lambda lengths, count: None


class Judge(ABC):
    """Scores the model of a run, while it is trained and when it is done."""

    @abstractmethod
    def assess(self, lengths: LengthRange, start: int, count: int) -> Score:
        """Score validation examples, for the accuracies and the stop rule."""

    @abstractmethod
    def validate(self) -> float:
        """The loss on a fixed set of validation examples, in nats per token."""

    @abstractmethod
    def rows(self, sweep: Sweep) -> list[dict[str, Any]]:
        """The rows of a report."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What a run's own report says of the validation split; it may choose among runs."""


class Kind(ABC, Generic[TaskT]):
    """A kind of task: sources with targets, streams, or a text."""

    #: The name of the kind, as in a report.
    name: str
    #: The class of its models, which are built from the keywords that a checkpoint holds.
    model: type[TransductionModel] | type[StreamModel]

    @abstractmethod
    def faults(self, config: RunConfig) -> list[str]:
        """What is wrong with the parts of a config that depend on the kind of task."""

    @abstractmethod
    def build_model(self, config: RunConfig, task: TaskT) -> Model:
        """The model a config describes, freshly initialised."""

    @abstractmethod
    def validation_lengths(self, config: RunConfig, task: TaskT) -> LengthRange:
        """The range of lengths of the stop rule and of validation."""

    @abstractmethod
    def judge(self, config: RunConfig, task: TaskT, model: Model, place: Place) -> Judge:
        """What scores that model."""

    @abstractmethod
    def example(self, config: RunConfig, task: TaskT) -> Batch | None:
        """One short example whose trace is worth a picture; None where nothing draws it."""

    def train_lengths(self, config: RunConfig, task: TaskT) -> LengthRange:
        """The range of lengths that is trained in the end."""
        text = config.training.lengths
        return LengthRange.parse(text) if text else task.train_lengths

    def curriculum(self, config: RunConfig, task: TaskT) -> LengthRange | Curriculum:
        """The range of lengths of each batch."""
        lengths = self.train_lengths(config, task)
        if config.training.curriculum == "growing":
            training = config.training
            return Growing(lengths, training.curriculum_every, training.curriculum_first)
        return lengths
