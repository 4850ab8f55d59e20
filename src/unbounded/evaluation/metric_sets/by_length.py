"""Token accuracy and exact match at each length, and averaged over lengths.

Source: Delétang et al. 2023, arXiv:2207.02098, section 4; scaled accuracy: Beck et al. 2024,
arXiv:2405.04517.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from unbounded.evaluation.metric_sets.answer_scores import answer_scores
from unbounded.evaluation.metric_sets.base import (
    ROLES,
    EvaluationPlan,
    Evaluator,
    Examples,
    MetricSet,
    Row,
    Texts,
    label_of,
    optional,
    row_of,
    with_loss,
)
from unbounded.evaluation.metric_sets.membership import against_nan
from unbounded.evaluation.score import Score, nan_fact, score_of
from unbounded.tasks import LengthRange
from unbounded.training.objective import OBJECTIVES

#: Token accuracy that counts as solved in the paper.
ENOUGH: Final = 0.9
_MEASURES: Final = ("token_accuracy", "exact_match")
#: Decimals of the token accuracy at each length.
_DECIMALS: Final = 6


class ByLength(MetricSet):
    """Scores the symbols of answers at each length of a range; a range has the mean over lengths.

    At each length, `count` sequences are scored. `every` is the step from one length to the next.
    A range that has no more lengths than this has all of them scored.
    """

    fields = ("count", "lengths", "every", "memory")
    no_stops: ClassVar[tuple[str, ...]] = ()
    validates_on = "train"  # longer sequences are only for the test
    columns: ClassVar[Mapping[str, int]] = {
        f"{role}_{measure}": 3 for role in ROLES for measure in _MEASURES
    }
    measures: ClassVar[Mapping[str, str]] = {measure: measure for measure in _MEASURES}
    texts: ClassVar[Texts] = {
        "lengths": "{lengths}",
        "scored": "{lengths_scored}",
        "a length": "{per_n[0][count]}",
        "token accuracy": "{token_accuracy:.4f}",
        "scaled": lambda row: optional(row["scaled_accuracy"]),
        "exact match": "{exact_match:.4f}",
        "correct up to": lambda row: str(row["correct_up_to"] or "–"),
    }
    texts_of_each: ClassVar[Texts] = {
        "length": "{n}",
        "sequences": "{count}",
        "token accuracy": "{token_accuracy:.4f}",
        "exact match": "{exact_match:.4f}",
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        role: tuple(f"{role}_{measure}" for measure in _MEASURES) for role in ROLES
    }
    shown = "test"
    spread = ("test_token_accuracy", "test token accuracy")
    selection_metric = selection_metric_heading = "validation errors"
    why = ": the share of validation symbols that are wrong (plus a thousandth of its nats)"
    success = f"test token accuracy at least {ENOUGH}"
    solved = f"token accuracy at least {ENOUGH} as the mean over the test lengths"
    curve = "token_accuracy"
    curve_title = "token accuracy on sources of length n"
    curve_shaded = True
    legend = """\
Each cell is token accuracy / exact match: the share of correct symbols of an answer, and the share
of answers that are wholly correct. Both are means over the lengths of a range: each length has as
many sequences of the test split."""

    def assess(self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int) -> Score:
        """See `MetricSet.assess`. The partial accuracy is the token accuracy."""
        return score_of(*self._numbers(evaluator, evaluator.validation(lengths, start, count)))

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        rows = []
        for row, lengths, _, look in self.begun_rows(evaluator, evaluation_plan):
            row["every"] = evaluation_plan.step_through(len(lengths))
            numbers_at: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
            for n in range(lengths.minimum, lengths.maximum + 1, row["every"]):
                look((n - lengths.minimum) / len(lengths))
                examples = evaluation_plan.examples(LengthRange(n, n))
                numbers_at[n] = self._numbers(evaluator, examples)
            rows.append({**row, **_row(numbers_at, getattr(evaluator.task, "chance", None))})
        return rows

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        lengths, count = evaluator.validation_lengths, evaluator.validation_count
        score = self.assess(evaluator, lengths, 0, count)
        numbers = {
            "count": score.count,
            "correct": score.correct,
            "exact_match": score.exact_match,
            "token_accuracy": score.partial_accuracy,
        }
        return self.validation_facts(evaluator, numbers)

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """Share of incorrect validation symbols; the loss breaks ties."""
        facts = report["validation"]
        wrong = 1 - float(facts["token_accuracy"])
        return with_loss(wrong, float(facts["nats_per_token"]))

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether the token accuracy on the test range is at least ENOUGH, as in the paper."""
        tested = row_of(rows, "test")
        return None if tested is None else bool(tested["token_accuracy"] >= ENOUGH)

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """Explain the numbers, and name a range of which only some lengths were scored."""
        steps = [
            f"of {row['lengths']} every {row['every']}th length was scored"
            for row in rows
            if row["every"] > 1
        ]
        return [
            "token accuracy and exact match are means over lengths; scaled: (accuracy - chance) / "
            "(1 - chance); correct up to: the longest scored length up to which all answers are "
            "correct",
            *steps,
        ]

    def label(self, rows: Sequence[Row]) -> str:
        return label_of(rows, rows[0]["per_n"][0]["count"])

    def _numbers(self, evaluator: Evaluator, examples: Examples) -> tuple[Tensor, Tensor, Tensor]:
        """Exact match and token accuracy of each answer, float64 [B], and whether it has NaN.

        An answer with NaN has no correct symbol.
        """
        is_binary = evaluator.task.objective == "binary"
        predict = OBJECTIVES[evaluator.task.objective].predict

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            logits = logits.cpu()
            predicted = predict(against_nan(logits, targets) if is_binary else logits)
            exact_match, tokens, _ = answer_scores(predicted, targets, mask)
            return torch.stack([exact_match.double(), tokens], dim=1)

        numbers, nan = evaluator.numbers(examples.of(evaluator.task), look, 2)
        return numbers[:, 0] * ~nan, numbers[:, 1] * ~nan, nan


def _row(
    numbers_at: Mapping[int, tuple[Tensor, Tensor, Tensor]], chance: float | None
) -> dict[str, Any]:
    """Compute the numbers of a range from the numbers of its lengths."""
    per_n: list[dict[str, Any]] = []
    correct_up_to, is_correct_so_far = None, True
    for n, (exact_match, tokens, _) in numbers_at.items():
        correct, count = int(exact_match.sum()), len(exact_match)
        is_correct_so_far &= correct == count
        correct_up_to = n if is_correct_so_far else correct_up_to
        per_n.append(
            {
                "n": n,
                "count": count,
                "correct": correct,
                "exact_match": correct / count,
                "token_accuracy": float(tokens.mean()),
            }
        )
    accuracy = sum(at["token_accuracy"] for at in per_n) / len(per_n)
    # More decimals would be half of a file of runs, and no table or figure shows them.
    per_n = [{**at, "token_accuracy": round(at["token_accuracy"], _DECIMALS)} for at in per_n]
    return {
        "count": sum(at["count"] for at in per_n),
        "correct": sum(at["correct"] for at in per_n),
        "lengths_scored": len(per_n),
        "token_accuracy": accuracy,
        "scaled_accuracy": None if chance is None else (accuracy - chance) / (1 - chance),
        "exact_match": sum(at["exact_match"] for at in per_n) / len(per_n),
        "correct_up_to": correct_up_to,
        **nan_fact(sum(int(nan.sum()) for _, _, nan in numbers_at.values())),
        "per_n": per_n,
    }
