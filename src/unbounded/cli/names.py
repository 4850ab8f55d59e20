"""Names of tasks, memories and other choices, and the first line of each docstring.

They are read from the syntax trees of the registries' files, so that torch need not be imported.
"""

from __future__ import annotations

import ast
import functools
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
    if isinstance(value, ast.Constant):
        return str(value.value)
    _, part = _definition(module, value)
    if not isinstance(part, ast.FunctionDef | ast.ClassDef):
        return ""
    return (ast.get_docstring(part) or "").partition("\n")[0]


def _definition(module: str, value: ast.expr) -> tuple[str, ast.AST | None]:
    """What NAME or MODULE.NAME in a module refers to, and the module that defines it."""
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        return _definition(_imported(module, value.value.id), ast.Name(value.attr))
    if not isinstance(value, ast.Name):
        return module, None
    for statement in _tree(module).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if name == value.id:
                return module, statement
            case ast.AnnAssign(target=ast.Name(id=name), value=part) if name == value.id:
                return module, part
            case ast.Assign(targets=[ast.Name(id=name)], value=part) if name == value.id:
                return module, part
            case ast.ImportFrom(module=str(source), names=names):
                if any(alias.name == value.id for alias in names):
                    return _definition(source, value)
    return module, None


def _imported(module: str, name: str) -> str:
    """The path of a module that another one imports as `from PACKAGE import NAME`."""
    imports = [part for part in _tree(module).body if isinstance(part, ast.ImportFrom)]
    packages = (part.module for part in imports if name in {alias.name for alias in part.names})
    return f"{next(packages, '')}.{name}"


@functools.cache
def _tree(module: str) -> ast.Module:
    package, *parts = module.split(".")
    if package != unbounded.__name__:
        return ast.Module([], [])
    path = Path(unbounded.__file__).parent.joinpath(*parts)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
