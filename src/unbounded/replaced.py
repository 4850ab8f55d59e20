"""Whether someone has put another function in the place of a method.

A fused kernel computes what the library's own methods compute. Code that replaces one of them must
run. accelerate.add_hook_to_module replaces `forward` on one object; others replace it on a class.
"""

from __future__ import annotations

from typing import Any

#: For each class the names and values of its methods, as they were when the class was made.
_ORIGINALS: dict[type, tuple[tuple[str, object], ...]] = {}


def remember_methods(cls: type) -> None:
    """Keep the methods and properties of a class and its bases, to compare with later."""
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
    """The name of a method that is not the class's original, on the class or the object; or None.

    Args:
        thing: an object, whose class need not be one that `remember_methods` knows: then only a
            `forward` of the object itself is seen.
    """
    cls, own = type(thing), vars(thing)
    for name, original in _ORIGINALS.get(cls, ()):
        if name in own or getattr(cls, name) is not original:
            return name
    return "forward" if "forward" in own else None


def _is_method(value: object) -> bool:
    """Functions, static methods and properties; a class method is another object at each look."""
    if isinstance(value, classmethod | type):
        return False
    return callable(value) or isinstance(value, property)
