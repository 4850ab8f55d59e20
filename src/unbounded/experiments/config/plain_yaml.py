"""YAML as a person means it: 1:4 is a range and `no` a word; YAML 1.1 reads 64 and false."""

from __future__ import annotations

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """SafeLoader whose plain numbers are decimal and whose truth values are true and false."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


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
for _name, _form, _first in _FORMS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^({_form})$"), _first)
# An integer is decimal here, so 010 is ten.
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(str(node.value)))


def load(text: str) -> Any:
    """What a YAML text says.

    Raises:
        yaml.YAMLError: it is not YAML.
    """
    return yaml.load(text, Loader=_Loader)


def dump(data: Any) -> str:
    """YAML that `load`, and any other reader of YAML, understands."""
    return str(yaml.safe_dump(data, sort_keys=False))
