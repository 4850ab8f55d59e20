"""`unbounded list`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from unbounded.cli.names import NAMES
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ConfigError

_DESCRIPTION = """Show what can be chosen by name: tasks, memories, controllers, presets, papers.

example:
  unbounded list
"""


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded list", description=_DESCRIPTION)
    made.add_argument("--json", action="store_true", help="Print JSON.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the names, one kind a line, each with what it is."""
    given, faults = parse(parser(arguments), arguments)
    if faults:
        raise ConfigError(faults)
    found = names()
    if given.json:
        print(json.dumps(found, indent=2))
        return 0
    for kind, entries in found.items():
        print(f"{kind}:")
        width = max(len(name) for name in entries)
        for name, text in entries.items():
            print(f"  {name:<{width}}  {text}".rstrip())
    return 0


def names() -> dict[str, dict[str, str]]:
    """Each kind of thing with its names and what they are."""
    from unbounded.experiments.config.presets import PRESETS, summary

    return {**NAMES, "presets": {name: summary(name) for name in PRESETS}}
