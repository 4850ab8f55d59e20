"""`unbounded list`."""

from __future__ import annotations

import json
from collections.abc import Sequence

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
    from unbounded.experiments.presets import PRESETS, summary
    from unbounded.experiments.published import PAPERS
    from unbounded.layers import CONTROLLERS
    from unbounded.memories import MEMORIES, SUPERPOSITION_MEMORIES
    from unbounded.tasks import TASKS
    from unbounded.training import OPTIMIZERS, SCHEDULES

    return {
        "tasks": {name: _first_line(make) for name, make in TASKS.items()},
        "memories": {
            "none": "No memory: a deep LSTM, or on streams a controller alone.",
            **{name: _first_line(memory) for name, memory in MEMORIES.items()},
            **{name: _first_line(memory) for name, memory in SUPERPOSITION_MEMORIES.items()},
        },
        "controllers": {name: _first_line(each) for name, each in CONTROLLERS.items()},
        "optimizers": dict.fromkeys(OPTIMIZERS, ""),
        "schedules": dict.fromkeys(SCHEDULES, ""),
        "presets": {name: summary(name) for name in PRESETS},
        "papers": dict(PAPERS),
    }


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n", 1)[0]
