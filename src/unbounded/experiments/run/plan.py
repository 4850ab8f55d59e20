"""A config combined with its task: length ranges, metric set, model and phase options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from unbounded.custom_components import NO_MEMORY
from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets import Evaluator, MetricSet, Place, metric_set_of
from unbounded.experiments.config.check_training import hardening_of
from unbounded.experiments.config.components import build
from unbounded.experiments.config.schema import HardeningConfig, ModelConfig, RunConfig, effective
from unbounded.models.memory_model import MemoryModel
from unbounded.models.model_parts import valid_memory
from unbounded.tasks import LengthRange, Task
from unbounded.training.options import PhaseOptions


@dataclass(frozen=True)
class Plan:
    """A config combined with its task.

    Fields:
        config: a config without errors.
        task, metric_set: the task and its metric set.
        train_lengths, validation_lengths: ranges of training and of the stop rule.
    """

    config: RunConfig
    task: Task
    metric_set: MetricSet
    train_lengths: LengthRange
    validation_lengths: LengthRange

    def model(self) -> MemoryModel:
        """Build a freshly initialised model for the vocabularies of the task."""
        config = effective(self.config.model)
        fields = {name: value for name, value in vars(config).items() if name != "answer_writes"}
        return MemoryModel(
            inputs=len(self.task.input_vocabulary),
            outputs=len(self.task.output_vocabulary),
            **fields,
            read_only_token=self.task.answer_token if reads_only(config) else None,
            length_token=self._length_token(config),
            backend=self.config.hardware.backend,
        )

    def _length_token(self, config: ModelConfig) -> int | None:
        if config.controller.get("bidirectional", False):
            return self.task.answer_token
        memory = valid_memory(config.memory, config.hidden_size)
        return self.task.source_end_token if memory is not None and memory.uses_lengths else None

    def evaluator(self, model: Any, place: Place) -> Evaluator:
        """The evaluator of a model."""
        training = self.config.training
        return Evaluator(
            model,
            self.task,
            self.config.seed,
            place,
            self.train_lengths,
            self.validation_lengths,
            training.validation_count,
            training.batch_size,
        )

    def validation(self, evaluator: Evaluator) -> float:
        """The measure of the plateau rule: the loss, or the share of incorrect symbols."""
        if self.config.training.plateau.get("measure", "loss") == "loss":
            return self.metric_set.validate(evaluator)
        count = self.config.training.validation_count
        return (
            1
            - self.metric_set.assess(evaluator, self.validation_lengths, 0, count).partial_accuracy
        )

    def hardening(self) -> HardeningConfig:
        """The options of hardening.

        Raises:
            ConfigError: the config has none, or its memory has no gates.
        """
        hardening = hardening_of(self.config)
        if hardening is None:
            model = self.config.model
            name = model.memory["name"]
            why = f"memory {name!r} has no gates to harden"
            if name == NO_MEMORY:
                why = "the model has no memory, so it has no gates to harden"
            if model.controller.get("memory") not in (None, NO_MEMORY):
                why = "the memory of a Transformer cannot be hardened"
            raise ConfigError(f"hardening: {why}")
        return hardening

    def phase_options(self) -> PhaseOptions:
        """The options of the training phase. Those with a name in the config have its value."""
        training = self.config.training
        lengths = build(
            "training.curriculum",
            training.curriculum,
            lengths=self.train_lengths,
            seed=self.config.seed,
        )
        own = {
            item.name: getattr(training, item.name)
            for item in fields(PhaseOptions)
            if hasattr(training, item.name)
        }
        return PhaseOptions(**{**own, "seed": self.config.seed, "lengths": lengths})


def reads_only(model: ModelConfig) -> bool:
    """Whether the memory is read-only while answering, if configured and supported."""
    if model.answer_writes is None:
        memory = valid_memory(model.memory, model.hidden_size)
        return memory is not None and bool(memory.write_strengths)
    return not model.answer_writes


def plan(config: RunConfig, task: Task) -> Plan:
    """Combine a config without errors with its task."""
    metric_set, training = metric_set_of(task.metric_set), config.training
    train = LengthRange.parse(training.lengths) if training.lengths else task.train_lengths
    validation = train if metric_set.validates_on == "train" else task.test_lengths
    if training.validation_lengths:
        validation = LengthRange.parse(training.validation_lengths)
    return Plan(config, task, metric_set, train, validation)
