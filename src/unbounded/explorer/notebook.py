"""The explorer in a notebook, as an iframe with the complete page."""

from __future__ import annotations

import base64
import copy
import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbounded.checks import check_kind
from unbounded.errors import ConfigError, DTypeError
from unbounded.explorer.page import html, tell_apart, write_page

if TYPE_CHECKING:
    from unbounded.experiments.run.run import RunResult
    from unbounded.models.memory_model import MemoryModel
    from unbounded.tasks import Task

_HEIGHT = 860
#: Maximum number of parameters in a notebook: 8 MB in half precision, 11 MB in base64.
_MOST_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Page:
    """A page of runs, with an HTML representation for notebooks.

    Fields:
        runs: runs from `run_data`.
        picture: SVG of the first run, for viewers that strip scripts.
    """

    runs: tuple[dict[str, Any], ...]
    picture: str

    def html(self) -> str:
        """The whole page."""
        return html(self.runs)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the page. Errors are as for `write_page`."""
        write_page(Path(path), self.html(), overwrite=overwrite)

    def beside(self, other: Page) -> Page:
        """Return a page with the runs of both pages, side by side.

        Raises:
            DTypeError: `other` is not a page.
        """
        check_kind("other", other, Page, "ub.explore(source) makes one.")
        runs = tuple(dict(run) for run in (*self.runs, *other.runs))
        tell_apart(runs, [run["name"] for run in runs])
        return Page(runs, self.picture)

    def _repr_html_(self) -> str:
        """An iframe with the page, and a picture, which a script removes.

        Notebook viewers that remove scripts also remove iframes. Viewers without scripts therefore
        show the picture.
        """
        image = base64.b64encode(self.picture.encode()).decode("ascii")
        return (
            f'<div><iframe srcdoc="{escape(self.html())}" sandbox="allow-scripts" '
            f'title="{escape(self.runs[0]["title"])}" width="100%" height="{_HEIGHT}" '
            'style="border:0"></iframe>'
            f'<img alt="{escape(self.runs[0]["title"])} at work" '
            f'src="data:image/svg+xml;base64,{image}">'
            "<script>document.currentScript.previousElementSibling.remove()</script></div>"
        )


def explore(
    source: str | Path | RunResult | MemoryModel | None = None, task: Task | None = None
) -> Page:
    """Make a page that runs a trained network and shows its memory, for display in a notebook.

    Args:
        source: a run's folder or a prefix of its name, the result of `train_run`, or a model; None
            for the built-in networks.
        task: for a model, its task; None shows symbols as numbers, without targets.
    Returns:
        The page; `page.save("FILE.html")` writes it.
    Raises:
        CheckpointError: the folder is not a run, or has no usable model.
        DTypeError: `source` or `task` has another type.
        ConfigError: the page cannot run the model, or the model is too large for a notebook.
    """
    # Imported late, so that `from unbounded import *` loads neither matplotlib nor accelerate.
    from unbounded.experiments.run.data_check import task_of_run
    from unbounded.experiments.run.plan import plan
    from unbounded.experiments.run.run import RunResult
    from unbounded.experiments.run.run_folder import RunFolder
    from unbounded.explorer.picture import still_picture
    from unbounded.explorer.run_data import run_of_folder
    from unbounded.models.memory_model import MemoryModel
    from unbounded.tasks.task import check_task

    if task is not None:
        check_task(task)
        if not isinstance(source, MemoryModel):
            raise DTypeError(
                f"task: expected None together with {type(source).__name__}, got a task."
            )
    if source is None:
        return _of_package()
    if isinstance(source, MemoryModel):
        return _of_model(source, task)
    if not isinstance(source, RunResult | str | os.PathLike):
        raise DTypeError(
            "source: expected a run's folder or name, a RunResult, a MemoryModel or None, got "
            f"{type(source).__name__}."
        )
    folder = RunFolder.find(source.folder if isinstance(source, RunResult) else source)
    run = run_of_folder(folder)
    config = folder.config()
    planned = plan(config, task_of_run(folder, config))
    example = planned.task.short_example(config.seed, planned.train_lengths)
    model, _ = folder.load_model()
    return Page((run,), still_picture(model, planned.task, example, run["title"]))


def _of_package() -> Page:
    """The page of the built-in networks."""
    from unbounded.constructions import CONSTRUCTIONS
    from unbounded.explorer.page import built_in_runs
    from unbounded.explorer.picture import still_picture
    from unbounded.tasks import make_task

    model, task = CONSTRUCTIONS["copy"](symbols=8), make_task("copy", symbols=8)
    picture = still_picture(model, task, task.short_example(0), "Copy with a queue, set by hand")
    return Page(tuple(built_in_runs()), picture)


def _of_model(source: MemoryModel, task: Task | None) -> Page:
    from unbounded.explorer.bare_model import task_of
    from unbounded.explorer.picture import still_picture
    from unbounded.explorer.run_data import run_data

    numbers = sum(parameter.numel() for parameter in source.parameters())
    if numbers > _MOST_NUMBERS:
        raise ConfigError(
            f"model: it has {numbers:,} parameters, and a notebook would hold them in every "
            f"cell that shows it; at most {_MOST_NUMBERS:,} are shown"
        )
    # Use a copy on the CPU, because the model may be in training.
    model = copy.deepcopy(source).cpu().eval()
    known = task_of(model) if task is None else task
    name = "a model without a task" if task is None else f"a model on {task.name}"
    example = known.short_example(0)
    return Page((run_data(model, known, name),), still_picture(model, known, example, name))
