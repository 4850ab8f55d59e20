"""`unbounded list`: the names of tasks, memories and other choices, and their options."""

from __future__ import annotations

import functools
import inspect
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from unbounded.cli.names import PLACES, REGISTRIES, names_of
from unbounded.cli.parsing import Parser, parse
from unbounded.custom_components import is_path
from unbounded.errors import ChoiceError, ConfigError
from unbounded.experiments.config.presets import FAMILIES, PRESETS, summary

_DESCRIPTION = """Show the available names, those of one place, or the options of one component.

examples:
  unbounded list
  unbounded list turing_tape
  unbounded list cooldown
  unbounded list schedule
"""
#: For each kind of component without options, the command that uses its names.
_USED = {"papers": "unbounded reproduce {} --dry-run"}
#: A reference in a docstring to the Args of another docstring.
_AS_FOR = re.compile(
    r"(?:Args(?:,| and) errors(?: and source)?|Everything else is) as for `(\w+)`([^.]*)\."
)
#: Values in docstrings, and their form in a config.
_IN_PYTHON = {"None": "null", "True": "true", "False": "false"}
#: Defaults of memory options that the memory's signature requires.
_LEFT_OUT = {"width": "as wide as the hidden layer", "count": "10"}


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded list", description=_DESCRIPTION)
    made.add_argument(
        "name", nargs="?", type=str, help="One of the listed names, or a place such as schedule."
    )
    made.add_argument("--json", action="store_true", help="Print JSON.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the names with descriptions, one per line, or a single name with its options."""
    given, errors = parse(parser(arguments), arguments)
    if errors:
        raise ConfigError(errors)
    kinds = {place.rpartition(".")[2]: kind for kind, place in PLACES.items()}
    kinds.update({kind: kind for kind in REGISTRIES})  # the headings of the list
    if given.name is not None and given.name not in kinds:
        return _show_options(given.name, given.json)
    listed = names()
    if given.name is not None:
        listed = {kinds[given.name]: listed[kinds[given.name]]}
    if given.json:
        families = {"families": FAMILIES} if "tasks" in listed else {}
        print(json.dumps({**listed, **families}, indent=2))
        return 0
    for kind, entries in listed.items():
        print(f"{kind}:")
        width = max(len(name) for name in entries)
        # Tasks are listed by family.
        for family, members in (FAMILIES if kind == "tasks" else {"": tuple(entries)}).items():
            if family:
                print(f" {family}:")
            for name in members:
                print(f"  {name:<{width}}  {entries[name]}".rstrip())
    return 0


def names() -> dict[str, dict[str, str]]:
    """The names of each kind, with descriptions."""
    named = {kind: names_of(kind) for kind in REGISTRIES}
    return {**named, "presets": {name: summary(name) for name in PRESETS}}


def options(name: str) -> dict[str, dict[str, Any]]:
    """The options of a name with their defaults, by config section.

    Raises:
        ChoiceError: no task, memory or controller has this name.
        ConfigError: a custom component cannot be imported, or is of another kind.
    """
    kinds = [kind for kind in PLACES if name in names_of(kind)]
    if not kinds and is_path(name):
        kinds = [_custom_kind(name)]
    elif not kinds:
        raise ChoiceError("name", name, {entry for kind in REGISTRIES for entry in names_of(kind)})
    return {PLACES[kind]: _defaults(kind, name) for kind in kinds}


def _custom_kind(path: str) -> str:
    """Import a custom component, and return its kind."""
    from unbounded.cli.overlay import import_modules
    from unbounded.memories import Memory
    from unbounded.rnn import Controller
    from unbounded.tasks import Task

    module, _, name = path.rpartition(".")
    import_modules([module])
    part = vars(sys.modules[module]).get(name)
    bases = {"tasks": Task, "memories": Memory, "controllers": Controller}
    for kind, base in bases.items():
        if isinstance(part, type) and issubclass(part, base):
            return kind
    raise ConfigError(
        f"{path}: expected a subclass of Task, Memory or Controller in {module}, which has "
        f"{'none of that name' if part is None else repr(part)}"
    )


def _factories(kind: str, name: str) -> list[Any]:
    """The factories of a name, with the more general first."""
    # Imported here, because listing names does not need torch.
    from unbounded.experiments.config.components import factory_at
    from unbounded.experiments.config.schema import ModelConfig
    from unbounded.models.model_parts import BASELINES
    from unbounded.rnn import CONTROLLERS

    if kind == "controllers" and not is_path(name):
        return [registry[name] for registry in (CONTROLLERS, BASELINES) if name in registry]
    return [factory_at(PLACES[kind], name, ModelConfig())]


def _defaults(kind: str, name: str) -> dict[str, Any]:
    from unbounded.experiments.config.components import CHOICES
    from unbounded.options import options_of

    made: dict[str, Any] = {}
    for factory in _factories(kind, name):
        made = {**options_of(factory, CHOICES[PLACES[kind]].provided), **made}
    left_out = _LEFT_OUT if kind == "memories" else {}
    return {
        name: left_out.get(name, "required") if option.is_required else option.default
        for name, option in made.items()
    }


def _explanations(kind: str, name: str) -> dict[str, str]:
    """Descriptions of options from the docstrings of a factory and its base classes."""
    from docstring_parser import parse as parse_docstring

    texts: dict[str, str] = {}
    for factory in _factories(kind, name):
        factory = factory.func if isinstance(factory, functools.partial) else factory
        for part in inspect.getmro(factory) if isinstance(factory, type) else (factory,):
            for argument in parse_docstring(part.__doc__ or "").params:
                for option in argument.arg_name.split(","):
                    texts.setdefault(option.strip(), _as_in_a_config(argument.description or ""))
        other = _AS_FOR.search(inspect.getdoc(factory) or "")
        if other:
            texts = {**_explanations(kind, other[1]), **texts}
    return texts


def _remark(kind: str, name: str) -> str:
    """Differences from the options of another docstring that is referred to; usually empty."""
    matches = (_AS_FOR.search(inspect.getdoc(factory) or "") for factory in _factories(kind, name))
    clauses = (" ".join(m[2].strip(" ,;").split()).removeprefix("but ") for m in matches if m)
    return " ".join(f"{clause[:1].upper()}{clause[1:]}." for clause in clauses if clause)


def _as_in_a_config(text: str) -> str:
    """A docstring's text on one line, with null, true and false as in the values shown."""
    words = "|".join(_IN_PYTHON)
    return re.sub(rf"\b({words})\b", lambda found: _IN_PYTHON[found[0]], " ".join(text.split()))


def _show_options(name: str, as_json: bool) -> int:
    used = [kind for kind in _USED if name in names_of(kind)]
    if used:
        entry = {"name": name, "is": names_of(used[0])[name], "use": _USED[used[0]].format(name)}
        plain = f"{name}: {entry['is']}".rstrip(": ") + f"\n  {entry['use']}"
        print(json.dumps(entry, indent=2) if as_json else plain)
        return 0
    sections = options(name)
    if as_json:
        print(json.dumps(sections, indent=2, default=str))
        return 0
    from unbounded.models.model_parts import ONLY_BASELINES

    for where, own in sections.items():
        kind = next(kind for kind, place in PLACES.items() if place == where)
        described = names_of(kind).get(name)
        if described is None:  # a custom component
            described = (_factories(kind, name)[0].__doc__ or "").strip().partition("\n")[0]
        print(f"{name} ({where}): {_as_in_a_config(described)}".rstrip(": "))
        width = max(map(len, own), default=0)
        print(f"options, with --{where}.OPTION VALUE:" if own else "It has no options.")
        texts, columns = _explanations(kind, name), min(100, shutil.get_terminal_size().columns)
        for option, value in own.items():
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            print(f"  {option:<{width}}  {text}")
            lines = textwrap.wrap(texts.get(option, ""), max(40, columns - 6))
            print("".join(f"      {line}\n" for line in lines), end="")
        if remark := _remark(kind, name):
            print(f"  {remark}")
        if where == "model.controller" and name in ONLY_BASELINES:
            print("It is a network without a memory: give --model.memory none.")
    return 0
