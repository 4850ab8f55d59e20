"""Scores over length ranges as a JSON report and as a table on the screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unbounded.evaluation.provenance import provenance
from unbounded.evaluation.score import Score, wilson
from unbounded.evaluation.streams import LengthScore, percent_of_lengths
from unbounded.tasks import LengthRange

FORMAT = "unbounded-report"
VERSION = 1


def sweep(
    lengths: Sequence[LengthRange], score_range: Callable[[LengthRange], Score]
) -> list[dict[str, Any]]:
    """Score each length range; one row of a report for each.

    Returns:
        Rows with lengths, count, right, accuracy_coarse with its 95 % Wilson interval, and
        accuracy_fine with its standard error.
    """
    return [row(each, score_range(each)) for each in lengths]


def row(lengths: LengthRange, score: Score) -> dict[str, Any]:
    """One row of a report."""
    low, high = score.interval(0.95)
    return {
        "lengths": str(lengths),
        "count": score.count,
        "right": score.right,
        "accuracy_coarse": score.coarse,
        "accuracy_coarse_95": [low, high],
        "accuracy_fine": score.fine,
        "accuracy_fine_error": score.fine_error,
    }


def stream_row(lengths: LengthRange, every: int, scores: Sequence[LengthScore]) -> dict[str, Any]:
    """One row of a report on streams: a range of n, with the score of each.

    Its only interval is over n: the sequences of one stream are often alike, and each begins where
    the one before it ended, so that they are no independent draws.

    Args:
        lengths: the range.
        every: the step from one n to the next.
        scores: one for each n, at least one.
    """
    right, count = sum(each.right for each in scores), sum(each.count for each in scores)
    mastered = sum(each.right == each.count for each in scores)
    return {
        "lengths": str(lengths),
        "every": every,
        "count": count,
        "right": right,
        "accuracy_coarse": right / count,
        "lengths_scored": len(scores),
        "lengths_mastered": mastered,
        "percent_of_lengths": percent_of_lengths(scores),
        "percent_of_lengths_95": [100 * end for end in wilson(mastered, len(scores))],
        "capacity_given": max((each.capacity or 0 for each in scores), default=0) or None,
        "per_n": [
            {
                "n": each.n,
                "count": each.count,
                "right": each.right,
                "accuracy": each.accuracy,
            }
            for each in scores
        ],
    }


def make_report(
    *, task: str, split: str, seed: int, rows: Sequence[Mapping[str, Any]], **facts: Any
) -> dict[str, Any]:
    """A report: what was scored, the rows, any further facts, and where it came from."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "task": task,
        "split": split,
        "seed": seed,
        **facts,
        "rows": list(rows),
        **provenance(),
    }


def table(report: Mapping[str, Any]) -> str:
    """The rows of a report as aligned text."""
    make = _TABLES[report.get("kind", "pairs")]
    lines = make(report["rows"])
    head = f"{report['task']}, split {report['split']}, seed {report['seed']}"
    texts = [head, *_aligned(lines)]
    if report.get("kind") == "streams":
        for each in report["rows"]:
            texts += _passed_over(each) + _missed(each)
        texts += _given(report["rows"])
    return "\n".join(texts)


def _pairs_table(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    head = ("lengths", "sequences", "coarse", "95 % interval", "fine", "+-")
    return [
        head,
        *(
            (
                each["lengths"],
                str(each["count"]),
                f"{each['accuracy_coarse']:.3f}",
                _interval(each["accuracy_coarse_95"]),
                f"{each['accuracy_fine']:.3f}",
                f"{each['accuracy_fine_error']:.3f}",
            )
            for each in rows
        ),
    ]


def scored_n(each: Mapping[str, Any]) -> str:
    """Which n of its range a row on streams scored: 2:60, 100:1000 by 100, or a single one."""
    if each["every"] == 1:
        return str(each["lengths"])
    first, last = each["per_n"][0]["n"], each["per_n"][-1]["n"]
    return str(first) if first == last else f"{first}:{last} by {each['every']}"


def _streams_table(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [
        ("n", "sequences", "right", "mastered n", "percent", "95 % interval")
    ]
    for each in rows:
        low, high = each["percent_of_lengths_95"]
        lines.append(
            (
                scored_n(each),
                str(each["count"]),
                f"{each['accuracy_coarse']:.3f}",
                f"{each['lengths_mastered']} of {each['lengths_scored']}",
                f"{each['percent_of_lengths']:.1f}",
                f"{low:.1f}-{high:.1f}",
            )
        )
    return lines


def _text_table(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = [("split", "tokens", "nats per token", "perplexity")]
    for each in rows:
        nats, perplexity = each["nats_per_token"], each["perplexity"]
        lines.append((each["split"], str(each["tokens"]), f"{nats:.4f}", f"{perplexity:.2f}"))
    return lines


def per_n_table(report: Mapping[str, Any]) -> str:
    """The score of each n of a report on streams, as aligned text."""
    lines: list[tuple[str, ...]] = [("n", "sequences", "right", "accuracy")]
    lines += [
        (
            str(each["n"]),
            str(each["count"]),
            str(each["right"]),
            f"{each['accuracy']:.3f}",
        )
        for row in report["rows"]
        for each in row["per_n"]
    ]
    return "\n".join(_aligned(lines))


_TABLES = {"pairs": _pairs_table, "streams": _streams_table, "text": _text_table}
_MOST_MISSED = 12


def _passed_over(each: Mapping[str, Any]) -> list[str]:
    """That of a range of several n one alone was scored."""
    lengths = LengthRange.parse(each["lengths"])
    if each["lengths_scored"] > 1 or lengths.minimum == lengths.maximum:
        return []
    alone = f"n = {each['per_n'][0]['n']} alone"
    return [f"of {each['lengths']} {alone} was scored: the step from n to n is {each['every']}"]


def _given(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """That a capacity, as it was in training, was too low for the longest sequences."""
    # Reports from before this was kept say nothing of it.
    most = max((each.get("capacity_given") or 0 for each in rows), default=0)
    if not most:
        return []
    return [f"to score these, the memory was given room for {most} cells, beyond its own capacity"]


def _missed(each: Mapping[str, Any]) -> list[str]:
    """The first n of a row that are not mastered, with how many of their sequences are right."""
    missed = [score for score in each["per_n"] if score["right"] < score["count"]]
    if not missed:
        return []
    named = [f"{score['n']} ({score['right']}/{score['count']})" for score in missed]
    more = f" and {len(named) - _MOST_MISSED} more" if len(named) > _MOST_MISSED else ""
    return [f"not mastered of {scored_n(each)}: {', '.join(named[:_MOST_MISSED])}{more}"]


def _interval(ends: Sequence[float]) -> str:
    low, high = ends
    return f"{low:.3f}-{high:.3f}"


def _aligned(lines: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    texts.insert(1, "-" * len(texts[0]))
    return texts
