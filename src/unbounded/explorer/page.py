"""Write the page, which is the built template with the data of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from unbounded.errors import ConfigError, RunExistsError
from unbounded.files import make_folder, write_text

FORMAT: Final = "unbounded-page"
VERSION: Final = 1
#: A tag in every page, which identifies a file as a page.
MARK: Final = '<meta name="generator" content="unbounded explore">'
_PLACE: Final = "{data}"


def html(runs: Sequence[dict[str, Any]], title: str = "") -> str:
    """A self-contained page.

    Args:
        runs: runs from `run_data`, in order.
        title: the page's title; empty for the runs' titles.
    Raises:
        ConfigError: `runs` is empty.
    """
    if not runs:
        raise ConfigError("runs: expected at least one, got none")
    data = {
        "format": FORMAT,
        "version": VERSION,
        "title": title or title_of(runs),
        "runs": list(runs),
    }
    before, _, after = template().partition(_PLACE)
    return before + escaped(json.dumps(data, allow_nan=False, separators=(",", ":"))) + after


def title_of(runs: Sequence[dict[str, Any]]) -> str:
    """The titles of runs, joined by commas."""
    return ", ".join(run["title"] for run in runs)


def escaped(text: str) -> str:
    """Escape JSON for a script element, so that it contains no tag or comment."""
    codes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return "".join(codes.get(character, character) for character in text)


def template() -> str:
    """The built page without data."""
    return _package_file("template.html")


def built_in_runs() -> list[dict[str, Any]]:
    """The built-in networks, in the form in which a page holds runs."""
    runs: list[dict[str, Any]] = json.loads(_package_file("machines.json"))
    return runs


def _package_file(name: str) -> str:
    return resources.files("unbounded.explorer").joinpath(name).read_text("utf-8")


def tell_apart(runs: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    """Add the names of runs to titles that several of them have, as runs of one study do."""
    titles = [run["title"] for run in runs]
    for run, title, name in zip(runs, titles, names, strict=True):
        if titles.count(title) > 1:
            run["title"] = f"{title}: {name}"


def write_page(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write a page. An existing page is replaced.

    Args:
        path: the file; its folder is created.
        text: the page, from `html`.
        overwrite: whether to replace a file that is not a page.
    Raises:
        RunExistsError: the path is a folder, or a file that is not a page of this library.
        StorageError: the file cannot be written.
    """
    if path.is_dir():
        raise RunExistsError(f"{path} is a folder; name a file in it")
    if path.exists() and not overwrite and not _is_page(path):
        raise RunExistsError(
            f"{path} exists and is not a page of `unbounded explore`; --overwrite replaces it"
        )
    make_folder(path.parent)
    write_text(path, text)


def _is_page(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return MARK in file.read(4096)
    except OSError:
        return False
