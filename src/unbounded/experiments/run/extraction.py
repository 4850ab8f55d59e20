"""The machine of a run that was trained and hardened before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from unbounded.errors import CheckpointError
from unbounded.evaluation.provenance import provenance
from unbounded.evaluation.report import aligned
from unbounded.experiments.config.identity import model_name
from unbounded.experiments.run.folder import weights_digest
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.verification import finished_run, is_stale, read_verification
from unbounded.extraction import (
    Agreement,
    Extraction,
    compare,
    dot_of,
    extract,
    machine_data,
    program_from,
    program_of,
    table_lines,
)
from unbounded.figures import draw_machine
from unbounded.files import json_text, storage_faults, write_text

FORMAT = "unbounded-machine"
VERSION = 1
#: Without a verification these multiples of the longest length of training are looked at.
_TIMES = (2, 10)
#: Steps of a machine on long words are taken one by one.
_LONGEST = 10_000


def extract_run(
    folder: Path,
    *,
    symbols: int = 2,
    budget: int = 10_000,
    lengths: Sequence[int] | None = None,
    rounded: bool | None = None,
    look: Callable[[str, float], None],
) -> tuple[Extraction, list[Path]]:
    """Extract the machine of a finished run, and write it into the folder `machine` of the run.

    Args:
        folder: of the run.
        symbols, budget: as for `extract`.
        lengths: of drawn words on which machine and network are compared; None for the longest at
            which the run was verified, up to 10 000, or twice and ten times the longest length
            of training where it was not.
        rounded: as for `finished_run`.
        look: told what is done, and which share.
    Returns:
        what was found, and the files written.
    Raises:
        CheckpointError: as for `finished_run`, or `verified_lengths` where no lengths are given.
        ConfigError: as for `extract`.
        StorageError: the disk refused.
    """
    config, task, model, source = finished_run(folder, rounded)
    digest = weights_digest(folder / source)
    lengths = _lengths(folder, source, lengths, plan(config, task).train_lengths.maximum)
    extraction = extract(
        model, task, symbols=symbols, budget=budget, lengths=lengths, seed=config.seed, look=look
    )
    title = f"{config.task}, {model_name(config.model)} ({folder.name}, {source})"
    into = folder / "machine"
    with storage_faults(into, "making folder"):
        into.mkdir(exist_ok=True)
    texts = {
        "machine.py": program_of(extraction.machine, title, extraction.shortest),
        "machine.dot": dot_of(extraction.machine, title),
        "machine.txt": "\n".join(aligned(table_lines(extraction.machine))) + "\n",
        "machine.json": json_text(
            {
                "format": FORMAT,
                "version": VERSION,
                "task": config.task,
                "run": folder.name,
                "weights": source,
                "weights_sha256": digest,
                "closed": extraction.closed,
                "determined": extraction.determined,
                "every_word_to": extraction.longest,
                "words": extraction.words,
                "beginnings": extraction.beginnings,
                "least_certainty": extraction.certainty,
                "listed": extraction.listed._asdict(),
                "drawn": {str(n): each._asdict() for n, each in extraction.drawn.items()},
                **machine_data(extraction.machine),
                **provenance(),
            },
            indent=1,
        )
        + "\n",
    }
    for name, text in texts.items():
        write_text(into / name, text)
    drawn = draw_machine(extraction.machine, into, title=title)
    return extraction, [*(into / name for name in texts), *drawn]


def compare_run(
    folder: Path,
    program: Path,
    *,
    symbols: int = 2,
    budget: int = 10_000,
    lengths: Sequence[int] | None = None,
    rounded: bool | None = None,
) -> tuple[list[str], bool]:
    """Compare a program with the network of a finished run; nothing is written.

    Args:
        folder: of the run.
        program: an extracted one, as it was or changed.
        symbols, budget, lengths, rounded: as for `extract_run`.
    Returns:
        what is to be said, and whether they are equal on all words.
    Raises:
        CheckpointError, ConfigError: as for `extract_run`; the program is none, or of another task.
    """
    config, task, model, source = finished_run(folder, rounded)
    agreements, example = compare(
        program_from(program),
        model,
        task,
        symbols=symbols,
        budget=budget,
        lengths=_lengths(folder, source, lengths, plan(config, task).train_lengths.maximum),
        seed=config.seed,
    )
    lines = [f"equal to the network on {_share(each)}: {on}" for on, each in agreements.items()]
    if example is not None:
        lines.append(f"refused: it is not this network; they differ, for example, on: {example}")
    return lines, example is None


def _lengths(
    folder: Path, source: str, lengths: Sequence[int] | None, trained: int
) -> Sequence[int]:
    """The lengths to compare at: those given, or verified, or multiples of those of training."""
    if lengths is not None:
        return lengths
    return verified_lengths(folder, source) or [time * trained for time in _TIMES]


def verified_lengths(folder: Path, source: str) -> list[int]:
    """The two longest lengths, up to 10 000, at which a verification found all words right.

    Args:
        folder: of the run.
        source: the model's folder in it; none where it was not verified.
    Raises:
        CheckpointError: the verification is none, or is of other weights than the model has now.
    """
    path = folder / f"verification-{source}.json"
    if not path.is_file():
        return []
    report = read_verification(path)
    if is_stale(report, folder / source):
        raise CheckpointError(
            f"{path} is of other weights than {folder / source} has now. `unbounded verify "
            f"{folder}` looks at these; --lengths says where to compare without it."
        )
    right = {
        int(row["length"])
        for row in report["rows"]
        if row["right"] == row["count"] and row["length"] <= _LONGEST
    }
    return sorted(right)[-2:]


def summary(extraction: Extraction) -> list[str]:
    """What is to be said of an extraction."""
    machine = extraction.machine
    symbols = sum(len(names) for names in machine.symbols)
    lines = [
        f"{_number(machine.states, 'state')}, {_number(symbols, 'symbol')}, "
        f"{_number(len(machine.table), 'case')}; from {extraction.words} words, every one to "
        f"length {extraction.longest}, with {extraction.beginnings} beginnings"
    ]
    if extraction.closed:
        lines.append("the states close: every step of these words goes as the table says")
        if any(each.equal < each.words for each in extraction.drawn.values()):
            lines.append(
                "but longer words go otherwise: those that were listed are too short to tell. "
                "--symbols 100000 lists ten times as many symbols of them"
            )
    else:
        lines.append(
            f"the states do not close: {100 * extraction.determined:.2f} % of the steps go as the "
            "table says, which has what is most frequent"
        )
    lines.append(f"equal to the network on {_share(extraction.listed)} of these words")
    lines += [
        f"equal to the network on {_share(each)} drawn words of length {length}"
        for length, each in extraction.drawn.items()
    ]
    if extraction.example is not None:
        lines.append(f"they differ, for example, on: {extraction.example}")
    return lines


def _share(agreement: Agreement) -> str:
    notes = [f"in {agreement.left} the table lacks a case"] if agreement.left else []
    notes += [f"in {agreement.erring} the network itself is wrong"] if agreement.erring else []
    return f"{agreement.equal} of {agreement.words}" + (f" ({'; '.join(notes)})" if notes else "")


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
