"""Detect replaced methods.

Detect replaced methods, because a fused kernel computes only the library's own methods. For
example, accelerate.add_hook_to_module replaces `forward` of an object. Other code replaces
`forward` in a class.
"""

from __future__ import annotations

from typing import Any

#: The original methods of each class, by name.
_ORIGINALS: dict[type, tuple[tuple[str, object], ...]] = {}


def remember_methods(cls: type) -> None:
    """Store the methods and properties of a class and its bases for later comparison."""
    names = {
        name
        for base in cls.__mro__
        if base.__module__.partition(".")[0] == cls.__module__.partition(".")[0]
        for name, value in vars(base).items()
        if not name.startswith("__") and _is_method(value)
    }
    if hasattr(cls, "forward"):
        names.add("forward")
    _ORIGINALS[cls] = tuple((name, getattr(cls, name)) for name in sorted(names))


def replaced_method(thing: Any) -> str | None:
    """The name of a method that differs from the original, in the class or the object; or None.

    Args:
        thing: an object. If `remember_methods` does not know its class, only a `forward` that was
            set on the object itself is detected.
    """
    cls, own = type(thing), vars(thing)
    for name, original in _ORIGINALS.get(cls, ()):
        if name in own or getattr(cls, name) is not original:
            return name
    return "forward" if "forward" in own else None


def _is_method(value: object) -> bool:
    """Whether a value is a function, static method or property. Class methods never match."""
    if isinstance(value, classmethod | type):
        return False
    return callable(value) or isinstance(value, property)
