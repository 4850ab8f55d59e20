"""What of a config has another type than its field: found before anything is computed with it."""

from __future__ import annotations

import dataclasses
import typing
from types import UnionType
from typing import Any

_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    dict: "a mapping",
    type(None): "null",
}


def type_faults(config: Any, where: str = "") -> list[str]:
    """A line for each field of a config that has another type than is declared.

    Args:
        config: an instance of a config's dataclass, its parts included.
        where: what stands before the names of its fields, such as "model.".
    """
    found: list[str] = []
    for name, kind in _kinds(type(config)).items():
        value = getattr(config, name)
        if dataclasses.is_dataclass(kind):
            if isinstance(value, typing.cast(type, kind)):
                found += type_faults(value, f"{where}{name}.")
            else:
                found.append(f"{where}{name}: expected options, got {value!r:.80}")
        elif not _fits(value, kind):
            found.append(f"{where}{name}: expected {_words(kind)}, got {value!r:.80}")
    return found


def _kinds(owner: type) -> dict[str, Any]:
    return typing.get_type_hints(owner)


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_fits(value, one) for one in typing.get_args(kind))
    plain, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    if plain in (int, float) and isinstance(value, bool):
        return False
    if plain is float:
        return isinstance(value, (int, float))
    if not isinstance(value, plain):
        return False
    if plain is list:
        return all(_fits(one, parts[0]) for one in value)
    return plain is not dict or all(isinstance(key, str) for key in value)


def _words(kind: Any) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(map(_words, typing.get_args(kind)))
    return _WORDS[typing.get_origin(kind) or kind]
