"""What a config comes to with its task: ranges, scoring, model and the options of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unbounded.evaluation.scorings import Exam, Place, Scoring, scoring_of
from unbounded.experiments.config.schema import ModelConfig, RunConfig
from unbounded.models.memory_model import MemoryModel
from unbounded.models.model_parts import can_read_only
from unbounded.tasks import LengthRange, Task
from unbounded.training.curricula import Curriculum, Doubling, Growing, OneLength
from unbounded.training.options import PhaseOptions


@dataclass(frozen=True)
class Plan:
    """What a config comes to with its task: ranges, scoring and the options of training.

    Fields:
        config: without faults.
        task, scoring: what is learned, and how that is scored.
        train_lengths, validation_lengths: ranges of training and of the stop rule.
    """

    config: RunConfig
    task: Task
    scoring: Scoring
    train_lengths: LengthRange
    validation_lengths: LengthRange

    def model(self) -> MemoryModel:
        """The model, freshly initialised, for the vocabularies of the task."""
        config = self.config.model
        fields = {name: value for name, value in vars(config).items() if name != "answer_writes"}
        return MemoryModel(
            inputs=len(self.task.input_vocabulary),
            outputs=len(self.task.output_vocabulary),
            **fields,
            read_only_token=self.task.answer_token if reads_only(config) else None,
            backend=self.config.machine.backend,
        )

    def exam(self, model: Any, place: Place) -> Exam:
        """That model before its examiner."""
        training = self.config.training
        return Exam(
            model,
            self.task,
            self.config.seed,
            place,
            self.train_lengths,
            self.validation_lengths,
            training.validation_count,
            training.batch_size,
        )

    def validation(self, exam: Exam) -> float:
        """What the learning rate falls by: the loss, or the share of symbols that are wrong."""
        if self.config.training.plateau_measure == "loss":
            return self.scoring.validate(exam)
        count = self.config.training.validation_count
        return 1 - self.scoring.assess(exam, self.validation_lengths, 0, count).fine

    def phase_options(self) -> PhaseOptions:
        """The options of the phase that trains."""
        training = self.config.training
        lengths: LengthRange | Curriculum | Doubling = self.train_lengths
        first = training.curriculum_first
        if first is not None:
            # A preset's may lie beside the lengths of one's own.
            first = min(max(first, self.train_lengths.minimum), self.train_lengths.maximum)
        if training.curriculum == "growing":
            every = training.curriculum_every
            lengths = Growing(self.train_lengths, every, first)
        if training.curriculum == "doubling":
            below = training.curriculum_below
            lengths = Doubling(self.train_lengths, below, first)
        if training.curriculum == "one_length":
            lengths = OneLength(self.train_lengths, self.config.seed)
        return PhaseOptions(
            seed=self.config.seed,
            lengths=lengths,
            batch_size=training.batch_size,
            batches=training.batches,
            symbols=training.symbols,
            minutes=training.minutes,
            deal=training.deal,
            clip=training.clip,
            clip_by=training.clip_by,
            piece_steps=training.piece_steps,
            average=training.average,
            update=training.update,
            prediction_clip=training.prediction_clip,
            label_smoothing=training.label_smoothing,
            random_sharpness=training.random_sharpness,
            random_sharpness_units=training.random_sharpness_units,
            random_sharpness_below=training.random_sharpness_below,
            report_every=training.report_every,
            accuracy_every=training.accuracy_every,
            accuracy_lengths=tuple(dict.fromkeys((self.train_lengths, self.validation_lengths))),
            accuracy_count=training.accuracy_count,
            checkpoint_every=training.checkpoint_every,
            keep_checkpoints=training.keep_checkpoints,
        )


def reads_only(model: ModelConfig) -> bool:
    """Whether a memory writes nothing while it answers, as its config says and it can."""
    if model.answer_writes is None:
        return can_read_only(model.memory, model.hidden_size)
    return not model.answer_writes


def plan(config: RunConfig, task: Task) -> Plan:
    """What a config without faults comes to with the task it names."""
    scoring, training = scoring_of(task.scoring), config.training
    train = LengthRange.parse(training.lengths) if training.lengths else task.train_lengths
    validation = train if scoring.validates_on == "train" else task.test_lengths
    if training.validation_lengths:
        validation = LengthRange.parse(training.validation_lengths)
    return Plan(config, task, scoring, train, validation)
