"""Membership in a language: the area under the ROC curve by length, and label accuracy.

Source: Deleu & Dureau 2016, arXiv:1612.00827, Figure 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.evaluation.metric_sets.base import (
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
    Row,
    Texts,
    Values,
    default_lengths,
    label_of,
    optional,
    roles_of,
    row_of,
    table_of,
    with_loss,
)
from unbounded.evaluation.metric_sets.sequences import Sequences
from unbounded.evaluation.metrics import check_scored
from unbounded.evaluation.score import Score, nan_fact, score_of, wilson
from unbounded.tasks import LengthRange
from unbounded.training.objective import OBJECTIVES

_LEGEND = """\
Each cell is exact match / symbol accuracy: the share of sequences whose labels are all correct, and
the mean share of correct labels of a sequence. Sequences are of the test split, at the training
range ("train") and the test range ("test")."""


def label_scores(predicted: Tensor, targets: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Score the labels of each sequence in a batch.

    Args:
        predicted, targets: labels, int64 [B, T].
        mask: True at the steps with a label, bool [B, T], at least one a row.
    Returns:
        exact match, bool [B]; symbol accuracy, float64 [B], the share of correct labels.
    Raises:
        ShapeError: the three shapes differ, or a row has no label.
    """
    count = check_scored(predicted, targets, mask)
    correct = ((predicted == targets) & mask).sum(dim=1)
    return correct == count, correct.double() / count


def labels() -> Sequences:
    """The metric set for labels."""
    return Sequences(label_scores, _LEGEND)


# Quantile of the normal distribution for 95 % intervals.
_NORMAL_95 = 1.959963984540054


class Auc(NamedTuple):
    """The area under a ROC curve with its confidence interval.

    Fields:
        area: the probability that a positive scores above a negative (ties: half), in [0, 1].
        low, high: DeLong's 95 % interval, clipped to [0, 1]. Its width is 0 where the area is 0 or
            1; the certainty is then given by the numbers of positives and negatives.
    """

    area: float
    low: float
    high: float


