"""`unbounded extract RUN`: the machine that a hardened network is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace

from unbounded.cli.defaults import import_modules
from unbounded.cli.parsing import Parser, add_rounded, parse
from unbounded.errors import ConfigError
from unbounded.files import printable

#: More cases than these are not printed.
_SHOWN = 60

_DESCRIPTION = """Extract the machine that a trained network with whole decisions is.

examples:
  unbounded extract RUN
  unbounded extract RUN --alphabet 3 --symbols 20000
  python RUN/machine/machine.py a a b b
  unbounded extract RUN --check RUN/machine/machine.py

The network is run on every word up to a length. Its hidden states become control states, and what
it writes symbols, as few as make every step determined: in each state, for each input and each
symbol read, what it writes, pops, reads and says. Then the machine is compared with the network, on
these words and on long ones. RUN/machine/ gets it as a table, a graph (DOT, SVG, PNG), JSON and a
Python program that needs no torch.

--check executes the file that it is given, as `python FILE` would: give none that you do not trust.

The decisions must be 0 or 1: `unbounded harden RUN` makes them so.
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded extract", description=_DESCRIPTION)
    made.add_argument(
        "run", type=str, help="The run's folder, or the beginning of its name in runs/."
    )
    made.add_argument("--alphabet", type=int, default=2, help="Of sources: symbols of the words.")
    made.add_argument(
        "--symbols", type=int, default=10_000, help="Symbols of all words together, at the most."
    )
    made.add_argument(
        "--lengths",
        type=str | None,
        default=None,
        help="Lengths such as 128,640 to compare at; by default the longest that were verified.",
    )
    made.add_argument(
        "--check",
        type=str | None,
        help="A program that was extracted before: RUN IT (give none that you do not trust) and "
        "compare it with the run; nothing is written.",
    )
    add_rounded(made, default=None)
    made.add_argument(
        "--import", dest="imports", type=str, help="A module of your own that the run names."
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Extract the machine, print it, write it."""
    given, faults = parse(parser(arguments), arguments)
    faults += [
        f"--{name}: expected at least 1, got {getattr(given, name)}"
        for name in ("alphabet", "symbols")
        if getattr(given, name) < 1
    ]
    lengths = _lengths(given.lengths, faults)
    if faults:
        raise ConfigError(faults)
    if given.check is not None:
        return _check(given, lengths)
    from unbounded.cli.verify import progress
    from unbounded.evaluation.report import aligned
    from unbounded.experiments.run.extraction import extract_run, summary
    from unbounded.experiments.run.folder import find_run
    from unbounded.extraction import table_lines

    import_modules([] if given.imports is None else [given.imports])
    found, files = extract_run(
        find_run(given.run),
        symbols=given.alphabet,
        budget=given.symbols,
        lengths=lengths,
        rounded=given.rounded,
        look=progress(),
    )
    lines = aligned(table_lines(found.machine))
    print("\n".join(lines[: _SHOWN + 2]))
    if len(lines) > _SHOWN + 2:
        print(f"and {len(lines) - _SHOWN - 2} more cases, in machine.txt")
    print("", *(printable(line) for line in summary(found)), sep="\n")
    print("\nwritten:", *files, sep="\n  ")
    return 0


def _check(given: Namespace, lengths: list[int] | None) -> int:
    """Compare a program with the run; 1 where it is refused."""
    from unbounded.experiments.run.extraction import compare_run
    from unbounded.experiments.run.folder import find_run

    import_modules([] if given.imports is None else [given.imports])
    lines, is_equal = compare_run(
        find_run(given.run),
        Path(given.check),
        symbols=given.alphabet,
        budget=given.symbols,
        lengths=lengths,
        rounded=given.rounded,
    )
    print(*(printable(line) for line in lines), sep="\n")
    return 0 if is_equal else 1


def _lengths(text: str | None, faults: list[str]) -> list[int] | None:
    if text is None:
        return None
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = [0]
    if min(lengths) < 1:
        faults.append(f"--lengths: expected lengths of at least 1 such as 128,640, got {text!r}")
    return lengths
