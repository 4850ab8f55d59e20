"""Perplexity of a text per token, with the state carried over the full text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets.base import (
    EvaluationPlan,
    Evaluator,
    MetricSet,
    Row,
    Texts,
    Values,
)
from unbounded.evaluation.streams import stream_loss
from unbounded.tasks import Batch, LengthRange
from unbounded.training.hook import Score
from unbounded.training.objective import perplexity

# The width of a chunk's logits is the size of the vocabulary.
_CHUNK_STEPS = 100


class Perplexity(MetricSet):
    """Scores a split by the likelihood of each of its tokens."""

    no_stops = ("solved", "converged")
    fields = ("streams",)
    columns: ClassVar[Mapping[str, int]] = {"validation": 1, "test": 1}
    texts: ClassVar[Texts] = {
        "split": "{split}",
        "tokens": "{tokens}",
        "nats per token": "{nats_per_token:.4f}",
        "perplexity": "{perplexity:.2f}",
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {"perplexity": ("validation", "test")}
    shown = "perplexity"
    spread = ("test", "test perplexity")
    selection_metric = selection_metric_heading = "validation perplexity"
    longer = judges_hardening = False
    legend = """\
Perplexities are per token, validation / test, with the state carried over the whole text."""

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """Raise ConfigError, because a text is neither correct nor incorrect."""
        raise ConfigError("training.stop: a text is never solved; choose budget")

    def validation_batch(self, evaluator: Evaluator) -> Batch:
        """A split of the text as strips."""
        batch: Batch = evaluator.task.batch(0, "validation", 0, evaluator.strips)
        return batch

    def validate(self, evaluator: Evaluator) -> float:
        return self._nats(evaluator, self.validation_batch(evaluator))

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        """Return one row, for the split."""
        if evaluation_plan.lengths is not None:
            raise ConfigError("lengths: have no meaning on a text")
        batch = evaluator.task.batch(0, evaluation_plan.split, 0, evaluation_plan.streams)
        tokens = int(batch.mask.sum())
        evaluation_plan.looking(f"{tokens} tokens of the {evaluation_plan.split} split", 0.0)
        nats = self._nats(evaluator, batch)
        row = {
            "split": evaluation_plan.split,
            "role": "test",
            "tokens": tokens,
            "streams": evaluation_plan.streams,
        }
        return [{**row, "nats_per_token": nats, "perplexity": perplexity(nats)}]

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        batch = evaluator.task.batch(0, "validation", 0, evaluation_plan.streams)
        nats = self._nats(evaluator, batch)
        return {"validation": {"nats_per_token": nats, "perplexity": perplexity(nats)}}

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """Validation perplexity."""
        return float(report["validation"]["perplexity"])

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Return None, because no success is defined."""
        return None

    def values(self, report: Mapping[str, Any]) -> Values:
        validation, test = report["validation"]["perplexity"], report["rows"][0]["perplexity"]
        return {"validation": float(validation), "test": float(test)}

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """None."""
        return {}

    def label(self, rows: Sequence[Row]) -> str:
        """Return nothing, because a split has only one text."""
        return ""

    def _nats(self, evaluator: Evaluator, batch: Batch) -> float:
        return stream_loss(
            evaluator.model,
            batch,
            chunk_steps=_CHUNK_STEPS,
            device=evaluator.place.device,
            check=evaluator.place.check,
        )