def auc(scores: Tensor, labels: Tensor) -> Auc | None:
    """The area under the ROC curve with its interval; None if a class is missing.

    Args:
        scores: higher is more positive, [N]; only their order counts.
        labels: 0 or 1, [N].
    Raises:
        ShapeError: the two shapes differ, or are not [N].
    Source: DeLong, DeLong & Clarke-Pearson 1988, with the midranks of Sun & Xu 2014.
    """
    # This import takes half a second, and most commands do not need it.
    from scipy.stats import rankdata

    if scores.shape != labels.shape or scores.dim() != 1:
        raise ShapeError(
            "scores and labels must have one shape [N]; got "
            f"{tuple(scores.shape)} and {tuple(labels.shape)}"
        )
    positive = labels > 0
    positives = int(positive.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        return None
    ranks = torch.as_tensor(rankdata(scores.double().numpy()))
    above = _places(scores, ranks, positive) / negatives
    area = float(above.mean())
    below = 1 - _places(scores, ranks, ~positive) / positives
    error = math.sqrt(_variance_of_mean(above) + _variance_of_mean(below))
    width = _NORMAL_95 * error
    return Auc(area, max(0.0, area - width), min(1.0, area + width))


def _places(scores: Tensor, ranks: Tensor, is_in_class: Tensor) -> Tensor:
    """For each member of a class, count lower scores in the other class. A tie counts half."""
    from scipy.stats import rankdata

    return ranks[is_in_class] - torch.as_tensor(rankdata(scores[is_in_class].double().numpy()))


def _variance_of_mean(values: Tensor) -> float:
    return float(values.var()) / len(values) if len(values) > 1 else 0.0


#: The area that success requires at every length of the test range.
ENOUGH = 0.999
_SCORE, _LABEL, _IS_CORRECT, _EXACT_MATCH, _PARTIAL, _NAN = range(6)


class Membership(MetricSet):
    """Scores each word by the prediction at its last step, which is for the full word.

    A range is cut into bands of
    `every` lengths, starting at the shortest length. In each band, `count` words are scored.
    """

    no_stops = ()
    fields = ("count", "lengths", "every", "memory")
    columns: ClassVar[Mapping[str, int]] = {"train": 3, "test": 3, "longer": 3, "follows": 2}
    measures: ClassVar[Mapping[str, str]] = {"auc": "auc"}
    column = "{row}"
    texts: ClassVar[Texts] = {
        "n": "{lengths}",
        "words": "{count}",
        "AUC": lambda row: optional(row["auc"]),
        "95 % interval": lambda row: (
            "–" if row["auc_95"] is None else "{:.4f}-{:.4f}".format(*row["auc_95"])
        ),
        "AUC so far": lambda row: optional(row["auc_so_far"]),
        "correct": "{accuracy:.3f}",
        "its 95 % interval": "{accuracy_95[0]:.3f}-{accuracy_95[1]:.3f}",
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "AUC": ("train", "test", "longer"),
        "head and path": ("follows",),
    }
    shown = "AUC"
    spread = ("test", "test AUC")
    selection_metric = "1 - validation AUC"
    selection_metric_heading = "1 - validation AUC"
    why = " (plus a thousandth of its nats per label)"
    success = f"test AUC {ENOUGH} at every length"
    solved = f"AUC at least {ENOUGH} in every band of the test range"
    curve = "auc_so_far"
    curve_title = "AUC on words of semi-length up to n"
    curve_shaded = True
    legend = """\
AUC is the area under the ROC curve of the model's output at the last symbol of each word of the
test split, at the training lengths, at the test lengths, and beyond. Each band of lengths has as
many words.
"Head and path" is the correlation of where the read head of a tape has its greatest weight with the
height of the word's path, as the mean over words of the validation lengths whose path does not go
below 0: 1 or -1 where it follows the path."""

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """See `MetricSet.assess`. A word is correct if all its labels are correct."""
        numbers = self._numbers(evaluator, evaluator.validation(lengths, start, count))
        return score_of(*(numbers[:, column] for column in (_EXACT_MATCH, _PARTIAL, _NAN)))

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        """See `MetricSet.rows`.

        The default ranges are training, test, and one up to twice as long.
        """
        rows: list[dict[str, Any]] = []
        so_far = torch.zeros(0, 6, dtype=torch.float64)
        start = 0
        ranges = sorted(evaluation_plan.lengths or default_lengths(evaluator))
        roles = roles_of(evaluator, ranges)
        for lengths, _, look in evaluation_plan.in_turn(ranges):
            parts, bands = [], []
            for band in bands_of(lengths, evaluation_plan.every):
                look((band.minimum - lengths.minimum) / max(1, lengths.maximum - lengths.minimum))
                numbers = self._numbers(evaluator, evaluation_plan.examples(band, start))
                start += evaluation_plan.count  # bands share no random numbers
                parts.append(numbers)
                so_far = torch.cat([so_far, numbers])
                bands.append(_band(band, numbers, so_far))
            row = {"lengths": str(lengths), "role": roles[lengths], "every": evaluation_plan.every}
            rows.append({**row, **_numbers_of_words(torch.cat(parts)), "per_n": bands})
        return rows

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        numbers = _numbers_of_words(self._numbers(evaluator, evaluator.validation()))
        return self.validation_facts(evaluator, numbers)

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """1 minus the area on validation words; the loss breaks ties."""
        facts = report["validation"]
        if facts["auc"] is None:
            return None
        return with_loss(1 - float(facts["auc"]), float(facts["nats_per_token"]))

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether the area is at least ENOUGH in every band of the test range."""
        tested = row_of(rows, "test")
        if tested is None:
            return None
        return all(at["auc"] is not None and at["auc"] >= ENOUGH for at in tested["per_n"])

    def number(self, value: Any) -> float | None:
        """See `MetricSet.number`. An area may be missing."""
        return None if value is None else float(value)

    def values(self, report: Mapping[str, Any]) -> Values:
        return {**super().values(report), "follows": report.get("read_head_follows_path")}

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """One line for each band."""
        return table_of(self.texts, [each for row in rows for each in row["per_n"]])

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """The greatest n up to which all areas are large enough."""
        bands = [at for row in rows for at in row["per_n"]]
        reached = None
        for at in bands:
            if (at["auc"] or 0) < ENOUGH:
                break
            reached = at
        if reached is None:
            return [f"AUC is below {ENOUGH} already at the shortest lengths"]
        n = int(reached["n"])
        return [f"AUC is at least {ENOUGH} up to n = {n}: words of {2 * n} symbols"]

    def label(self, rows: Sequence[Row]) -> str:
        return label_of(rows, rows[0]["per_n"][0]["count"])

    def _numbers(self, evaluator: Evaluator, examples: Examples) -> Tensor:
        """For each word: logit and label at its end, correctness, exact match, share, and NaN."""
        predict = OBJECTIVES[evaluator.task.objective].predict

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            finite_logits = against_nan(logits.cpu(), targets)
            exact_match, partial_accuracy = label_scores(predict(finite_logits), targets, mask)
            rows = torch.arange(len(mask))
            last = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
            score, label = finite_logits[rows, last, 0].double(), targets[rows, last].double()
            is_correct = (score > 0) == (label > 0)
            return torch.stack(
                [score, label, is_correct.double(), exact_match.double(), partial_accuracy], dim=1
            )

        numbers, nan = evaluator.numbers(examples.of(evaluator.task), look, 5)
        return torch.cat([numbers, nan.double().unsqueeze(1)], dim=1)


def against_nan(logits: Tensor, targets: Tensor) -> Tensor:
    """Replace NaN by the worst incorrect logit, because a model that overflowed predicts nothing.

    Args:
        logits: [B, T, 1]. targets: 0 or 1, [B, T].
    """
    wrong = torch.where(targets > 0, -torch.inf, torch.inf).unsqueeze(-1)
    return torch.where(logits.isnan(), wrong.to(logits.dtype), logits)


def bands_of(lengths: LengthRange, every: int) -> list[LengthRange]:
    """Cut a range into bands of `every` lengths. The last band may have fewer."""
    starts = range(lengths.minimum, lengths.maximum + 1, every)
    return [LengthRange(start, min(start + every - 1, lengths.maximum)) for start in starts]


def _band(band: LengthRange, numbers: Tensor, so_far: Tensor) -> dict[str, Any]:
    area = auc(so_far[:, _SCORE], so_far[:, _LABEL])
    words = _numbers_of_words(numbers)
    so_far_area = None if area is None else area.area
    return {"n": band.maximum, "lengths": str(band), **words, "auc_so_far": so_far_area}


def _numbers_of_words(numbers: Tensor) -> dict[str, Any]:
    area: Auc | None = auc(numbers[:, _SCORE], numbers[:, _LABEL])
    count, correct = len(numbers), int(numbers[:, _IS_CORRECT].sum())
    return {
        "count": count,
        "positives": int(numbers[:, _LABEL].sum()),
        "auc": None if area is None else area.area,
        "auc_95": None if area is None else [area.low, area.high],
        "correct": correct,
        "accuracy": correct / count,
        "accuracy_95": list(wilson(correct, count)),
        "exact_match": float(numbers[:, _EXACT_MATCH].mean()),
        "symbol_accuracy": float(numbers[:, _PARTIAL].mean()),
        **nan_fact(int(numbers[:, _NAN].sum())),
    }
