"""Cross entropy of strings above the exact lower bound, over all strings and by length.

The bound is the mean of -log p(w), where p is the distribution from which the strings are drawn. A
model that equals p has a mean difference of 0.

Sources: DuSell & Chiang 2020, arXiv:2010.04674, section 4; of dynamic N-grams Graves et al. 2014,
arXiv:1410.5401, section 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import torch
from torch import Tensor
from torch.nn import functional

from unbounded.errors import ConfigError
from unbounded.evaluation.metric_sets.base import (
    ROLES,
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
    Row,
    Texts,
    label_of,
)
from unbounded.evaluation.score import Score, cross_entropy_of, nan_fact
from unbounded.tasks import LengthRange

_NATS, _SYMBOLS, _BOUND, _NAN = range(4)
_NUMBERS: Final[Texts] = {
    "strings": "{count}",
    "nats a symbol": lambda row: f"{cross_entropy_of(row['nats_per_symbol']):.4f}",
    "bound": lambda row: f"{cross_entropy_of(row['bound']):.4f}",
    "above bound": lambda row: f"{cross_entropy_of(row['above_bound']):.4f}",
}


class AboveBound(MetricSet):
    """Scores the cross entropy of complete strings, including their ends if the task has ends.

    For each length in a range that has strings, `count` strings are scored. `every` is the step
    from one of these lengths to the next. If there are no more lengths than this, all are scored.
    If ends are predicted, the bound assumes that lengths are
    uniform over the range.
    """

    fields = ("count", "lengths", "every", "memory")
    needs = ("log_probabilities",)
    no_stops: ClassVar[tuple[str, ...]] = ("solved", "converged")
    validates_on = "train"  # longer strings are only for the test
    columns: ClassVar[Mapping[str, int]] = {f"{role}_above_bound": 3 for role in ROLES}
    measures: ClassVar[Mapping[str, str]] = {"above_bound": "above_bound"}
    texts: ClassVar[Texts] = {"lengths": "{lengths}", **_NUMBERS}
    texts_of_each: ClassVar[Texts] = {"length": "{n}", **_NUMBERS}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "above bound": tuple(f"{role}_above_bound" for role in ROLES)
    }
    shown = "above bound"
    spread = ("test_above_bound", "test nats a symbol above the bound")
    selection_metric = selection_metric_heading = "validation nats a symbol"
    judges_hardening = False
    curve = "above_bound"
    curve_title = "nats a symbol above the bound, on strings of length n"
    curve_is_share = False
    curve_shaded = True
    legend = """\
Each cell is the cross entropy of strings of the test split in nats a symbol, less the exact lower
bound. A model that equals the distribution of the test strings reaches this bound: 0 is perfect. If
the test has longer strings than training, a model that expects the lengths of training alone can be
slightly below 0 at these."""

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """See `MetricSet.assess`.

        This metric set raises an error, because no string is correct or incorrect.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"task {evaluator.task.name!r}: its strings cannot be judged as correct or wrong"
        )

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        rows = []
        for row, lengths, count, look in self.begun_rows(evaluator, evaluation_plan):
            per_n, parts = [], []
            there = [n for n in lengths if not evaluator.task.range_errors(LengthRange(n, n))]
            row["every"] = evaluation_plan.step_through(len(there))
            for n in there[:: row["every"]]:
                look((n - lengths.minimum) / len(lengths))
                examples = evaluation_plan.examples(LengthRange(n, n), count=count)
                numbers = self._numbers(evaluator, examples, lengths)
                parts.append(numbers)
                per_n.append({"n": n, **_of_strings(numbers)})
            rows.append({**row, **_of_strings(torch.cat(parts)), "per_n": per_n})
        return rows

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        lengths = evaluator.validation_lengths
        facts = _of_strings(self._numbers(evaluator, evaluator.validation(), lengths))
        facts["nats_per_token"] = facts["nats_per_symbol"]
        return {"validation": {"lengths": str(lengths), **facts}}

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """Nats per symbol on validation strings."""
        return cross_entropy_of(report["validation"]["nats_per_symbol"])

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Return None, because no success is defined."""
        return None

    def number(self, value: Any) -> float:
        """See `MetricSet.number`. None is infinity."""
        return cross_entropy_of(value)

    def label(self, rows: Sequence[Row]) -> str:
        return label_of(rows, rows[0]["per_n"][0]["count"])

    def _numbers(self, evaluator: Evaluator, examples: Examples, whole: LengthRange) -> Tensor:
        """For each string: nats, symbols, -log p with lengths in `whole`, and NaN, [B, 4]."""

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            logs = functional.log_softmax(logits.cpu().double(), dim=-1)
            nats = -logs.gather(-1, targets.unsqueeze(-1))[..., 0]
            sums = torch.where(mask, nats, 0.0).sum(dim=1)
            return torch.stack([sums, mask.sum(dim=1).double()], dim=1)

        batch = examples.of(evaluator.task)
        numbers, nan = evaluator.numbers(batch, look, 2)
        bound = -torch.from_numpy(evaluator.task.log_probabilities(batch, whole))
        return torch.cat([numbers, bound.unsqueeze(1), nan.double().unsqueeze(1)], dim=1)


def _of_strings(numbers: Tensor) -> dict[str, Any]:
    symbols = float(numbers[:, _SYMBOLS].sum())
    nats, bound = (float(numbers[:, column].sum()) / symbols for column in (_NATS, _BOUND))
    return {
        "count": len(numbers),
        "nats_per_symbol": nats,
        "bound": bound,
        "above_bound": nats - bound,
        **nan_fact(int(numbers[:, _NAN].sum())),
    }
