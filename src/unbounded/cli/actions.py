"""`unbounded actions RUN INPUT`: what the stacks or lists of a trained run do, step by step."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from unbounded.cli.defaults import import_modules
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ConfigError, RunExistsError

#: Symbols beyond which nothing would be seen for many seconds.
_LONG = 2000
_DESCRIPTION = """Show what each stack or list of a trained run does with an input, step by step.

A row is a step: the symbol that was read, the next one, the likeliest one and the chance of the
next; then the action of each stack, with its weight where it is not decided, and the top of each
after it. The memory is empty at the beginning. In a terminal, stacks for which a line has no room
follow below; a pipe or file gets them side by side. With --out the same goes into pictures.

examples:
  unbounded actions RUN aaabbb
  unbounded actions RUN aabbaabb --rounded --out pictures
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded actions", description=_DESCRIPTION)
    made.add_argument("run", type=str, help="The run's folder, or the beginning of its name.")
    made.add_argument("input", type=str, help="At least two symbols; the last is only predicted.")
    made.add_argument("--rounded", action="store_true", help="Of the machine that rounding made.")
    made.add_argument(
        "--discretize", action="store_true", help="Take the likeliest action to its full weight."
    )
    made.add_argument(
        "--data", type=str | None, default=None, help="Folder of the corpus, if it has moved."
    )
    made.add_argument(
        "--import", dest="imports", type=str | None, help="A module of your own that the run names."
    )
    made.add_argument("--out", type=str | None, default=None, help="Folder for pictures.")
    made.add_argument("--overwrite", action="store_true", help="Replace pictures in it.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the table; draw it when asked."""
    given, faults = parse(parser(arguments), arguments)
    if faults:
        raise ConfigError(faults)
    folder = None if given.out is None else Path(given.out)
    if folder is not None and not given.overwrite:
        there = [
            path for path in folder.glob("action*") if path.stem in ("actions", "action_table")
        ]
        if there:
            raise RunExistsError(f"{there[0]} exists; --overwrite replaces it")
    from unbounded.evaluation import action_rows, action_table, read_symbols
    from unbounded.experiments.config.check import build_task
    from unbounded.experiments.run.evaluate import load_config, load_model
    from unbounded.experiments.run.folder import find_run
    from unbounded.models.discrete import discretized, superposition_layer

    import_modules([given.imports] if given.imports else [])
    run_folder = find_run(given.run)
    config = load_config(run_folder)
    if given.data is not None:
        config.machine.data = given.data
    task = build_task(config)
    model, _ = load_model(run_folder, given.rounded)
    superposition_layer(model)  # a run without stacks or lists: said before its symbols are read
    symbols = read_symbols(task, given.input)
    if len(symbols) > _LONG:
        print(f"{len(symbols)} symbols, step by step: this takes a while", file=sys.stderr)
    rows = action_rows(discretized(model) if given.discretize else model, task, symbols)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(action_table(rows, width))
    if folder is not None:
        from unbounded.figures import draw_action_table, draw_actions

        title = f"{run_folder.name}: {given.input}"
        written = [
            *draw_actions(rows, folder, "actions", title=title),
            *draw_action_table(rows, folder, "action_table", title=title),
        ]
        print("\nwritten:", *written, sep="\n  ")
    return 0
