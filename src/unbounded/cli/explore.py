"""`unbounded explore RUN`: a page in which a trained network can be watched at work."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unbounded.cli.defaults import import_modules
from unbounded.cli.parsing import Parser, add_rounded, parse
from unbounded.errors import ConfigError

if TYPE_CHECKING:
    from jsonargparse import Namespace

_DESCRIPTION = """Watch a trained network at work, in one HTML file that runs it.

examples:
  unbounded explore                         machines that lie in the package
  unbounded explore RUN                     writes RUN/explore.html and opens it
  unbounded explore RUN OTHER               two runs side by side, on the same input
  unbounded explore RUN --course            as it was at each checkpoint that it kept
  unbounded explore RUN --export copy.html --no-open

Type an input of your own, press play, and see what is pushed, popped, read and said. The file holds
the weights and everything else that it needs: it makes no request, and can be sent to others.
"""
#: The page of a run, in its folder; and that of the built-in machines, in the current folder.
PAGE: Final = "explore.html"
COURSE_PAGE: Final = "explore-course.html"
BUILT_IN_PAGE: Final = "unbounded-explore.html"


def parser(arguments: Sequence[str]) -> Parser:
    """The parser of this verb."""
    made = Parser(prog="unbounded explore", description=_DESCRIPTION)
    made.add_argument(
        "runs", type=str, nargs="*", default=[], help="Run folders, or how their names begin."
    )
    made.add_argument("--export", type=str, default=None, help="The file to write.")
    made.add_argument("--no-open", action="store_true", help="Do not open it in a browser.")
    add_rounded(made)
    made.add_argument(
        "--weights",
        type=str | None,
        default=None,
        help="half (the default) or int8, if no answer changes; float32 or float64.",
    )
    made.add_argument(
        "--course", action="store_true", help="The run at the checkpoints that it kept."
    )
    made.add_argument(
        "--data", type=str, default=None, help="Folder of the corpus, if it has moved."
    )
    made.add_argument(
        "--import", dest="imports", type=str, help="A module of your own that the run names."
    )
    made.add_argument("--overwrite", action="store_true", help="Replace a file that is no page.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Write the page and open it."""
    given, faults = parse(parser(arguments), arguments)
    if faults:
        raise ConfigError(faults)
    from unbounded.explorer.page import built_in_runs, html, write_page

    if given.runs:
        runs, path = _of_folders(given)
        title = ""
    else:
        names = {"weights": "--weights", "rounded": "--rounded", "course": "--course"}
        names |= {"data": "--data", "imports": "--import"}
        idle = [flag for name, flag in names.items() if getattr(given, name)]
        if idle:
            raise ConfigError(
                [
                    f"{flag}: goes with a RUN; the machines of the package are as they are"
                    for flag in idle
                ]
            )
        runs, path, title = built_in_runs(), Path(BUILT_IN_PAGE), "Machines with a memory"
    if given.export is not None:
        path = Path(given.export)
    if path.is_dir():
        raise ConfigError([f"export: {path} is a folder; name a file in it"])
    text = html(runs, title)
    write_page(path, text, overwrite=given.overwrite)
    for each in runs:
        print(f"{each['title']}: {each['note']}" if each["note"] else each["title"])
    print(f"wrote {path} ({len(text.encode()) / 1000:.0f} kB)")
    if not given.no_open:
        _open(path)
    return 0


def _of_folders(given: Namespace) -> tuple[list[dict[str, Any]], Path]:
    """The runs of the folders that are named, and the page's place in the first of them."""
    from unbounded.experiments.run.folder import find_run
    from unbounded.explorer.run_data import course_of_folder, run_of_folder

    if given.course and given.rounded:
        raise ConfigError(["--rounded: the course is one of training; give --course or --rounded"])
    import_modules([] if given.imports is None else [given.imports])
    options = {"data": given.data, "weights": given.weights or "half"}
    folders = [find_run(name) for name in given.runs]
    if given.course:
        moments = [run for folder in folders for run in course_of_folder(folder, **options)]
        return moments, folders[0] / COURSE_PAGE
    runs = [run_of_folder(folder, rounded=given.rounded, **options) for folder in folders]
    return runs, folders[0] / PAGE


def _open(path: Path) -> None:
    """Open a page; say what to do where there is no browser, as on a remote machine."""
    try:
        opened = webbrowser.open(path.resolve().as_uri())
    except (webbrowser.Error, OSError):
        opened = False
    if not opened:
        print(f"no browser could be opened here: open {path} in one", file=sys.stderr)
