"""Read YAML with 1:4 and `no` as strings; YAML 1.1 reads them as 64 and false."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_DIGITS = list("-+.0123456789")
_FORMS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", _DIGITS),
    (
        "float",
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        _DIGITS,
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
)


def _integer(loader: Any, node: yaml.ScalarNode) -> int:
    digits = str(node.value)
    if len(digits) > _MOST_DIGITS:
        raise yaml.constructor.ConstructorError(
            None, None, f"an integer of {len(digits)} digits", node.start_mark
        )
    return int(digits)  # numbers are decimal, so 010 is ten


def _loader(base: Any) -> Any:
    """A safe loader that accepts only decimal numbers, and only true and false as booleans."""
    loader: Any = type("PlainLoader", (base,), {"yaml_implicit_resolvers": {}})
    for name, form, first in _FORMS:
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"^({form})$"), first)
    loader.add_constructor("tag:yaml.org,2002:int", _integer)
    return loader


_Loader: Final = _loader(yaml.SafeLoader)
#: The same with the parser in C, where PyYAML was built with it. It accepts some tabs that the
#: parser in Python refuses, as one after a colon.
_FastLoader: Final = _loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader))

_MOST_DIGITS = 1000
_DEEPEST = 50
#: Maximum number of values, with aliases expanded.
_MOST_VALUES = 100_000


def load(text: str) -> Any:
    """Parse a YAML text.

    Raises:
        yaml.YAMLError: the text is not YAML, is nested too deeply, repeats a key, or has aliases
            that are recursive or expand to too many values.
    """
    try:
        return _load(text, _FastLoader)
    except (yaml.YAMLError, UnicodeError):  # the parser in Python says more of what is wrong
        return _load(text, _Loader)


def _load(text: str, loader: Any) -> Any:
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.composer.ComposerError(
                None, None, f"it is nested more than {_DEEPEST} levels deep", event.start_mark
            )
        _check_tag(event)
    node = yaml.compose(text, Loader=loader)
    if node is not None and _values(node, {}, ()) > _MOST_VALUES:
        raise yaml.composer.ComposerError(
            None, None, f"its aliases expand to more than {_MOST_VALUES} values", node.start_mark
        )
    return yaml.load(text, Loader=loader)


def load_or_text(text: str) -> Any:
    """Parse a YAML text; return the text itself if it is not YAML."""
    try:
        return load(text)
    except (ValueError, yaml.YAMLError):
        return text


def _values(node: yaml.Node, known: dict[int, int], above: tuple[int, ...]) -> int:
    """The number of values of a node, with aliases expanded."""
    if id(node) in above:
        raise yaml.composer.ComposerError(
            None, None, "an alias refers to the value that contains it", node.start_mark
        )
    if id(node) not in known:
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            parts = list(node.value)
        elif isinstance(node, yaml.MappingNode):
            _check_keys([key for key, _ in node.value])
            parts = [part for pair in node.value for part in pair]
        known[id(node)] = 1 + sum(_values(part, known, (*above, id(node))) for part in parts)
    return known[id(node)]


def _check_tag(event: yaml.Event) -> None:
    """Refuse tags such as !!set, which do not give plain data."""
    tag = getattr(event, "tag", None)
    if tag is not None:
        shown = str(tag).replace("tag:yaml.org,2002:", "!!")
        raise _refused(f"the tag {shown} is not supported. Leave it out", event)


def _check_keys(keys: list[yaml.Node]) -> None:
    """Refuse repeated keys, because PyYAML silently takes the last one."""
    lines: dict[tuple[str, str], int] = {}
    for key in keys:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused("expected a name before the colon", key)
        if key.value == "<<" and not key.style:
            raise _refused("the merge key << is not supported. Write the options out", key)
        name = str(key.tag), str(key.value)
        if name in lines:
            raise _refused(f"the key {key.value!r} is already in line {lines[name]}", key)
        lines[name] = key.start_mark.line + 1


def _refused(reason: str, place: yaml.Node | yaml.Event) -> yaml.composer.ComposerError:
    return yaml.composer.ComposerError(None, None, reason, place.start_mark)


def dump(data: Any) -> str:
    """Write YAML that `load` and other YAML parsers read."""
    return str(yaml.safe_dump(data, sort_keys=False))


def yaml_error(error: yaml.YAMLError) -> str:
    """Position and reason of a YAML error in one line: ", line 3, column 2: could not find ':'"."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f": {error}"
    mark = error.problem_mark or error.context_mark
    where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
    return f"{where}: {error.problem or error.context}"
