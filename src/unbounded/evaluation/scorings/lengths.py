"""Lengths mastered: streams of sequences, scored n by n.

Source: Joulin & Mikolov 2015, arXiv:1503.01007, section 5.1, and the authors' program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from unbounded.evaluation.memory_room import room_note
from unbounded.evaluation.score import nan_fact, wilson
from unbounded.evaluation.scorings.base import SURENESS, Exam, Row, Scoring, Sweep, Values
from unbounded.evaluation.streams import (
    LengthScore,
    StreamScore,
    percent_of_lengths,
    score_lengths,
    score_streams,
    stream_loss,
)
from unbounded.tasks import Batch, LengthRange

#: Validation sequences are shared among so many parallel streams.
VALIDATION_STREAMS = 32
#: Of a range of more lengths than these, the shortest have a stream of their own in validation.
MOST_ALONE = 64
_MOST_MISSED = 12


class Lengths(Scoring):
    """Scores each n by whether every sequence of it is right."""

    fields = ("count", "lengths", "every", "streams", "carry")
    # Of a loss that counts what nothing determines none converges (config.check).
    stops: ClassVar[tuple[str, ...]] = ("solved", "converged", "budget")
    validates_on = "train"  # longer sequences are for the test alone
    columns: ClassVar[Mapping[str, int]] = {"percent": 1}
    groups: ClassVar[Mapping[str, tuple[str, ...]]] = {"percent": ("percent",)}
    shown = "percent"
    spread = ("percent", "percent")
    merit = merit_heading = "validation nats per determined symbol"
    success = "every length mastered"
    solved = "100 percent"
    legend = """\
