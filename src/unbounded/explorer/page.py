"""The page as text: the built template with runs in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from unbounded.errors import ConfigError, RunExistsError
from unbounded.files import storage_faults, write_text

FORMAT: Final = "unbounded-page"
VERSION: Final = 1
#: What every page has in it, by which a file is known to be one.
MARK: Final = '<meta name="generator" content="unbounded explore">'
_PLACE: Final = "{data}"


def html(runs: Sequence[dict[str, Any]], title: str = "") -> str:
    """A page that holds everything it needs.

    Args:
        runs: as `run_data` makes them; the first is shown first.
        title: of the page; that of the runs by default.
    Raises:
        ConfigError: there is no run.
    """
    if not runs:
        raise ConfigError(["runs: expected at least one, got none"])
    data = {
        "format": FORMAT,
        "version": VERSION,
        "title": title or title_of(runs),
        "runs": list(runs),
    }
    before, _, after = template().partition(_PLACE)
    return before + escaped(json.dumps(data, allow_nan=False, separators=(",", ":"))) + after


def title_of(runs: Sequence[dict[str, Any]]) -> str:
    """The titles of runs, one behind the other."""
    return ", ".join(run["title"] for run in runs)


def escaped(text: str) -> str:
    """JSON that may stand in a script element: nothing in it begins a tag or a comment."""
    codes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return "".join(codes.get(character, character) for character in text)


def template() -> str:
    """The built page without data."""
    return _package_file("template.html")


def built_in_runs() -> list[dict[str, Any]]:
    """The machines that lie in the package, as runs of a page."""
    runs: list[dict[str, Any]] = json.loads(_package_file("machines.json"))
    return runs


def _package_file(name: str) -> str:
    return resources.files("unbounded.explorer").joinpath(name).read_text("utf-8")


def write_page(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a page; one that is there already is replaced.

    Args:
        path: the file; its folder is made.
        text: as `html` makes it.
        overwrite: whether a file that is no page may be replaced.
    Raises:
        RunExistsError: the file is no page of this library.
        StorageError: the disk refused.
    """
    if path.exists() and not overwrite and not _is_page(path):
        raise RunExistsError(
            f"{path} exists and is no page of `unbounded explore`; --overwrite replaces it"
        )
    with storage_faults(path.parent, "making folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)


def _is_page(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return MARK in file.read(4096)
    except OSError:
        return False
