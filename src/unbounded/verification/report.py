"""Report a verification as JSON and text: results that are proven, sampled and extrapolated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from unbounded.evaluation.report import aligned
from unbounded.files import printable
from unbounded.verification.findings import Finding
from unbounded.verification.prediction import predict

FORMAT: Final = "unbounded-verification"
VERSION: Final = 2
#: Descriptions of the failures that the trends predict.
_FAILS: Final = {
    "answers": "another answer is the likeliest",
    "gates": "a gate falls on the other side",
    "read_vectors": "the read vector is nearer to another one",
}


def report_of(
    findings: Sequence[Finding], shortest: int, finished: bool, **facts: Any
) -> dict[str, Any]:
    """The report of a verification.

    Args:
        findings: one for each length and kind.
        shortest: the shortest training length.
        finished: whether all requested findings are there.
        facts: facts on task, run and environment.
    """
    rows = [finding.as_row() for finding in findings]
    certainties = [finding.certainty for finding in findings if finding.certainty is not None]
    return {
        "format": FORMAT,
        "version": VERSION,
        **facts,
        "finished": finished,
        "least_certainty": min(certainties, default=None),
        "proven": [
            {"lengths": _range(part), "count": sum(row["count"] for row in part)}
            for part in _runs([row for row in rows if row["how"] == "every"])
            if _all_correct(part[0])
        ],
        **predict(findings, shortest),
        "rows": rows,
    }


def text_of(report: Mapping[str, Any]) -> str:
    """The report as text for a person, with a table and its conclusions."""
    lines: list[tuple[str, ...]] = [
        ("length", "sequences", "correct", "95 % interval", "margin", "certainty", "displaced")
    ]
    every = [row for row in report["rows"] if row["how"] == "every"]
    drawn = [row for row in report["rows"] if row["how"] == "drawn"]
    lines += [_line(part) for part in _runs(every)]
    lines += [_line([row]) for row in drawn]
    notes = [*_proven(report), *_sampled(drawn), *_wrong(report), *_extrapolated(report)]
    if report.get("layout") == "stream":
        notes.append(
            "each sequence is the first of its stream, after an empty memory; effects of earlier "
            "ones show in `unbounded evaluate`, which scores whole streams"
        )
    if not report["finished"]:
        notes.append("stopped before the end: later lengths were not checked")
    return "\n".join([*aligned(lines), "", *(printable(note) for note in notes)])


def _runs(rows: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Groups of consecutive rows that are all correct, or all incorrect."""
    parts: list[list[Mapping[str, Any]]] = []
    for row in rows:
        follows = parts and _all_correct(parts[-1][-1]) == _all_correct(row)
        if follows and parts[-1][-1]["length"] + 1 == row["length"]:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def _all_correct(row: Mapping[str, Any]) -> bool:
    return bool(row["correct"] == row["count"])


def _range(rows: Sequence[Mapping[str, Any]]) -> str:
    first, last = rows[0]["length"], rows[-1]["length"]
    return str(first) if first == last else f"{first}:{last}"


def _line(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    interval = "every one"
    if rows[0]["how"] == "drawn":
        interval = "{:.3f}-{:.3f}".format(*rows[0]["correct_share_95"])
    return (
        _range(rows),
        str(sum(row["count"] for row in rows)),
        str(sum(row["correct"] for row in rows)),
        interval,
        f"{min(row['least_margin'] for row in rows):.3g}",
        _text(min, rows, "least_certainty", "{:.6f}"),
        _text(max, rows, "most_displaced", "{:.2g}"),
    )


def _text(reduce: Any, rows: Sequence[Mapping[str, Any]], name: str, form: str) -> str:
    values = [row[name] for row in rows if row[name] is not None]
    return form.format(reduce(values)) if values else "–"


def _proven(report: Mapping[str, Any]) -> Iterator[str]:
    alphabet = report.get("alphabet")
    symbols = "" if not alphabet else f" over the symbols {' '.join(alphabet)}"
    parts = report["proven"]
    if not parts:
        yield "proven by enumeration: no length"
        return
    count = sum(part["count"] for part in parts)
    lengths = ", ".join(part["lengths"] for part in parts)
    one, are = ("the one sequence", "is") if count == 1 else (f"all {count} sequences", "are")
    yield f"proven by enumeration: {one} of length {lengths}{symbols} {are} correct"


def _sampled(drawn: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    groups: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in drawn:
        groups.setdefault((row["correct"], row["count"]), []).append(row)
    for (correct, count), rows in groups.items():
        low, high = rows[0]["correct_share_95"]
        lengths = ", ".join(str(row["length"]) for row in rows)
        each = " each" if len(rows) > 1 else ""
        yield (
            f"sampled: {correct} of {count} drawn sequences{each} of length {lengths} are correct, "
            f"95 % interval {low:.3f} to {high:.3f}"
        )


def _wrong(report: Mapping[str, Any]) -> Iterator[str]:
    first = next((row for row in report["rows"] if row["first_wrong"] is not None), None)
    if first is not None:
        yield f"wrong, for example: {first['first_wrong']}"


def _extrapolated(report: Mapping[str, Any]) -> Iterator[str]:
    first_error = report["first_error"]
    outcome = f"correct up to {report['correct_up_to']}"
    if first_error is not None:
        yield (
            "the first error, among the checked lengths from those of training on, comes at "
            f"length {first_error}"
        )
        outcome = f"it comes at {first_error}"
    for name, from_what in (("from_half", "the shorter half of"), ("predicted", "all")):
        part = report[name]
        if not part["trends"]:
            yield f"extrapolated from {from_what} the correct lengths: nothing, too few lengths"
            continue
        longest = max(trend["lengths"][1] for trend in part["trends"].values())
        when = "no margin goes to 0"
        if part["first_error"] is not None:
            when = f"the first error near length {part['first_error']}: {_FAILS[part['by']]}"
        yield (
            f"extrapolated from {from_what} the correct lengths, up to {longest}: {when} "
            f"({outcome})"
        )
