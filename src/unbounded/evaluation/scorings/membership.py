"""Membership in a language: the area under the ROC curve of words by length, and what is right.

Source: Deleu & Dureau 2016, arXiv:1612.00827, Figure 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from unbounded.evaluation.auc import Auc, auc
from unbounded.evaluation.score import Score, nan_fact, numbers_of, wilson
from unbounded.evaluation.scorings.base import (
    SURENESS,
    Exam,
    Row,
    Scoring,
    Sweep,
    Values,
    default_lengths,
    roles_of,
    row_of,
)
from unbounded.evaluation.scorings.labels import label_scores
from unbounded.tasks import LengthRange
from unbounded.training.objective import OBJECTIVES

#: What counts as success: an area of so much at every length of the test range.
ENOUGH = 0.999
_ROLES = ("train", "test", "longer")
_SCORE, _LABEL, _RIGHT, _COARSE, _FINE, _NAN = range(6)


class Membership(Scoring):
    """Scores each word by the last step: what is said of the whole word.

    A range is cut into bands of `every` lengths, from its shortest on, each with `count` words of
    its own.
    """

    stops = ("solved", "converged", "budget")
    fields = ("count", "lengths", "every")
    columns: ClassVar[Mapping[str, int]] = {"train": 3, "test": 3, "longer": 3, "follows": 2}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "AUC": ("train", "test", "longer"),
        "head and path": ("follows",),
    }
    shown = "AUC"
    spread = ("test", "test AUC")
    merit = "1 - validation AUC"
    merit_heading = "1 - validation AUC"
    why = " (plus a thousandth of its nats per label)"
    success = f"test AUC {ENOUGH} at every length"
    solved = f"AUC at least {ENOUGH} in every band of the test range"
    curve = "auc_so_far"
    curve_title = "AUC on words of semi-length up to n"
    curve_shaded = True
    legend = """\
