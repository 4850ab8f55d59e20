"""A text: a language model of words, as in Joulin & Mikolov 2015, Table 4."""

from __future__ import annotations

from typing import Any

from unbounded.errors import ConfigError
from unbounded.evaluation import stream_loss
from unbounded.experiments.checking import check_idle, check_number
from unbounded.experiments.config import RunConfig
from unbounded.experiments.kinds.base import Judge, Kind, Model, Place, Sweep
from unbounded.experiments.kinds.streams import (
    build_stream_model,
    stream_model_faults,
    symbol_update_faults,
)
from unbounded.models.stream import StreamModel
from unbounded.tasks import Batch, LengthRange, PennTreebank
from unbounded.training.objective import perplexity

_WHY = "on a text"
# The logits of a piece are as wide as the vocabulary.
_PIECE_STEPS = 100


class TextKind(Kind[PennTreebank]):
    """Runs that train a language model."""

    name = "text"
    model = StreamModel

    def faults(self, config: RunConfig) -> list[str]:
        """See `Kind.faults`."""
        found = stream_model_faults(config.model) + symbol_update_faults(config)
        training, evaluation = config.training, config.evaluation
        idle = (
            "lengths",
            "validation_lengths",
            "curriculum",
            "curriculum_every",
            "curriculum_first",
        )
        check_idle(found, "training", training, idle, _WHY)
        if training.stop != "budget":
            found.append(f"training.stop: {training.stop!r} has no meaning {_WHY}; choose budget")
        if training.accuracy_every:
            found.append(f"training.accuracy_every: has no effect {_WHY}; give 0")
        check_idle(found, "rounding", config.rounding, ("batches",), _WHY)
        check_idle(found, "evaluation", evaluation, ("count", "lengths", "every", "carry"), _WHY)
        check_number(found, "evaluation.streams", evaluation.streams, 1)
        return found

    def build_model(self, config: RunConfig, task: PennTreebank) -> StreamModel:
        """See `Kind.build_model`."""
        return build_stream_model(config, task)

    def validation_lengths(self, config: RunConfig, task: PennTreebank) -> LengthRange:
        """The text's own; it has no lengths to choose from."""
        return task.train_lengths

    def judge(self, config: RunConfig, task: PennTreebank, model: Model, place: Place) -> Judge:
        """See `Kind.judge`."""
        return _TextJudge(config, task, model, place)

    def example(self, config: RunConfig, task: PennTreebank) -> Batch | None:
        """None: words are not drawn."""
        return None


class _TextJudge(Judge):
    def __init__(self, config: RunConfig, task: PennTreebank, model: Model, place: Place) -> None:
        self._config = config
        self._task = task
        self._model = model
        self._place = place

    def assess(self, lengths: LengthRange, start: int, count: int) -> Any:
        raise ConfigError([f"training.stop: a text is never solved; {_WHY} choose budget"])

    def validate(self) -> float:
        return self._loss("validation", self._config.training.batch_size)

    def rows(self, sweep: Sweep) -> list[dict[str, Any]]:
        if sweep.lengths is not None:
            raise ConfigError([f"lengths: have no meaning {_WHY}"])
        tokens = self._task.tokens(sweep.split)
        sweep.looking(sweep.split, tokens)
        nats = self._loss(sweep.split, sweep.streams)
        row = {"split": sweep.split, "tokens": tokens, "streams": sweep.streams}
        return [{**row, "nats_per_token": nats, "perplexity": perplexity(nats)}]

    def facts(self) -> dict[str, Any]:
        nats = self._loss("validation", self._config.evaluation.streams)
        return {"validation": {"nats_per_token": nats, "perplexity": perplexity(nats)}}

    def _loss(self, split: str, strips: int) -> float:
        return stream_loss(
            self._model,
            self._task.batch(0, split, 0, strips),
            piece_steps=_PIECE_STEPS,
            device=self._place.device,
            check=self._place.check,
        )
