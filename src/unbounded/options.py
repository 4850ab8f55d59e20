"""Options by name, checked against the signature or dataclass that takes them.

The one place that says which values an annotated type takes. Tasks, memories, controllers and
optimizers, and every field of a run's config, go through it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from unbounded.errors import did_you_mean

#: How often used types are named in messages.
_WORDS: Final[dict[Any, str]] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a text",
    list: "a list such as [a, b]",
    tuple: "a list such as [a, b]",
    dict: "a mapping such as {name: value}",
    types.NoneType: "null",
}
#: The annotated types of a dataclass's fields; a study has hundreds of configs of one class.
_FIELD_KINDS: Final[Callable[[type], dict[str, Any]]] = functools.cache(typing.get_type_hints)
_LISTS: Final = (list, tuple, Sequence, Collection)
_TRUE: Final = ("true", "yes", "on")
_FALSE: Final = ("false", "no", "off")
_KEYWORDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Option(NamedTuple):
    """An option that a component takes.

    Fields:
        kind: its annotated type; `typing.Any` where the signature has none that can be resolved.
        default: `inspect.Parameter.empty` where it must be given.
    """

    kind: Any
    default: Any

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty


def options_of(factory: Callable[..., Any], hidden: Collection[str] = ()) -> dict[str, Option]:
    """The options that a class or function takes by keyword.

    Args:
        factory: makes the component.
        hidden: parameters that no user gives.
    """
    hints = _hints(factory)
    return {
        name: Option(hints.get(name, Any), parameter.default)
        for name, parameter in _signature(factory).parameters.items()
        if parameter.kind in _KEYWORDS and name not in hidden
    }


def option_errors(
    what: str,
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    hidden: Collection[str] = (),
    filled: Collection[str] = (),
) -> list[str]:
    """All that is wrong with a component's options, a line each; empty where nothing is.

    Args:
        what: the component in a message, such as "memory 'queue'".
        factory: makes it; its annotated signature is the schema.
        options: names and values, such as a config file or Python gives them. A text is no number
            and no truth value; `from_text` reads what a command line gives.
        hidden: parameters that no user gives.
        filled: options without a default that the caller fills in.
    """
    known = options_of(factory, hidden)
    valid = f"Valid: {', '.join(known)}." if known else "It has none."
    errors = [
        f"{what} has no option {name!r}.{did_you_mean(name, known)} {valid}"
        for name in options
        if name not in known
    ]
    errors += [
        f"{what} needs the option {name!r}"
        for name, option in known.items()
        if option.is_required and name not in options and name not in filled
    ]
    return errors + [
        error
        for name, value in options.items()
        if name in known and (error := value_error(name, value, known[name].kind))
    ]


def field_errors(config: Any, where: str = "") -> list[str]:
    """A line for each field of a dataclass that has another type than is annotated.

    Args:
        config: an instance; dataclasses in it are checked field by field too.
        where: what stands before the names of its fields, such as "model.".
    """
    errors: list[str] = []
    for name, kind in _FIELD_KINDS(type(config)).items():
        value = getattr(config, name)
        if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
            error = value_error(f"{where}{name}", value, kind)
            errors += [error] if error else []
        elif isinstance(value, kind):
            errors += field_errors(value, f"{where}{name}.")
        else:
            errors.append(f"{where}{name}: expected options, got {value!r:.80}")
    return errors


def value_error(name: str, value: Any, kind: Any) -> str | None:
    """What is wrong with a value of an annotated type; None where nothing is."""
    if fits(value, kind):
        return None
    wanted = words(kind)
    if isinstance(value, float) and not math.isfinite(value):
        wanted = wanted.replace(_WORDS[float], "a finite number")
    return f"{name}: expected {wanted}, got {value!r:.80}"


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of an annotated type.

    True and False are no numbers; a whole number is a float; a float is finite; a list does for a
    tuple, since YAML has no other. What cannot be checked, such as a callable's signature, fits.
    """
    plain, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    if _is_union(kind):
        return any(fits(value, part) for part in parts)
    if kind is None:
        return value is None
    if plain is typing.Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if plain in (int, float) and isinstance(value, bool):
        return False
    if plain is float:
        try:
            return isinstance(value, (int, float)) and math.isfinite(value)
        except OverflowError:  # a whole number beyond all floats
            return False
    if plain in _LISTS:
        return isinstance(value, (list, tuple)) and _parts_fit(value, plain, parts)
    if plain in (dict, Mapping):
        of_value = parts[1] if parts else Any
        return isinstance(value, Mapping) and all(
            isinstance(key, str) and fits(own, of_value) for key, own in value.items()
        )
    if not isinstance(plain, type):
        return True
    try:
        return isinstance(value, plain)
    except TypeError:  # a protocol that cannot be asked
        return True


def from_text(text: str, value: Any, kind: Any) -> Any:
    """An option's value as a command line gives it.

    Args:
        text: as it was typed.
        value: what YAML reads in it.
        kind: the option's annotated type.
    Returns:
        True or False of yes, no, on and off where the option takes a truth value and no text; the
        text where the option takes one and YAML reads a number or a truth value; else `value`.
    """
    if fits(value, kind):
        return value
    kinds = typing.get_args(kind) if _is_union(kind) else (kind,)
    word = text.strip().lower()
    if bool in kinds and word in (*_TRUE, *_FALSE):
        return word in _TRUE
    return text if str in kinds and isinstance(value, (bool, int, float)) else value


def words(kind: Any) -> str:
    """An annotated type in words: "an integer or null"."""
    if _is_union(kind):
        return " or ".join(dict.fromkeys(words(part) for part in typing.get_args(kind)))
    plain = typing.get_origin(kind) or kind
    if kind is None:
        plain = types.NoneType
    if plain is typing.Literal:
        return " or ".join(repr(part) for part in typing.get_args(kind))
    if plain in _LISTS:
        return _WORDS[list]
    if plain is Mapping:
        return _WORDS[dict]
    return _WORDS.get(plain, f"a {getattr(plain, '__name__', 'value')}")


def _is_union(kind: Any) -> bool:
    return isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union


def _parts_fit(value: Sequence[Any], plain: Any, parts: tuple[Any, ...]) -> bool:
    if not parts:
        return True
    if plain is tuple and not (len(parts) == 2 and parts[1] is Ellipsis):
        return len(value) == len(parts) and all(map(fits, value, parts))
    return all(fits(each, parts[0]) for each in value)


def _has_init(factory: Any) -> bool:
    return isinstance(factory, type) and factory.__init__ is not object.__init__  # type: ignore[misc]  # of this class


def _signature(factory: Callable[..., Any]) -> inspect.Signature:
    """Of a class, that of its __init__: a mixin may have a __new__ that takes anything."""
    if not _has_init(factory):
        return inspect.signature(factory)
    whole = inspect.signature(factory.__init__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotated types of a callable's parameters; none where a name cannot be resolved."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    try:
        return typing.get_type_hints(factory.__init__ if _has_init(factory) else factory)
    except (NameError, TypeError, AttributeError):  # what is imported for a type checker alone
        return {}
