"""`unbounded extract RUN`: extract an automaton from a hardened network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jsonargparse import Namespace

from unbounded.cli.overlay import import_given
from unbounded.cli.parsing import Parser, add_hardened, add_import, parse
from unbounded.errors import ConfigError
from unbounded.files import printable

#: Largest number of table rows to print.
_SHOWN = 60

_DESCRIPTION = """Extract the automaton of a trained network with saturated gates.

examples:
  unbounded extract RUN
  unbounded extract RUN --alphabet 3 --symbols 20000
  python RUN/automaton/automaton.py a a b b
  unbounded extract RUN --check RUN/automaton/automaton.py

The command runs the network on every input up to a length. Hidden states become control states,
and written vectors become stack symbols, as few as make every step deterministic. For each state,
input and read symbol, the automaton writes, pops, reads and outputs. It is then compared with the
network on these inputs and on long ones. RUN/automaton/ gets a table, a graph (DOT, SVG, PNG), JSON
and a Python program that does not need torch.

--check executes its file, as `python FILE` would. Do not give it a file that you do not trust.

The gates must be 0 or 1; `unbounded harden RUN` trains a network to this.
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded extract", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or a prefix of its name in runs/.")
    made.add_argument(
        "--alphabet", type=int, default=2, help="On sources: number of input symbols."
    )
    made.add_argument(
        "--symbols",
        type=int,
        default=10_000,
        help="Maximum number of symbols of all inputs together.",
    )
    made.add_argument(
        "--lengths",
        type=str | None,
        help="Lengths such as 128,640 to compare at; default: the longest verified lengths.",
    )
    made.add_argument(
        "--check",
        type=str | None,
        help="A previously extracted program: RUN IT (give none that you do not trust) and "
        "compare it with the run; writes nothing.",
    )
    add_hardened(made, default=None)
    add_import(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Extract the automaton, print it, and write it."""
    given, errors = parse(parser(arguments), arguments)
    errors += [
        f"--{name}: expected at least 1, got {getattr(given, name)}"
        for name in ("alphabet", "symbols")
        if getattr(given, name) < 1
    ]
    lengths = _lengths(given.lengths, errors)
    if errors:
        raise ConfigError(errors)
    if given.check is not None:
        return _check(given, lengths)
    from unbounded.cli.verify import progress
    from unbounded.evaluation.report import aligned
    from unbounded.experiments.run.extraction import extract_run, summary
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.extraction import table_lines

    import_given(given)
    extraction, files = extract_run(
        RunFolder.find(given.run),
        symbols=given.alphabet,
        budget=given.symbols,
        lengths=lengths,
        hardened=given.hardened,
        look=progress(),
    )
    lines = aligned(table_lines(extraction.automaton))
    print("\n".join(lines[: _SHOWN + 2]))
    if len(lines) > _SHOWN + 2:
        print(f"and {len(lines) - _SHOWN - 2} more cases, in automaton.txt")
    print("", *(printable(line) for line in summary(extraction)), sep="\n")
    print("\nwritten:", *files, sep="\n  ")
    return 0


def _check(given: Namespace, lengths: list[int] | None) -> int:
    """Compare a program with the run, and return 1 if they differ."""
    from unbounded.experiments.run.extraction import compare_run
    from unbounded.experiments.run.run_folder import RunFolder

    import_given(given)
    lines, is_equal = compare_run(
        RunFolder.find(given.run),
        Path(given.check),
        symbols=given.alphabet,
        budget=given.symbols,
        lengths=lengths,
        hardened=given.hardened,
    )
    print(*(printable(line) for line in lines), sep="\n")
    return 0 if is_equal else 1


def _lengths(text: str | None, errors: list[str]) -> list[int] | None:
    if text is None:
        return None
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        lengths = [0]
    if min(lengths) < 1:
        errors.append(f"--lengths: expected lengths of at least 1 such as 128,640, got {text!r}")
    return lengths
