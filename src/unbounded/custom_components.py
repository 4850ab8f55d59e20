"""Find memories, groups, weightings, controllers, tasks and metric sets by name or import path.

A custom component is named `package.module.Name`. This module does not import custom modules,
because a name may come from a file by someone else. The running program must have imported the
module. The command line imports only modules that it names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from inspect import isfunction, signature
from typing import Any, Final, TypeVar

from unbounded.errors import ChoiceError, ConfigError, did_you_mean

T = TypeVar("T")

#: The name of the model without a memory.
NO_MEMORY: Final = "none"


def part_of(value: Any) -> dict[str, Any]:
    """Return a memory or controller as a mapping. A name alone has no options."""
    return dict(value) if isinstance(value, Mapping) else {"name": value}


def is_path(name: str) -> bool:
    """Whether a name is an import path, not a name of the library."""
    return all(part.isidentifier() for part in name.split(".")) and "." in name


def module_of(path: str) -> str:
    """The module of an import path: "mypackage.memories" of "mypackage.memories.Heap"."""
    return path.rpartition(".")[0]


def find_part(kind: str, name: object, registry: Mapping[str, T], base: type) -> T | type[Any]:
    """Return the component with a name.

    Args:
        kind: "memory", "group", "controller", "task" or "metric_set", for messages.
        name: a name in `registry`, or the import path of a custom class.
        registry: the library's components by name.
        base: base class of custom classes.
    Raises:
        ChoiceError: the library has no component of that name.
        ConfigError: the module is not imported, or has no such class.
    """
    if isinstance(name, str) and name in registry:
        return registry[name]
    module, attribute, part = _imported(kind, name, registry)
    if not (isinstance(part, type) and issubclass(part, base)):
        classes = [
            key
            for key, value in vars(sys.modules[module]).items()
            if isinstance(value, type) and issubclass(value, base) and value is not base
        ]
        raise ConfigError(
            f"{kind} {name!r}: expected a subclass of {base.__module__}.{base.__qualname__} in "
            f"{module}, which has {'none of that name' if part is None else repr(part)}; "
            f"subclasses there: {', '.join(classes) or 'none'}."
            f"{did_you_mean(attribute, classes)}"
        )
    return part


def find_function(
    kind: str,
    name: object,
    registry: Mapping[str, Callable[..., Any]],
    parameters: tuple[str, ...],
) -> Callable[..., Any]:
    """Return the function with a name.

    Args:
        kind, registry: see `find_part`. name: a name in `registry`, or the import path of a custom
            function.
        parameters: names of its parameters. A name comes from a file, so no other function of an
            imported module may be called.
    Raises:
        ChoiceError, ConfigError: see `find_part`.
    """
    if isinstance(name, str) and name in registry:
        return registry[name]
    module, attribute, part = _imported(kind, name, registry)
    if _takes(part, parameters):
        function: Callable[..., Any] = part
        return function
    functions = [
        key for key, value in vars(sys.modules[module]).items() if _takes(value, parameters)
    ]
    raise ConfigError(
        f"{kind} {name!r}: expected a function of ({', '.join(parameters)}) in {module}, which "
        f"has {'none of that name' if part is None else repr(part)}; functions that fit: "
        f"{', '.join(functions) or 'none'}.{did_you_mean(attribute, functions)}"
    )


def _takes(value: object, parameters: tuple[str, ...]) -> bool:
    return isfunction(value) and tuple(signature(value).parameters) == parameters


def _imported(kind: str, name: object, registry: Mapping[str, object]) -> tuple[str, str, Any]:
    """Module, attribute name and value of an import path; the value is None if it is missing."""
    if not isinstance(name, str) or not is_path(name):
        raise ChoiceError(kind, name, registry)
    module, _, attribute = name.rpartition(".")
    if module not in sys.modules:
        raise ConfigError(
            f"{kind} {name!r} is a custom component of package {module.partition('.')[0]}. A "
            f"config file does not import it: give --import {module}, or import it first"
        )
    return module, attribute, vars(sys.modules[module]).get(attribute)
