"""Parity of a bit string, read prefix by prefix, and a metric set of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from unbounded.evaluation import EvaluationPlan, Evaluator, Examples, MetricSet, score
from unbounded.evaluation.metric_sets.membership import label_scores
from unbounded.evaluation.score import Score, mean_nats
from unbounded.tasks import Batch, Example, LengthRange, Stream, Task


class Parity(Task):
    """Predict after each bit whether the number of ones is odd.

    Args:
        longest: of training; tests are twice as long.
    """

    layout = "labels"
    objective = "binary"
    metric_set = "bucket.RightLabels"

    def __init__(self, longest: int = 4) -> None:
        self.name = "parity"
        self.input_vocabulary, self.output_vocabulary = ("0", "1"), ("odd",)
        self.train_lengths = LengthRange(1, longest)
        self.test_lengths = LengthRange(longest + 1, 2 * longest)

    def batch(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> Batch:
        length = (lengths or self.split_lengths(split)).maximum
        indices = start + np.arange(size)
        bits = (Stream(seed, split).sequence_words(indices, length)[1] >> np.uint64(63)).astype(int)
        inputs = torch.from_numpy(bits)
        everywhere = torch.ones(size, length, dtype=torch.bool)
        return Batch(inputs, inputs.cumsum(1) % 2, everywhere, torch.full((size,), length))

    def examples(
        self, seed: int, split: str, start: int, size: int, lengths: LengthRange | None = None
    ) -> list[Example]:
        batch = self.batch(seed, split, start, size, lengths)
        return [
            Example(tuple(map(str, bits)), tuple(map(str, labels)))
            for bits, labels in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True)
        ]


class RightLabels(MetricSet):
    """The share of correct labels."""

    columns: ClassVar[Mapping[str, int]] = {"labels": 3}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {"labels": ("labels",)}
    measures: ClassVar[Mapping[str, str]] = {"labels": "labels"}
    column, roles = "{measure}", ("test",)
    texts: ClassVar[Mapping[str, Any]] = {"lengths": "{lengths}", "labels": "{labels:.3f}"}
    shown, spread = "labels", ("labels", "labels")
    selection_metric = selection_metric_heading = "training perplexity"
    legend = '"labels" is the share of correct labels of the test split.'

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        return self._score(evaluator, evaluator.validation(lengths, start, count))

    def validate(self, evaluator: Evaluator) -> float:
        return mean_nats(
            evaluator.model, self.validation_batch(evaluator), evaluator.task.objective
        )

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        rows = []
        for lengths in evaluation_plan.lengths or (evaluator.task.test_lengths,):
            scored = self._score(evaluator, evaluation_plan.examples(lengths))
            rows.append(
                {"lengths": str(lengths), "role": "test", "labels": scored.partial_accuracy}
            )
        return rows

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        selection_metric: float | None = report["perplexity_train"]
        return selection_metric

    def succeeded(self, rows: Sequence[Mapping[str, Any]]) -> bool | None:
        return bool(rows[0]["labels"] == 1)

    def label(self, rows: Sequence[Mapping[str, Any]]) -> str:
        return "_".join(row["lengths"].replace(":", "-") for row in rows)

    def _score(self, evaluator: Evaluator, examples: Examples) -> Score:
        return score(
            evaluator.model,
            evaluator.task,
            **vars(examples),
            device=evaluator.place.device,
            judge=label_scores,
        )
