"""Extract the automaton of a hardened run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from unbounded.errors import CheckpointError
from unbounded.evaluation.provenance import provenance
from unbounded.evaluation.report import aligned
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run_folder import AnyPath, RunFolder
from unbounded.experiments.run.verification import finished_run, is_stale, read_verification
from unbounded.extraction import (
    Agreement,
    Extraction,
    automaton_data,
    compare,
    dot_of,
    extract,
    program_from,
    program_of,
    table_lines,
)
from unbounded.figures import draw_automaton
from unbounded.files import json_text, storage_errors, write_text

FORMAT = "unbounded-automaton"
VERSION = 2
#: Lengths of the comparison without a verification, as multiples of the longest training length.
_TIMES = (2, 10)
#: Greatest length of the comparison. An automaton is slow, because it reads symbol by symbol.
_LONGEST = 10_000


def extract_run(
    folder: AnyPath,
    *,
    symbols: int = 2,
    budget: int = 10_000,
    lengths: Sequence[int] | None = None,
    hardened: bool | None = None,
    look: Callable[[str, float], None],
) -> tuple[Extraction, list[Path]]:
    """Extract the automaton of a finished run, and write it into the run's folder `automaton`.

    Args:
        folder: the run's folder.
        symbols, budget: as for `extract`.
        lengths: lengths of random strings on which automaton and network are compared. None for
            the longest verified lengths, up to 10 000; without a verification, twice and ten times
            the longest training length.
        hardened: as for `finished_run`.
        look: called with the current activity and its finished share.
    Returns:
        The extraction and the files written.
    Raises:
        CheckpointError: as for `finished_run`, or `verified_lengths` without `lengths`.
        ConfigError: as for `extract`.
        StorageError: a file cannot be written.
    """
    folder = RunFolder(folder)
    config, task, model, source = finished_run(folder, hardened)
    digest = folder.weights_digest(source)
    lengths = _lengths(folder, source, lengths, plan(config, task).train_lengths.maximum)
    extraction = extract(
        model, task, symbols=symbols, budget=budget, lengths=lengths, seed=config.seed, look=look
    )
    title = f"{config.task['name']}, {model_name(config.model)} ({folder.name}, {source})"
    into = folder.automaton
    with storage_errors(into, "making folder"):
        into.mkdir(exist_ok=True)
    texts = {
        "automaton.py": program_of(extraction.automaton, title, extraction.shortest),
        "automaton.dot": dot_of(extraction.automaton, title),
        "automaton.txt": "\n".join(aligned(table_lines(extraction.automaton))) + "\n",
        "automaton.json": json_text(
            {
                "format": FORMAT,
                "version": VERSION,
                "task": config.task["name"],
                "run": folder.name,
                "weights": source,
                "weights_sha256": digest,
                "closed": extraction.closed,
                "determined": extraction.determined,
                "every_string_to": extraction.longest,
                "strings": extraction.strings,
                "prefixes": extraction.prefixes,
                "least_certainty": extraction.certainty,
                "listed": extraction.listed._asdict(),
                "drawn": {str(n): agreement._asdict() for n, agreement in extraction.drawn.items()},
                **automaton_data(extraction.automaton),
                **provenance(),
            },
            indent=1,
        )
        + "\n",
    }
    for name, text in texts.items():
        write_text(into / name, text)
    drawn = draw_automaton(extraction.automaton, into, title=title)
    return extraction, [*(into / name for name in texts), *drawn]


def compare_run(
    folder: AnyPath,
    program: Path,
    *,
    symbols: int = 2,
    budget: int = 10_000,
    lengths: Sequence[int] | None = None,
    hardened: bool | None = None,
) -> tuple[list[str], bool]:
    """Compare a program with the network of a finished run; nothing is written.

    Args:
        folder: the run's folder.
        program: an extracted program, possibly edited.
        symbols, budget, lengths, hardened: as for `extract_run`.
    Returns:
        The lines to print, and whether both are equal on all strings.
    Raises:
        CheckpointError, ConfigError: as for `extract_run`; or the file is not a program of the
            run's task.
    """
    folder = RunFolder(folder)
    config, task, model, source = finished_run(folder, hardened)
    agreements, example = compare(
        program_from(program),
        model,
        task,
        symbols=symbols,
        budget=budget,
        lengths=_lengths(folder, source, lengths, plan(config, task).train_lengths.maximum),
        seed=config.seed,
    )
    lines = [f"equal to the network on {_share(equal)}: {on}" for on, equal in agreements.items()]
    if example is not None:
        lines.append(f"refused: the program differs from this network, for example on: {example}")
    return lines, example is None


def _lengths(
    folder: RunFolder, source: str, lengths: Sequence[int] | None, trained: int
) -> Sequence[int]:
    """The given lengths, else verified lengths, else multiples of the longest training length."""
    if lengths is not None:
        return lengths
    return verified_lengths(folder, source) or [time * trained for time in _TIMES]


def verified_lengths(folder: RunFolder, source: str) -> list[int]:
    """The two greatest lengths, up to 10 000, at which all verified strings were correct.

    Args:
        folder: the run's folder.
        source: the model's folder in it.
    Returns:
        The lengths; empty without a verification.
    Raises:
        CheckpointError: the file is not a verification, or the weights have changed since.
    """
    path = folder.verification_file(source)
    if not path.is_file():
        return []
    report = read_verification(path)
    if is_stale(report, folder, source):
        raise CheckpointError(
            f"{path} was made with other weights than {folder / source} has now. Run "
            f"`unbounded verify {folder}`, or give the lengths to compare at with --lengths."
        )
    correct = {
        int(row["length"])
        for row in report["rows"]
        if row["correct"] == row["count"] and 1 <= row["length"] <= _LONGEST
    }
    return sorted(correct)[-2:]


def summary(extraction: Extraction) -> list[str]:
    """The lines that describe an extraction in the terminal."""
    automaton = extraction.automaton
    symbols = sum(len(names) for names in automaton.symbols)
    lines = [
        f"{_number(automaton.states, 'state')}, {_number(symbols, 'symbol')}, "
        f"{_number(len(automaton.table), 'case')}; from {extraction.strings} strings, all up to "
        f"length {extraction.longest}, with {extraction.prefixes} prefixes"
    ]
    if extraction.closed:
        lines.append("the states close: every step of these strings follows the table")
        if any(drawn.equal < drawn.strings for drawn in extraction.drawn.values()):
            lines.append(
                "but longer strings do not: the listed ones are too short to show the difference. "
                "--symbols 100000 lists ten times as many symbols"
            )
    else:
        lines.append(
            f"the states do not close: {100 * extraction.determined:.2f} % of the steps follow "
            "the table, which has the most frequent actions"
        )
    lines.append(f"equal to the network on {_share(extraction.listed)} of these strings")
    lines += [
        f"equal to the network on {_share(equal)} random strings of length {length}"
        for length, equal in extraction.drawn.items()
    ]
    if extraction.example is not None:
        lines.append(f"they differ, for example, on: {extraction.example}")
    return lines


def _share(agreement: Agreement) -> str:
    notes = [f"in {agreement.left} the table lacks a case"] if agreement.left else []
    notes += [f"in {agreement.erring} the network itself is wrong"] if agreement.erring else []
    return f"{agreement.equal} of {agreement.strings}" + (f" ({'; '.join(notes)})" if notes else "")


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
