"""Check options by name against the signature or dataclass that defines them.

Only this module defines which values an annotated type accepts. The module checks the options of
tasks, memories, controllers and optimizers, and every field of a run's config.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

from unbounded.errors import ChoiceError, did_you_mean

#: Names of common types in messages.
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
#: The annotated types of a dataclass's fields, cached for studies with hundreds of configs.
field_kinds: Final[Callable[[type], dict[str, Any]]] = functools.cache(
    functools.partial(typing.get_type_hints, include_extras=True)
)
_LISTS: Final = (list, tuple, Sequence, Collection)
_TRUE: Final = ("true", "yes", "on")
_FALSE: Final = ("false", "no", "off")
_KEYWORDS: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Range(NamedTuple):
    """The numbers that an option accepts, as part of its annotated type.

    Fields:
        least: the least number.
        most: the greatest number.
        above: whether `least` itself is excluded.
    """

    least: float = -math.inf
    most: float = math.inf
    above: bool = False

    def error(self, name: str, value: float) -> str | None:
        """The error of a number outside the range; None if the number is inside."""
        low = value > self.least if self.above else value >= self.least
        if low and value <= self.most:
            return None
        bound = f"above {self.least:g}" if self.above else f"at least {self.least:g}"
        if low:
            most = self.most if isinstance(self.most, int) else format(self.most, ".15g")
            bound = f"at most {most}"
        return f"{name}: expected a number {bound}, got {value!r}"


#: Common types of options.
Count = Annotated[int, Range(1, 1_000_000_000)]
CountOrNone = Annotated[int, Range(0)]
Positive = Annotated[float, Range(0, above=True)]
Rate = Annotated[float, Range(0, 1e3, above=True)]
Share = Annotated[float, Range(0, 1, above=True)]


class Option(NamedTuple):
    """An option that a component accepts.

    Fields:
        kind: its annotated type; `typing.Any` if the annotation is missing or unresolvable.
        default: its default; `inspect.Parameter.empty` if the option is required.
    """

    kind: Any
    default: Any

    @property
    def is_required(self) -> bool:
        """Whether the option has no default."""
        return self.default is inspect.Parameter.empty


def options_of(factory: Callable[..., Any], hidden: Collection[str] = ()) -> dict[str, Option]:
    """The options that a class or function accepts by keyword.

    Args:
        factory: makes the component.
        hidden: parameters that users cannot set.
    """
    # Reading a signature takes a long time, and a study checks hundreds of configs. A new partial
    # object is made for each call.
    is_lasting = isinstance(factory, type) or inspect.isfunction(factory)
    known = _lasting_options(factory) if is_lasting else _read_options(factory)
    return {name: option for name, option in known.items() if name not in hidden}


def _read_options(factory: Callable[..., Any]) -> dict[str, Option]:
    hints = _hints(factory)
    return {
        name: Option(hints.get(name, Any), parameter.default)
        for name, parameter in _signature(factory).parameters.items()
        if parameter.kind in _KEYWORDS
    }


_lasting_options = functools.lru_cache(maxsize=1024)(_read_options)


def option_errors(
    what: str,
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    hidden: Collection[str] = (),
    filled: Collection[str] = (),
) -> list[str]:
    """All errors of a component's options, one line each; empty if there are none.

    Args:
        what: name of the component in messages, such as "memory 'queue'".
        factory: makes the component; its annotated signature is the schema.
        options: names and values from a config file or Python. Strings are not accepted as numbers
            or booleans; `from_text` parses strings of a command line.
        hidden: parameters that users cannot set.
        filled: required options that the caller fills in.
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
    """One line for each field of a dataclass whose value does not fit its annotated type.

    Args:
        config: an instance; nested dataclasses are checked field by field too.
        where: prefix of the fields' names, such as "model.".
    """
    errors: list[str] = []
    for name, kind in field_kinds(type(config)).items():
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
    """The error of a value that does not fit an annotated type; None if it fits."""
    if fits(value, kind):
        return _range_error(name, value, kind)
    choices = _choices(kind)
    if choices and isinstance(value, str):
        return f"{name}: {ChoiceError(name.rpartition('.')[2], value, choices)}"
    expected = words(kind)
    if isinstance(value, float) and not math.isfinite(value):
        expected = expected.replace(_WORDS[float], "a finite number")
    return f"{name}: expected {expected}, got {value!r:.80}"


