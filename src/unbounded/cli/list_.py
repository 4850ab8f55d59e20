"""`unbounded list`."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from unbounded.cli.names import NAMES
from unbounded.cli.parsing import Parser, parse
from unbounded.errors import ChoiceError, ConfigError
from unbounded.own_parts import is_path

_DESCRIPTION = """Show what can be chosen by name, or the options of one task, memory or controller.

examples:
  unbounded list
  unbounded list turing_tape
"""
#: Where the options of a part are set.
_SET = {"tasks": "task_options", "memories": "model.memory", "controllers": "model.controller"}
#: What is done with a name of a kind that has no options here.
_USED = {
    "papers": "unbounded reproduce {} --dry-run",
    "optimizers": "unbounded train TASK --training.optimizer {}",
    "schedules": "unbounded train TASK --training.schedule {}",
}
#: How a docstring leaves what options mean to another one's.
_AS_FOR = re.compile(r"Args(?:,| and) errors(?: and source)? as for `(\w+)`([^.]*)\.")
#: What a memory's option is where it is left out and has no default of its own.
_LEFT_OUT = {"width": "as wide as the hidden layer", "count": "10"}


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded list", description=_DESCRIPTION)
    made.add_argument("name", nargs="?", type=str, help="One of the names that are listed.")
    made.add_argument("--json", action="store_true", help="Print JSON.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the names, one a line, each with what it is; or one of them with its options."""
    given, faults = parse(parser(arguments), arguments)
    if faults:
        raise ConfigError(faults)
    if given.name is not None:
        return _show_options(given.name, given.json)
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


def options(name: str) -> dict[str, dict[str, Any]]:
    """The options of what has that name, with their defaults, by where they are set.

    Raises:
        ChoiceError: nothing that has options is called so. ConfigError: it is of the user's own.
    """
    kinds = [kind for kind in _SET if name in NAMES[kind]]
    if not kinds and is_path(name):
        raise ConfigError(
            [f"{name} is of your own: its options are the arguments of its class, and not listed"]
        )
    if not kinds:
        raise ChoiceError("name", name, [each for kind in NAMES for each in NAMES[kind]])
    return {_SET[kind]: _defaults(kind, name) for kind in kinds}


def _factories(kind: str, name: str) -> list[Any]:
    """What makes the things of that name, the more general first."""
    # torch is imported here, and not for the names alone.
    from unbounded.layers import CONTROLLERS
    from unbounded.memories import MEMORIES
    from unbounded.models.model_parts import BASELINES
    from unbounded.tasks import TASKS

    registries: dict[str, list[Mapping[str, Any]]] = {
        "tasks": [TASKS],
        "memories": [MEMORIES],
        "controllers": [CONTROLLERS, BASELINES],
    }
    return [registry[name] for registry in registries[kind] if name in registry]


def _defaults(kind: str, name: str) -> dict[str, Any]:
    from unbounded.models.model_parts import OF_LAYER
    from unbounded.options import options_of

    made: dict[str, Any] = {}
    for factory in _factories(kind, name):
        made = {**options_of(factory, OF_LAYER), **made}
    return {
        name: _LEFT_OUT.get(name) if option.is_required else option.default
        for name, option in made.items()
    }


def _explanations(kind: str, name: str) -> dict[str, str]:
    """What the docstrings say of options, by name; of a class those of what it is made from too."""
    from docstring_parser import parse as parse_docstring

    found: dict[str, str] = {}
    for factory in _factories(kind, name):
        for part in inspect.getmro(factory) if isinstance(factory, type) else (factory,):
            for argument in parse_docstring(part.__doc__ or "").params:
                for option in argument.arg_name.split(","):
                    found.setdefault(option.strip(), " ".join((argument.description or "").split()))
        other = _AS_FOR.search(inspect.getdoc(factory) or "")
        if other:
            found = {**_explanations(kind, other[1]), **found}
    return found


def _remark(kind: str, name: str) -> str:
    """In what the options differ from those that a docstring leaves them to; mostly nothing."""
    said = (_AS_FOR.search(inspect.getdoc(factory) or "") for factory in _factories(kind, name))
    return " ".join(f"As for {m[1]}{m[2]}." for m in said if m and m[2])


def _show_options(name: str, as_json: bool) -> int:
    used = [kind for kind in _USED if name in NAMES[kind]]
    if used:
        told = {"name": name, "is": NAMES[used[0]][name], "use": _USED[used[0]].format(name)}
        plain = f"{name}: {told['is']}".rstrip(": ") + f"\n  {told['use']}"
        print(json.dumps(told, indent=2) if as_json else plain)
        return 0
    found = options(name)
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    for where, own in found.items():
        kind = next(kind for kind, place in _SET.items() if place == where)
        print(f"{name}: {NAMES[kind][name]}")
        width = max(map(len, own), default=0)
        print(f"options, with --{where}.OPTION VALUE:" if own else "It has no options.")
        said, columns = _explanations(kind, name), min(100, shutil.get_terminal_size().columns)
        for option, value in own.items():
            text = value if isinstance(value, str) else json.dumps(value)
            print(f"  {option:<{width}}  {text}")
            lines = textwrap.wrap(said.get(option, ""), max(40, columns - 6))
            print("".join(f"      {line}\n" for line in lines), end="")
        if remark := _remark(kind, name):
            print(f"  {remark}")
    return 0