AUC is the area under the ROC curve of what is said at the last symbol of words of the test split,
at the training lengths, at the test lengths, and beyond. Each band of lengths has as many words.
"Head and path" is the correlation of where the read head of a tape has its greatest weight with the
height of the word's path, as the mean over words of the validation lengths whose path does not go
below 0: 1 or -1 where it follows the path."""

    def assess(self, exam: Exam, lengths: LengthRange, start: int, count: int) -> Score:
        """See `Scoring.assess`; a word is right when each of its labels is."""
        numbers = self._numbers(exam, "validation", exam.seed, lengths, start, count)
        fine = numbers[:, _FINE]
        error = float(fine.std()) / count**0.5 if count > 1 else 0.0
        right, nan = int(numbers[:, _COARSE].sum()), int(numbers[:, _NAN].sum())
        return Score(count, right, float(fine.mean()), error, nan)

    def rows(self, exam: Exam, sweep: Sweep) -> list[dict[str, Any]]:
        """See `Scoring.rows`; by default the training range, the test range, one as long again."""
        rows: list[dict[str, Any]] = []
        so_far = torch.zeros(0, 6, dtype=torch.float64)
        start = 0
        ranges = sorted(sweep.lengths or default_lengths(exam))
        roles = roles_of(exam, ranges)
        for lengths, _, look in sweep.in_turn(ranges):
            parts, bands = [], []
            for band in bands_of(lengths, sweep.every):
                look((band.minimum - lengths.minimum) / max(1, lengths.maximum - lengths.minimum))
                own = self._numbers(exam, sweep.split, sweep.seed, band, start, sweep.count)
                start += sweep.count  # no two bands have words of the same random numbers
                parts.append(own)
                so_far = torch.cat([so_far, own])
                bands.append(_band(band, own, so_far))
            row = {"lengths": str(lengths), "role": roles[lengths], "every": sweep.every}
            rows.append({**row, **_numbers_of_words(torch.cat(parts)), "per_n": bands})
        return rows

    def facts(self, exam: Exam, sweep: Sweep) -> dict[str, Any]:
        """See `Scoring.facts`."""
        lengths, count = exam.validation_lengths, exam.validation_count
        numbers = self._numbers(exam, "validation", exam.seed, lengths, 0, count)
        words = {"lengths": str(lengths), **_numbers_of_words(numbers)}
        return {"validation": {**words, "nats_per_token": self.validate(exam)}}

    def merit_of(self, report: Mapping[str, Any]) -> float | None:
        """How far the area of the validation words is from 1; of equal ones the surer is better."""
        facts = report["validation"]
        if facts["auc"] is None:
            return None
        return 1 - float(facts["auc"]) + SURENESS * min(float(facts["nats_per_token"]), 1.0)

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether every band of the test range has an area of at least ENOUGH."""
        tested = row_of(rows, "test")
        if tested is None:
            return None
        return all(at["auc"] is not None and at["auc"] >= ENOUGH for at in tested["per_n"])

    def values(self, report: Mapping[str, Any]) -> Values:
        """See `Scoring.values`."""
        rows = {role: row_of(report["rows"], role) for role in _ROLES}
        values = {role: None if row is None else row["auc"] for role, row in rows.items()}
        return {**values, "follows": report.get("read_head_follows_path")}

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """See `Scoring.further`."""
        shown = [row_of(rows, role) for role in _ROLES]
        further = (row for row in rows if row not in shown and row["auc"] is not None)
        return {row["lengths"]: (float(row["auc"]),) for row in further}

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """The bands, each a line."""
        head = ("n", "words", "AUC", "95 % interval", "AUC so far", "right", "95 % interval")
        lines: list[tuple[str, ...]] = [head]
        for row in rows:
            for at in row["per_n"]:
                interval = at["auc_95"]
                lines.append(
                    (
                        at["lengths"],
                        str(at["count"]),
                        _text(at["auc"]),
                        "–" if interval is None else "{:.4f}-{:.4f}".format(*interval),
                        _text(at["auc_so_far"]),
                        f"{at['accuracy']:.3f}",
                        "{:.3f}-{:.3f}".format(*at["accuracy_95"]),
                    )
                )
        return lines

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """How far it generalises: up to where the area is enough without a gap."""
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
        """See `Scoring.label`."""
        lengths = "_".join(row["lengths"] for row in rows).replace(":", "-")
        return f"{lengths}-by{rows[0]['every']}-n{rows[0]['per_n'][0]['count']}"

    def _numbers(
        self, exam: Exam, split: str, seed: int, lengths: LengthRange, start: int, count: int
    ) -> Tensor:
        """Of each word: score and label of its end, whether each is correct, their share, NaN."""
        predict = OBJECTIVES[exam.task.objective].predict

        def look(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
            said = against_nan(logits.cpu(), targets)
            coarse, fine = label_scores(predict(said), targets, mask)
            rows = torch.arange(len(mask))
            last = mask.shape[1] - 1 - mask.flip(1).long().argmax(dim=1)
            score, label = said[rows, last, 0].double(), targets[rows, last].double()
            right = (score > 0) == (label > 0)
            return torch.stack([score, label, right.double(), coarse.double(), fine], dim=1)

        place = exam.place
        numbers, nan = numbers_of(
            exam.model,
            exam.task.batch(seed, split, start, count, lengths),
            look,
            5,
            device=place.device,
            share=place.share,
            total=place.total,
            check=place.check,
        )
        return torch.cat([numbers, nan.double().unsqueeze(1)], dim=1)


def against_nan(logits: Tensor, targets: Tensor) -> Tensor:
    """Logits in which NaN is the surest wrong answer: a machine that overflowed has said nothing.

    Args:
        logits: [B, T, 1]. targets: 0 or 1, [B, T].
    """
    wrong = torch.where(targets > 0, -torch.inf, torch.inf).unsqueeze(-1)
    return torch.where(logits.isnan(), wrong.to(logits.dtype), logits)


def bands_of(lengths: LengthRange, every: int) -> list[LengthRange]:
    """A range cut into bands of `every` lengths; the last one may have fewer."""
    starts = range(lengths.minimum, lengths.maximum + 1, every)
    return [LengthRange(start, min(start + every - 1, lengths.maximum)) for start in starts]


def _band(band: LengthRange, own: Tensor, so_far: Tensor) -> dict[str, Any]:
    below = auc(so_far[:, _SCORE], so_far[:, _LABEL])
    words = _numbers_of_words(own)
    so_far_area = None if below is None else below.area
    return {"n": band.maximum, "lengths": str(band), **words, "auc_so_far": so_far_area}


def _numbers_of_words(numbers: Tensor) -> dict[str, Any]:
    area: Auc | None = auc(numbers[:, _SCORE], numbers[:, _LABEL])
    count, right = len(numbers), int(numbers[:, _RIGHT].sum())
    return {
        "count": count,
        "positives": int(numbers[:, _LABEL].sum()),
        "auc": None if area is None else area.area,
        "auc_95": None if area is None else [area.low, area.high],
        "right": right,
        "accuracy": right / count,
        "accuracy_95": list(wilson(right, count)),
        "accuracy_coarse": float(numbers[:, _COARSE].mean()),
        "accuracy_fine": float(numbers[:, _FINE].mean()),
        **nan_fact(int(numbers[:, _NAN].sum())),
    }


def _text(area: float | None) -> str:
    return "–" if area is None else f"{area:.4f}"
