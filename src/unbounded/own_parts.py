"""Memories, groups, controllers, tasks and scorings by name: the library's, or a user's by path.

A part of the user's own is named as `package.module.Name`. Nothing here imports a module: what is
named must have been imported by who runs the program, or the name came out of a file that somebody
else may have written. The command line imports what is named on it, and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from unbounded.errors import ChoiceError, ConfigError, did_you_mean

T = TypeVar("T")

#: The name of the model without a memory.
NO_MEMORY: Final = "none"


def part_of(value: Any) -> dict[str, Any]:
    """A memory or controller as data; a name alone stands for itself without options."""
    return dict(value) if isinstance(value, Mapping) else {"name": value}


def is_path(name: str) -> bool:
    """Whether a name is an import path and no name of the library's."""
    return all(part.isidentifier() for part in name.split(".")) and "." in name


def module_of(path: str) -> str:
    """The module that an import path names: "mypackage.memories" of "mypackage.memories.Heap"."""
    return path.rpartition(".")[0]


def find_part(kind: str, name: object, registry: Mapping[str, T], base: type) -> T | type[Any]:
    """What a name stands for.

    Args:
        kind: "memory", "group", "controller", "task" or "scoring", for messages.
        name: one of `registry`, or the import path of a class of the user's.
        registry: the library's own by name.
        base: what a class of the user's must be a subclass of.
    Raises:
        ChoiceError: the library has no part of that name.
        ConfigError: the module was not imported, or holds no such class.
    """
    if isinstance(name, str) and name in registry:
        return registry[name]
    if not isinstance(name, str) or not is_path(name):
        raise ChoiceError(kind, name, registry)
    module, _, attribute = name.rpartition(".")
    if module not in sys.modules:
        raise ConfigError(
            [
                f"{kind} {name!r} is of a package of your own: {module.partition('.')[0]}. A file "
                f"imports nothing by itself: give --import {module}, or import {module} before"
            ]
        )
    part = vars(sys.modules[module]).get(attribute)
    if not (isinstance(part, type) and issubclass(part, base)):
        classes = [
            key
            for key, value in vars(sys.modules[module]).items()
            if isinstance(value, type) and issubclass(value, base) and value is not base
        ]
        raise ConfigError(
            [
                f"{kind} {name!r}: expected a subclass of {base.__module__}.{base.__qualname__} in "
                f"{module}, which has {'none of that name' if part is None else repr(part)}; of "
                f"such classes it has {', '.join(classes) or 'none'}."
                f"{did_you_mean(attribute, classes)}"
            ]
        )
    return part
