"""The lengths that a model has mastered: scores of streams of sequences for each n.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, section 5.1, and the authors' program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from unbounded.evaluation.metric_sets.base import (
    EvaluationPlan,
    Evaluator,
    MetricSet,
    Row,
    Texts,
    with_loss,
)
from unbounded.evaluation.score import nan_fact, wilson
from unbounded.evaluation.streams import (
    LengthScore,
    StreamScore,
    percent_of_lengths,
    score_lengths,
    score_streams,
    stream_loss,
)
from unbounded.models.memory_room import room_note
from unbounded.tasks import Batch, LengthRange

#: Number of parallel streams that share the validation sequences.
VALIDATION_STREAMS = 32
#: In validation, at most this many lengths have their own stream. The shortest lengths are used.
MOST_ALONE = 64
_MOST_MISSED = 12


class Lengths(MetricSet):
    """Scores each n by whether all its sequences are correct."""

    fields = ("count", "lengths", "every", "streams", "carry_state")
    needs = ("judged", "with_sequences")
    # A loss that counts undetermined symbols does not converge (config.check).
    no_stops: ClassVar[tuple[str, ...]] = ()
    validates_on = "train"  # longer sequences are only for the test
    columns: ClassVar[Mapping[str, int]] = {"percent": 1}
    measures: ClassVar[Mapping[str, str]] = {"percent": "percent_of_lengths"}
    column = "{measure}"
    roles = ()  # the first range is shown, whatever its lengths are
    texts: ClassVar[Texts] = {
        "n": lambda row: scored_n(row),
        "sequences": "{count}",
        "correct": "{exact_match:.3f}",
        "mastered n": "{lengths_mastered} of {lengths_scored}",
        "percent": "{percent_of_lengths:.1f}",
        "95 % interval": "{percent_of_lengths_95[0]:.1f}-{percent_of_lengths_95[1]:.1f}",
    }
    texts_of_each: ClassVar[Texts] = {
        "n": "{n}",
        "sequences": "{count}",
        "correct": "{correct}",
        "accuracy": "{accuracy:.3f}",
    }
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {"percent": ("percent",)}
    shown = "percent"
    spread = ("percent", "percent")
    selection_metric = selection_metric_heading = "validation nats per determined symbol"
    success = "every length mastered"
    solved = "100 percent"
    legend = """\
"percent" is the percentage of lengths n = 2, 3, ..., 60 of which every sequence of the test split
is correct: each symbol that the rest determines was the likeliest."""

    def assess(
        self, evaluator: Evaluator, lengths: LengthRange, start: int, count: int
    ) -> StreamScore:
        """See `MetricSet.assess`.

        This metric set scores streams of mixed n, and streams of each n as in the test.

        A network that is correct on mixed sequences may still lose count in a run of short
        sequences.
        """
        streams, sequences = shared(count, VALIDATION_STREAMS)
        task = evaluator.task.with_sequences(sequences)
        mixed = task.judged(evaluator.seed, "validation", start, streams, lengths)
        middle = (lengths.minimum + lengths.maximum) / 2
        alone = [
            # The number of steps is about as in a stream of mixed lengths. Each sequence adds a
            # row.
            evaluator.task.with_sequences(max(2, int(sequences * middle / n))).judged(
                evaluator.seed, "validation", start, 1, LengthRange(n, n)
            )
            for n in list(lengths)[:MOST_ALONE]
        ]
        place = evaluator.place
        return score_streams(evaluator.model, mixed, *alone, device=place.device, check=place.check)

    def validation_batch(self, evaluator: Evaluator) -> Batch:
        streams, sequences = shared(evaluator.validation_count, VALIDATION_STREAMS)
        task = evaluator.task.with_sequences(sequences)
        batch: Batch = task.batch(
            evaluator.seed, "validation", 0, streams, evaluator.validation_lengths
        )
        return batch

    def validate(self, evaluator: Evaluator) -> float:
        batch = self.validation_batch(evaluator)
        return stream_loss(
            evaluator.model, batch, device=evaluator.place.device, check=evaluator.place.check
        )

    def validation_error(self, evaluator: Evaluator) -> float:
        """See `MetricSet.validation_error`. The loss counts only determined symbols."""
        score = self.assess(evaluator, evaluator.validation_lengths, 0, evaluator.validation_count)
        return with_loss(1 - float(score.exact_match), float(score.nats))

    def rows(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> list[dict[str, Any]]:
        """See `MetricSet.rows`.

        The first range is the test range, by default the task's.
        """
        streams, sequences = shared(evaluation_plan.count, evaluation_plan.streams)
        task = evaluator.task.with_sequences(sequences)
        rows: list[dict[str, Any]] = []
        for lengths, _, look in evaluation_plan.in_turn(
            evaluation_plan.lengths or (evaluator.task.test_lengths,)
        ):
            scores = score_lengths(
                evaluator.model,
                task,
                range(lengths.minimum, lengths.maximum + 1, evaluation_plan.every),
                look=look,
                seed=evaluation_plan.seed,
                split=evaluation_plan.split,
                streams=streams,
                carry_state=evaluation_plan.carry_state,
                device=evaluator.place.device,
                check=evaluator.place.check,
            )
            rows.append(
                stream_row(lengths, evaluation_plan.every, scores, "longer" if rows else "test")
            )
        return rows

    def facts(self, evaluator: Evaluator, evaluation_plan: EvaluationPlan) -> dict[str, Any]:
        score = self.assess(evaluator, evaluator.validation_lengths, 0, evaluator.validation_count)
        return {
            "validation": {
                "lengths": str(evaluator.validation_lengths),
                "count": score.count,
                "correct": score.correct,
                "exact_match": score.exact_match,
                "symbol_accuracy": score.partial_accuracy,
                "nats_per_token": self.validate(evaluator),
                "determined_nats_per_token": score.nats,
            }
        }

    def selection_metric_of(self, report: Mapping[str, Any]) -> float | None:
        """Nats per determined symbol in the validation sequences."""
        return float(report["validation"]["determined_nats_per_token"])

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether every length of the first range is mastered."""
        return bool(rows[0]["lengths_mastered"] == rows[0]["lengths_scored"])

    def rows_shown(self, rows: Sequence[Row]) -> Mapping[str, Row | None]:
        """The first row."""
        return {"first": rows[0] if rows else None}

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """Notes on the lengths that are not mastered, and on an enlarged memory."""
        texts = [text for row in rows for text in (*_step_notes(row), *_missed_notes(row))]
        return texts + _capacity_notes(rows)

    def label(self, rows: Sequence[Row]) -> str:
        lengths = "_".join(map(scored_n, rows)).replace(":", "-").replace(" ", "")
        scored = sum(row["lengths_scored"] for row in rows)
        return f"{lengths}-n{rows[0]['count'] // rows[0]['lengths_scored']}x{scored}"