"percent" is the percentage of lengths n = 2, 3, ..., 60 of which every sequence of the test split
is right: each symbol that the rest determines was the likeliest."""

    def assess(self, exam: Exam, lengths: LengthRange, start: int, count: int) -> StreamScore:
        """See `Scoring.assess`; streams of any n, and beside them each n alone as in the test.

        A network that knows sequences in any order may still lose count in a run of short ones.
        """
        streams, sequences = shared(count, VALIDATION_STREAMS)
        task = exam.task.with_sequences(sequences)
        mixed = task.judged(exam.seed, "validation", start, streams, lengths)
        middle = (lengths.minimum + lengths.maximum) / 2
        alone = [
            # About as many steps as the mixed streams have, so that they cost a row of it each.
            exam.task.with_sequences(max(2, int(sequences * middle / n))).judged(
                exam.seed, "validation", start, 1, LengthRange(n, n)
            )
            for n in list(lengths)[:MOST_ALONE]
        ]
        place = exam.place
        return score_streams(exam.model, mixed, *alone, device=place.device, check=place.check)

    def validation_batch(self, exam: Exam) -> Batch:
        """See `Scoring.validation_batch`."""
        streams, sequences = shared(exam.validation_count, VALIDATION_STREAMS)
        task = exam.task.with_sequences(sequences)
        batch: Batch = task.batch(exam.seed, "validation", 0, streams, exam.validation_lengths)
        return batch

    def validate(self, exam: Exam) -> float:
        """See `Scoring.validate`."""
        batch = self.validation_batch(exam)
        return stream_loss(exam.model, batch, device=exam.place.device, check=exam.place.check)

    def doubt(self, exam: Exam) -> float:
        """See `Scoring.doubt`; of what is determined alone a model can be sure."""
        score = self.assess(exam, exam.validation_lengths, 0, exam.validation_count)
        return 1 - float(score.coarse) + SURENESS * min(float(score.nats), 1.0)

    def rows(self, exam: Exam, sweep: Sweep) -> list[dict[str, Any]]:
        """See `Scoring.rows`; the first range is the test, by default the task's."""
        streams, sequences = shared(sweep.count, sweep.streams)
        task = exam.task.with_sequences(sequences)
        rows: list[dict[str, Any]] = []
        for lengths, _, look in sweep.in_turn(sweep.lengths or (exam.task.test_lengths,)):
            scores = score_lengths(
                exam.model,
                task,
                range(lengths.minimum, lengths.maximum + 1, sweep.every),
                look=look,
                seed=sweep.seed,
                split=sweep.split,
                streams=streams,
                carry=sweep.carry,
                device=exam.place.device,
                check=exam.place.check,
            )
            rows.append(stream_row(lengths, sweep.every, scores, "longer" if rows else "test"))
        return rows

    def facts(self, exam: Exam, sweep: Sweep) -> dict[str, Any]:
        """See `Scoring.facts`."""
        score = self.assess(exam, exam.validation_lengths, 0, exam.validation_count)
        return {
            "validation": {
                "lengths": str(exam.validation_lengths),
                "count": score.count,
                "right": score.right,
                "accuracy_coarse": score.coarse,
                "accuracy_symbols": score.fine,
                "nats_per_token": self.validate(exam),
                "determined_nats_per_token": score.nats,
            }
        }

    def merit_of(self, report: Mapping[str, Any]) -> float | None:
        """Nats per determined symbol of the validation sequences."""
        return float(report["validation"]["determined_nats_per_token"])

    def succeeded(self, rows: Sequence[Row]) -> bool | None:
        """Whether every length of the first range is mastered."""
        return bool(rows[0]["lengths_mastered"] == rows[0]["lengths_scored"])

    def values(self, report: Mapping[str, Any]) -> Values:
        """See `Scoring.values`."""
        return {"percent": float(report["rows"][0]["percent_of_lengths"])}

    def further(self, rows: Sequence[Row]) -> dict[str, tuple[float, ...]]:
        """See `Scoring.further`."""
        return {row["lengths"]: (float(row["percent_of_lengths"]),) for row in rows[1:]}

    def lines(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """See `Scoring.lines`."""
        lines: list[tuple[str, ...]] = [
            ("n", "sequences", "right", "mastered n", "percent", "95 % interval")
        ]
        for row in rows:
            low, high = row["percent_of_lengths_95"]
            mastered = f"{row['lengths_mastered']} of {row['lengths_scored']}"
            accuracy, percent = row["accuracy_coarse"], row["percent_of_lengths"]
            numbers = (f"{accuracy:.3f}", mastered, f"{percent:.1f}", f"{low:.1f}-{high:.1f}")
            lines.append((scored_n(row), str(row["count"]), *numbers))
        return lines

    def notes(self, rows: Sequence[Row]) -> list[str]:
        """The lengths that are not mastered, and where a memory was given room."""
        texts = [text for row in rows for text in (*_passed_over(row), *_missed(row))]
        return texts + _given(rows)

    def details(self, rows: Sequence[Row]) -> list[tuple[str, ...]]:
        """The score of each n."""
        lines: list[tuple[str, ...]] = [("n", "sequences", "right", "accuracy")]
        for row in rows:
            lines += [
                (str(at["n"]), str(at["count"]), str(at["right"]), f"{at['accuracy']:.3f}")
                for at in row["per_n"]
            ]
        return lines

    def label(self, rows: Sequence[Row]) -> str:
        """See `Scoring.label`."""
        lengths = "_".join(map(scored_n, rows)).replace(":", "-").replace(" ", "")
        scored = sum(row["lengths_scored"] for row in rows)
        return f"{lengths}-n{rows[0]['count'] // rows[0]['lengths_scored']}x{scored}"


def stream_row(
    lengths: LengthRange, every: int, scores: Sequence[LengthScore], role: str = "test"
) -> dict[str, Any]:
    """One row of a report on streams: a range of n, with the score of each.

    Its only interval is over n: the sequences of one stream are often alike, and each begins where
    the one before it ended, so that they are no independent draws.

    Args:
        lengths: the range.
        every: the step from one n to the next.
        scores: one for each n, at least one.
        role: of the row.
    """
    right, count = sum(each.right for each in scores), sum(each.count for each in scores)
    mastered = sum(each.right == each.count for each in scores)
    return {
        "lengths": str(lengths),
        "role": role,
        "every": every,
        "count": count,
        "right": right,
        "accuracy_coarse": right / count,
        "lengths_scored": len(scores),
        "lengths_mastered": mastered,
        "percent_of_lengths": percent_of_lengths(scores),
        "percent_of_lengths_95": [100 * end for end in wilson(mastered, len(scores))],
        **nan_fact(sum(each.nan for each in scores)),
        "capacity_given": max((each.capacity or 0 for each in scores), default=0) or None,
        "per_n": [
            {
                "n": each.n,
                "count": each.count,
                "right": each.right,
                "accuracy": each.accuracy,
                "wrong_first": each.wrong_first,
            }
            for each in scores
        ],
    }


def shared(count: int, streams: int) -> tuple[int, int]:
    """Parallel streams, and sequences of each, that score at least `count` sequences.

    The last sequence of a stream is not scored.
    """
    used = min(count, streams)
    return used, -(-count // used) + 1


def scored_n(row: Row) -> str:
    """Which n of its range a row on streams scored: 2:60, 100:1000 by 100, or a single one."""
    if row["every"] == 1:
        return str(row["lengths"])
    first, last = row["per_n"][0]["n"], row["per_n"][-1]["n"]
    return str(first) if first == last else f"{first}:{last} by {row['every']}"


def _passed_over(row: Row) -> list[str]:
    """That of a range of several n one alone was scored."""
    lengths = LengthRange.parse(row["lengths"])
    if row["lengths_scored"] > 1 or lengths.minimum == lengths.maximum:
        return []
    alone = f"n = {row['per_n'][0]['n']} alone"
    return [f"of {row['lengths']} {alone} was scored: the step from n to n is {row['every']}"]


def _missed(row: Row) -> list[str]:
    """The first n of a row that are not mastered, with how many of their sequences are right."""
    missed = [score for score in row["per_n"] if score["right"] < score["count"]]
    if not missed:
        return []
    named = [f"{score['n']} ({score['right']}/{score['count']})" for score in missed]
    more = f" and {len(named) - _MOST_MISSED} more" if len(named) > _MOST_MISSED else ""
    text = f"not mastered of {scored_n(row)}: {', '.join(named[:_MOST_MISSED])}{more}"
    # Reports from before this was kept say nothing of it.
    wrong_first = sum(score.get("wrong_first", 0) for score in missed)
    if wrong_first < sum(score["count"] - score["right"] for score in missed):
        return [text]
    return [f"{text}; wrong is only what is scored first after an empty memory"]


def _given(rows: Sequence[Row]) -> list[str]:
    """That a capacity, as it was in training, was too low for the longest sequences."""
    # Reports from before this was kept say nothing of it.
    most = max((row.get("capacity_given") or 0 for row in rows), default=0)
    return [room_note(most)] if most else []