def fits(value: Any, kind: Any) -> bool:
    """Whether a value fits an annotated type.

    Booleans are not numbers, integers fit float, and floats must be finite. Lists fit tuples,
    because YAML has no tuples. Types that cannot be checked, such as callables, fit every value.
    """
    kind = bare(kind)
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
        except OverflowError:  # the integer is too large for a float
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
    except TypeError:  # the protocol does not support isinstance
        return True


def from_text(text: str, value: Any, kind: Any) -> Any:
    """Parse an option's value from a command line.

    Args:
        text: the typed text.
        value: the text parsed as YAML.
        kind: the option's annotated type.
    Returns:
        A boolean for yes, no, on and off, if the option is boolean; the text, if the option takes
        strings and YAML reads a number or a boolean; else `value`.
    """
    if fits(value, kind):
        return value
    kind = bare(kind)
    kinds = [bare(part) for part in typing.get_args(kind)] if _is_union(kind) else [kind]
    word = text.strip().lower()
    if bool in kinds and word in (*_TRUE, *_FALSE):
        return word in _TRUE
    is_text = str in kinds or text in _choices(kind)
    return text if is_text and isinstance(value, (bool, int, float)) else value


def item_kind(kind: Any) -> Any:
    """The type of the items of a type that accepts a list; None for other types."""
    kind = bare(kind)
    for part in typing.get_args(kind) if _is_union(kind) else (kind,):
        if (typing.get_origin(part) or part) in _LISTS:
            return next(iter(typing.get_args(part)), Any)
    return None


def words(kind: Any) -> str:
    """Describe an annotated type in words, such as "an integer or null"."""
    kind = bare(kind)
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


def bare(kind: Any) -> Any:
    """Return an annotated type without its range."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind


def without_none(kind: Any) -> Any:
    """The first type of a union, without its range; another type without its range."""
    kind = bare(kind)
    return bare(typing.get_args(kind)[0]) if _is_union(kind) else kind


def takes_none(kind: Any) -> bool:
    """Whether an annotated type accepts null."""
    kind = bare(kind)
    return kind in (Any, None, types.NoneType) or types.NoneType in typing.get_args(kind)


def _choices(kind: Any) -> list[str]:
    """The texts that a type of fixed choices accepts; empty for other types."""
    kind = bare(kind)
    parts = typing.get_args(kind) if _is_union(kind) else (kind,)
    literals = [part for part in parts if typing.get_origin(part) is typing.Literal]
    return [choice for part in literals for choice in typing.get_args(part)]


def _range_error(name: str, value: Any, kind: Any) -> str | None:
    """The error of a number, or of a number in a list, outside of the range of its type."""
    if _is_union(kind):
        errors = [_range_error(name, value, part) for part in typing.get_args(kind)]
        return next((error for error in errors if error is not None), None)
    if isinstance(value, (list, tuple)):
        errors = [
            _range_error(name, item, part) for item in value for part in typing.get_args(kind)
        ]
        return next((error for error in errors if error is not None), None)
    if typing.get_origin(kind) is not Annotated or isinstance(value, bool):
        return None
    ranges = [part for part in typing.get_args(kind)[1:] if isinstance(part, Range)]
    if not isinstance(value, (int, float)):
        return None
    return next((error for part in ranges if (error := part.error(name, value))), None)


def _is_union(kind: Any) -> bool:
    return isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union


def _parts_fit(value: Sequence[Any], plain: Any, parts: tuple[Any, ...]) -> bool:
    if not parts:
        return True
    if plain is tuple and not (len(parts) == 2 and parts[1] is Ellipsis):
        return len(value) == len(parts) and all(map(fits, value, parts))
    return all(fits(item, parts[0]) for item in value)


def _has_init(factory: Any) -> bool:
    return isinstance(factory, type) and factory.__init__ is not object.__init__  # type: ignore[misc]  # of this class


def _signature(factory: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, or of a class's __init__ without self.

    `inspect.signature` of a class would show a mixin's __new__, which may accept any argument.
    """
    if not _has_init(factory):
        return inspect.signature(factory)
    whole = inspect.signature(factory.__init__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def _hints(factory: Callable[..., Any]) -> dict[str, Any]:
    """The annotated types of a callable's parameters; empty if a name cannot be resolved."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    try:
        owner = factory.__init__ if _has_init(factory) else factory
        return typing.get_type_hints(owner, include_extras=True)
    except (NameError, TypeError, AttributeError):  # a name is imported only for type checkers
        return {}
