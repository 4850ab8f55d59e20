"""Perplexity of a text per token, with the state carried over the whole of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from unbounded.errors import ConfigError
from unbounded.evaluation.scorings.base import Exam, Row, Scoring, Sweep, Values
from unbounded.evaluation.streams import stream_loss
from unbounded.tasks import Batch, LengthRange
from unbounded.training.objective import perplexity
from unbounded.training.stopping import Score

# The logits of a piece are as wide as the vocabulary.
_PIECE_STEPS = 100


class Perplexity(Scoring):
    """Scores a split by the likelihood of each of its tokens."""

    stops = ("budget",)
    fields = ("streams",)
    columns: ClassVar[Mapping[str, int]] = {"validation": 1, "test": 1}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {"perplexity": ("validation", "test")}
    shown = "perplexity"
    spread = ("test", "test perplexity")
    merit = merit_heading = "validation perplexity"
    longer = rounds = False
    legend = """\
Perplexities are per token, validation / test, with the state carried over the whole text."""

    def assess(self, exam: Exam, lengths: LengthRange, start: int, count: int) -> Score:
        """Raise ConfigError: a text is never right or wrong."""
        raise ConfigError(["training.stop: a text is never solved; choose budget"])

    def validation_batch(self, exam: Exam) -> Batch:
        """The split in strips."""
        batch: Batch = exam.task.batch(0, "validation", 0, exam.strips)
        return batch

    def validate(self, exam: Exam) -> float:
        """See `Scoring.validate`."""
        return self._nats(exam, "validation", exam.strips)

    def rows(self, exam: Exam, sweep: Sweep) -> list[dict[str, Any]]:
        """One row: the split."""
        if sweep.lengths is not None:
            raise ConfigError(["lengths: have no meaning on a text"])
        tokens = exam.task.tokens(sweep.split)
        sweep.looking(f"{tokens} tokens of the {sweep.split} split", 0.0)
        nats = self._nats(exam, sweep.split, sweep.streams)
        row = {"split": sweep.split, "role": "test", "tokens": tokens, "streams": sweep.streams}
        return [{**row, "nats_per_token": nats, "perplexity": perplexity(nats)}]

    def facts(self, exam: Exam, sweep: Sweep) -> dict[str, Any]:
        """See `Scoring.facts`."""
        nats = self._nats(exam, "validation", sweep.streams)
        return {"validation": {"nats_per_token": nats, "perplexity": perplexity(nats)}}

    def merit_of(self, report: Mapping[str, Any]) -> float | None:
        """Validation perplexity."""
        return float(report["validation"]["perplexity"])

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """None: nothing is counted."""
        return None

    def values(self, report: Mapping[str, Any]) -> Values:
        """See `Scoring.values`."""
        validation, test = report["validation"]["perplexity"], report["rows"][0]["perplexity"]
        return {"validation": float(validation), "test": float(test)}

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """None."""
        return {}

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """See `Scoring.lines`."""
        lines: list[tuple[str, ...]] = [("split", "tokens", "nats per token", "perplexity")]
        for row in rows:
            numbers = (f"{row['nats_per_token']:.4f}", f"{row['perplexity']:.2f}")
            lines.append((row["split"], str(row["tokens"]), *numbers))
        return lines

    def label(self, rows: Sequence[Row]) -> str:
        """Nothing: a split has one text."""
        return ""

    def _nats(self, exam: Exam, split: str, strips: int) -> float:
        return stream_loss(
            exam.model,
            exam.task.batch(0, split, 0, strips),
            piece_steps=_PIECE_STEPS,
            device=exam.place.device,
            check=exam.place.check,
        )