def stream_row(
    lengths: LengthRange, every: int, scores: Sequence[LengthScore], role: str = "test"
) -> dict[str, Any]:
    """One row of a report on streams: a range of n, with the score of each n.

    Only the share of correct n has a confidence interval, because the sequences of a stream are not
    independent draws. They are often alike, and each starts in the state that the previous sequence
    left.

    Args:
        lengths: the range.
        every: the step from one n to the next.
        scores: one for each n, at least one.
        role: the row's role.
    """
    correct, count = sum(score.correct for score in scores), sum(score.count for score in scores)
    mastered = sum(score.correct == score.count for score in scores)
    return {
        "lengths": str(lengths),
        "role": role,
        "every": every,
        "count": count,
        "correct": correct,
        "exact_match": correct / count,
        "lengths_scored": len(scores),
        "lengths_mastered": mastered,
        "percent_of_lengths": percent_of_lengths(scores),
        "percent_of_lengths_95": [100 * end for end in wilson(mastered, len(scores))],
        **nan_fact(sum(score.nan for score in scores)),
        "capacity_given": max((score.capacity or 0 for score in scores), default=0) or None,
        "per_n": [
            {
                "n": score.n,
                "count": score.count,
                "correct": score.correct,
                "accuracy": score.accuracy,
                "wrong_first": score.wrong_first,
            }
            for score in scores
        ],
    }


def shared(count: int, streams: int) -> tuple[int, int]:
    """Number of parallel streams and of sequences in each, for at least `count` scored sequences.

    The last sequence of a stream is not scored.
    """
    used = min(count, streams)
    return used, -(-count // used) + 1


def scored_n(row: Row) -> str:
    """The scored n of a row as text: 2:60, 100:1000 by 100, or a single n."""
    if row["every"] == 1:
        return str(row["lengths"])
    first, last = row["per_n"][0]["n"], row["per_n"][-1]["n"]
    return str(first) if first == last else f"{first}:{last} by {row['every']}"


def _step_notes(row: Row) -> list[str]:
    """The note that only one n of a range was scored."""
    lengths = LengthRange.parse(row["lengths"])
    if row["lengths_scored"] > 1 or lengths.minimum == lengths.maximum:
        return []
    alone = f"n = {row['per_n'][0]['n']} alone"
    return [f"of {row['lengths']} {alone} was scored: the step from n to n is {row['every']}"]


def _missed_notes(row: Row) -> list[str]:
    """The first n of a row that are not mastered, with their numbers of correct sequences."""
    missed = [score for score in row["per_n"] if score["correct"] < score["count"]]
    if not missed:
        return []
    named = [f"{score['n']} ({score['correct']}/{score['count']})" for score in missed]
    more = f" and {len(named) - _MOST_MISSED} more" if len(named) > _MOST_MISSED else ""
    text = f"not mastered of {scored_n(row)}: {', '.join(named[:_MOST_MISSED])}{more}"
    # Older reports lack it.
    wrong_first = sum(score.get("wrong_first", 0) for score in missed)
    if wrong_first < sum(score["count"] - score["correct"] for score in missed):
        return [text]
    return [f"{text}; only sequences scored first after an empty memory are wrong"]


def _capacity_notes(rows: Sequence[Row]) -> list[str]:
    """The note that a memory was enlarged beyond its capacity in training."""
    # Older reports lack it.
    most = max((row.get("capacity_given") or 0 for row in rows), default=0)
    return [room_note(most)] if most else []
