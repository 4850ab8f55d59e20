"""Names of tasks, memories and other choices, and the first line of each docstring.

They are read from the source of the registries, so that torch need not be imported.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import unbounded

#: The registries of each kind of component, as module and name of a dict. Of two descriptions of
#: a name the first is taken.
REGISTRIES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "tasks": (("tasks.registry", "TASKS"),),
    "memories": (("memories", "MEMORIES"),),
    "controllers": (("rnn.controllers", "CONTROLLERS"), ("models.model_parts", "BASELINES")),
    "stop_rules": (("training.hooks", "STOPS"),),
    "early_aborts": (("training.hooks", "EARLY_ABORTS"),),
    "curricula": (("training.hooks", "CURRICULA"),),
    "plateaus": (("training.hooks", "PLATEAUS"),),
    "temperature_noises": (("training.hooks", "TEMPERATURE_NOISES"),),
    "hardenings": (("experiments.config.components", "HARDENINGS"),),
    "optimizers": (("training.optimizers", "OPTIMIZERS"),),
    "schedules": (("training.hooks", "SCHEDULES"),),
    "papers": (("experiments.tables.published", "PAPERS"),),
}
_FLAGS: Final = re.MULTILINE | re.DOTALL
#: A function, class or dict of a module, up to the next line that is not indented. To parse whole
#: files would take half a second.
_BLOCK: Final = r"^(?:(?:def|class) {0}\b|{0}\b[^=\n]*= \{{).*?(?=^[^\s)\]}}]|\Z)"
_NO_MEMORY: Final = {"none": "No memory: the controller alone, or a deep LSTM."}

#: The options of a config whose value is a component, by kind.
PLACES: Final = {
    "tasks": "task",
    "memories": "model.memory",
    "controllers": "model.controller",
    "optimizers": "training.optimizer",
    "schedules": "training.schedule",
    "stop_rules": "training.stop",
    "early_aborts": "training.early_abort",
    "temperature_noises": "training.temperature_noise",
    "curricula": "training.curriculum",
    "plateaus": "training.plateau",
    "hardenings": "hardening",
}


@functools.cache
def names_of(kind: str) -> dict[str, str]:
    """The names of a kind with their descriptions; an empty one for parts of other packages."""
    named = dict(_NO_MEMORY) if kind == "memories" else {}
    for module, registry in REGISTRIES[kind]:
        for name, text in _described(f"unbounded.{module}", ast.Name(registry)):
            named.setdefault(name, text)
    return named


def _described(module: str, registry: ast.expr) -> Iterator[tuple[str, str]]:
    """The names in a dict that an expression of a module refers to, with their descriptions."""
    owner, table = _definition(module, registry)
    if not isinstance(table, ast.Dict):
        raise TypeError(f"{module}: {ast.unparse(registry)} is not a literal dict")
    for key, value in zip(table.keys, table.values, strict=True):
        if key is None:  # **OTHER
            yield from _described(owner, value)
        else:
            yield ast.literal_eval(key), _description(owner, value)


def _description(module: str, value: ast.expr) -> str:
    if isinstance(value, ast.Call) and value.args:  # a function that returns a factory
        value = value.args[0]
    if isinstance(value, ast.Constant):
        return str(value.value).partition("\n")[0]
    _, part = _definition(module, value)
    if not isinstance(part, ast.FunctionDef | ast.ClassDef):
        return ""
    return (ast.get_docstring(part) or "").partition("\n")[0]


def _definition(module: str, value: ast.expr) -> tuple[str, ast.AST | None]:
    """What NAME or MODULE.NAME in a module refers to, and the module that defines it."""
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        owner = value.value.id
        return _definition(f"{_imports(module).get(owner, '')}.{owner}", ast.Name(value.attr))
    if not isinstance(value, ast.Name):
        return module, None
    if (source := _imports(module).get(value.id)) is not None:
        return _definition(source, value)
    block = re.search(_BLOCK.format(value.id), _source(module), _FLAGS)
    statement = ast.parse(block[0]).body[0] if block else None
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return module, statement.value
    return module, statement


@functools.cache
def _imports(module: str) -> dict[str, str]:
    """The names that a module imports from this package, with their modules."""
    found = re.findall(r"^from (unbounded\S*) import (\(.*?\)|.*?$)", _source(module), _FLAGS)
    return {name: source for source, names in found for name in re.findall(r"\w+", names)}


@functools.cache
def _source(module: str) -> str:
    path = Path(unbounded.__file__).parent.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8") if file.is_file() else ""
