"""The packages of the extra `lab`, which the memories and layers do not need."""

from __future__ import annotations

import importlib.util
from typing import Final

from unbounded.errors import LabError

#: Packages of the extra `lab` by the name of their module: training, command line and figures.
LAB: Final = {
    "accelerate": "accelerate",
    "docstring_parser": "docstring_parser",
    "filelock": "filelock",
    "huggingface_hub": "huggingface_hub",
    "jsonargparse": "jsonargparse",
    "matplotlib": "matplotlib",
    "rich": "rich",
    "scipy": "scipy",
    "shtab": "shtab",
    "yaml": "PyYAML",
}


def missing(what: str, *modules: str) -> str:
    """The message for missing packages of the extra `lab`; empty if none is missing.

    Args:
        what: needs them.
        modules: names of `LAB`; without any, all are checked.
    """
    names = [LAB[name] for name in modules or LAB if importlib.util.find_spec(name) is None]
    if not names:
        return ""
    return (
        f"{what} needs {', '.join(names)}: pip install 'unbounded[lab]'. The memories and layers "
        "(unbounded.memories, unbounded.rnn) work without"
    )


def require(what: str, *modules: str) -> None:
    """Check that packages of the extra `lab` are installed.

    Args:
        what, modules: as for `missing`.
    Raises:
        LabError: some are missing.
    """
    if message := missing(what, *modules):
        raise LabError(message)
