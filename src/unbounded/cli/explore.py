"""`unbounded explore RUN`: write a page that runs a trained network and shows its memory."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unbounded.cli.overlay import import_given
from unbounded.cli.parsing import Parser, add_hardened, add_import, parse
from unbounded.errors import ConfigError

if TYPE_CHECKING:
    from jsonargparse import Namespace

_DESCRIPTION = """Watch a trained network at work, in one HTML file that runs it.

examples:
  unbounded explore                         built-in networks of the package
  unbounded explore RUN                     writes RUN/explore.html and opens it
  unbounded explore RUN OTHER               two runs side by side, on the same input
  unbounded explore RUN --course            the run at each kept checkpoint
  unbounded explore RUN --export copy.html --no-open

Type an input, press play, and see what the network pushes, pops, reads and outputs. The file
contains the weights and everything else it needs. For a text, a Transformer, a DeltaNet or a
DeltaProduct it contains traces of some samples instead. It makes no requests and can be sent to
others. The SRCN has no page.
"""
#: File name of a run's page, in the run's folder, and of the built-in networks' page, in the
#: current folder.
PAGE: Final = "explore.html"
COURSE_PAGE: Final = "explore-course.html"
BUILT_IN_PAGE: Final = "unbounded-explore.html"


def parser(arguments: Sequence[str]) -> Parser:
    """The argument parser of this verb."""
    made = Parser(prog="unbounded explore", description=_DESCRIPTION)
    made.add_argument(
        "runs", type=str, nargs="*", default=[], help="Run folders, or prefixes of their names."
    )
    made.add_argument("--export", type=str, help="The file to write.")
    made.add_argument("--no-open", action="store_true", help="Do not open it in a browser.")
    add_hardened(made)
    made.add_argument(
        "--weights",
        type=str | None,
        help="half (the default) or int8, used if no answer changes; float32 or float64.",
    )
    made.add_argument("--course", action="store_true", help="Show the run at each kept checkpoint.")
    made.add_argument("--data", type=str, help="Folder of the corpus, if it moved.")
    add_import(made)
    made.add_argument(
        "--overwrite", action="store_true", help="Replace a file that is not an explorer page."
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Write the page and open it."""
    given, errors = parse(parser(arguments), arguments)
    if errors:
        raise ConfigError(errors)
    from unbounded.explorer.page import built_in_runs, html, write_page

    if given.runs:
        runs, path = _of_folders(given)
        title = ""
    else:
        names = {"weights": "--weights", "hardened": "--hardened", "course": "--course"}
        names |= {"data": "--data", "imports": "--import"}
        idle = [flag for name, flag in names.items() if getattr(given, name)]
        if idle:
            raise ConfigError(
                [f"{flag}: needs a RUN; the built-in networks have no options" for flag in idle]
            )
        runs, path, title = built_in_runs(), Path(BUILT_IN_PAGE), "Networks with an external memory"
    if given.export is not None:
        path = Path(given.export)
    if path.is_dir():
        raise ConfigError(f"export: {path} is a folder; name a file in it")
    if path.suffix.lower() not in {".html", ".htm"}:
        raise ConfigError(
            f"export: expected a name such as page.html, got {path}; the page is an HTML file"
        )
    text = html(runs, title)
    write_page(path, text, overwrite=given.overwrite)
    for entry in runs:
        print(f"{entry['title']}: {entry['note']}" if entry["note"] else entry["title"])
    print(f"wrote {path} ({len(text.encode()) / 1000:.0f} kB)")
    if not given.no_open:
        _open(path)
    return 0


def _of_folders(given: Namespace) -> tuple[list[dict[str, Any]], Path]:
    """The runs of the named folders, and the page's path in the first of them."""
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.explorer.page import tell_apart
    from unbounded.explorer.run_data import course_of_folder, run_of_folder

    if given.course and given.hardened:
        raise ConfigError("--hardened: it cannot be combined with --course; give only one of them")
    import_given(given)
    options = {"data": given.data, "weights": given.weights or "half"}
    folders = [RunFolder.find(name) for name in given.runs]
    if given.course:
        moments = [run for folder in folders for run in course_of_folder(folder, **options)]
        return moments, folders[0] / COURSE_PAGE
    runs = [run_of_folder(folder, hardened=given.hardened, **options) for folder in folders]
    names = [run["name"] for run in runs]
    tell_apart(runs, names if len(set(names)) == len(names) else given.runs)
    return runs, folders[0] / PAGE


def _open(path: Path) -> None:
    """Open a page, or print its path if there is no browser, as on a remote computer."""
    try:
        opened = webbrowser.open(path.resolve().as_uri())
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        print(f"no browser could be opened here: open {path} in one", file=sys.stderr)
