"""Sources with their targets: the tasks and models of Grefenstette et al. 2015."""

from __future__ import annotations

from typing import Any

from unbounded.errors import ConfigError
from unbounded.evaluation import Score, score, sweep
from unbounded.experiments.checking import check_choice, check_idle, check_number
from unbounded.experiments.config import ModelConfig, RunConfig
from unbounded.experiments.kinds.base import Judge, Kind, Model, Place, Sweep
from unbounded.layers import CONTROLLERS
from unbounded.memories import MEMORIES
from unbounded.models.initialization import INITIALIZATIONS, OUTPUT_INITIALIZATIONS
from unbounded.models.transduction import NO_MEMORY, TransductionModel
from unbounded.tasks import Batch, LengthRange, TransductionTask

#: A picture of more symbols than these cannot be read.
READABLE = 16
_WHY = "on sources with targets"


class PairsKind(Kind[TransductionTask]):
    """Runs that train sources with their targets."""

    name = "pairs"
    model = TransductionModel

    def faults(self, config: RunConfig) -> list[str]:
        """See `Kind.faults`."""
        found: list[str] = []
        model = config.model
        check_choice(found, "model.memory", "memory", model.memory, (NO_MEMORY, *MEMORIES))
        check_choice(found, "model.controller", "controller", model.controller, CONTROLLERS)
        check_number(found, "model.pop_bias", model.pop_bias, -1e6, 1e6)
        for name, valid in (
            ("initialization", INITIALIZATIONS),
            ("output_initialization", OUTPUT_INITIALIZATIONS),
        ):
            check_choice(found, f"model.{name}", name, getattr(model, name), valid)
        without = model.memory == NO_MEMORY
        idle = ("controller", "memory_width", "pop_bias") if without else ("layers", "skip_input")
        check_idle(found, "model", model, idle, f"with memory {model.memory!r}")
        streams = (
            *("recurrent", "count", "depth", "noop", "capacity", "overflow", "context_size"),
            "symbol_initialization",
        )
        check_idle(found, "model", model, streams, _WHY)
        names = (
            "piece_steps",
            "update",
            "curriculum",
            "curriculum_every",
            "curriculum_first",
            "plateau_every",
            "plateau_hold",
        )
        check_idle(found, "training", config.training, names, _WHY)
        check_idle(found, "training", config.training, ("plateau_factor", "plateau_least"), _WHY)
        check_idle(found, "rounding", config.rounding, ("batches",), _WHY)
        check_idle(found, "evaluation", config.evaluation, ("every", "streams", "carry"), _WHY)
        return found

    def build_model(self, config: RunConfig, task: TransductionTask) -> TransductionModel:
        """See `Kind.build_model`; the vocabularies are the task's."""
        model: ModelConfig = config.model
        return TransductionModel(
            input_vocabulary=len(task.input_vocabulary),
            output_vocabulary=len(task.output_vocabulary),
            memory=model.memory,
            controller=model.controller,
            hidden_size=model.hidden_size,
            memory_width=model.memory_width,
            embedding_size=model.embedding_size,
            layers=model.layers,
            skip_input=model.skip_input,
            learn_initial_state=model.learn_initial_state,
            pop_bias=model.pop_bias,
            initialization=model.initialization,
            output_initialization=model.output_initialization,
            backend=config.machine.backend,
        )

    def validation_lengths(self, config: RunConfig, task: TransductionTask) -> LengthRange:
        """The task's test range, unless another is named."""
        text = config.training.validation_lengths
        return LengthRange.parse(text) if text else task.test_lengths

    def judge(self, config: RunConfig, task: TransductionTask, model: Model, place: Place) -> Judge:
        """See `Kind.judge`."""
        return _PairsJudge(self, config, task, model, place)

    def example(self, config: RunConfig, task: TransductionTask) -> Batch:
        """The first test example of readable length, from the shorter end of the training range."""
        shortest = task.train_lengths.minimum
        longest = min(task.train_lengths.maximum, max(READABLE, shortest))
        return task.batch(config.seed, "test", 0, 1, LengthRange(shortest, longest))


class _PairsJudge(Judge):
    def __init__(
        self,
        kind: PairsKind,
        config: RunConfig,
        task: TransductionTask,
        model: Model,
        place: Place,
    ) -> None:
        self._kind = kind
        self._config = config
        self._task = task
        self._model = model
        self._place = place

    def assess(self, lengths: LengthRange, start: int, count: int) -> Score:
        return self._score("validation", self._config.seed, lengths, start, count)

    def validate(self) -> float:
        raise ConfigError(["training.plateau_every: has no effect on sources with targets"])

    def rows(self, sweep_of: Sweep) -> list[dict[str, Any]]:
        lengths = sweep_of.lengths
        if lengths is None:
            train = self._kind.train_lengths(self._config, self._task)
            lengths = default_lengths(train, self._task.test_lengths)

        def score_range(each: LengthRange) -> Score:
            sweep_of.looking(str(each), sweep_of.count)
            return self._score(sweep_of.split, sweep_of.seed, each, 0, sweep_of.count)

        return sweep(lengths, score_range)

    def facts(self) -> dict[str, Any]:
        return {}

    def _score(self, split: str, seed: int, lengths: LengthRange, start: int, count: int) -> Score:
        place = self._place
        return score(
            self._model,
            self._task,
            seed=seed,
            split=split,
            lengths=lengths,
            start=start,
            count=count,
            device=place.device,
            share=place.share,
            total=place.total,
            check=place.check,
        )


def default_lengths(train: LengthRange, test: LengthRange) -> tuple[LengthRange, ...]:
    """The training range, the test range, and one as long again: 8:64, 65:128, 129:256."""
    return (train, test, LengthRange(test.maximum + 1, 2 * test.maximum))
