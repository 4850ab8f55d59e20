"""The explorer in a notebook: a run shows itself, in an iframe that holds the whole page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from unbounded.errors import ConfigError
from unbounded.experiments.config.check import build_task
from unbounded.experiments.run.evaluate import load_config, load_model
from unbounded.experiments.run.folder import find_run
from unbounded.experiments.run.plan import plan
from unbounded.experiments.run.run import RunResult
from unbounded.explorer.page import html, write_page
from unbounded.explorer.picture import still_picture
from unbounded.explorer.run_data import run_data, run_of_folder
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import Task

_HEIGHT = 860


@dataclass(frozen=True)
class Page:
    """A page of runs that shows itself in a notebook.

    Fields:
        runs: as `run_data` makes them.
        picture: SVG of the first run at work, for where scripts are stripped.
    """

    runs: tuple[dict[str, Any], ...]
    picture: str

    def html(self) -> str:
        """The whole page."""
        return html(self.runs)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the page; errors as for `write_page`."""
        write_page(Path(path), self.html(), overwrite=overwrite)

    def beside(self, other: Page) -> Page:
        """A page with the runs of both, to be seen side by side."""
        return Page((*self.runs, *other.runs), self.picture)

    def _repr_html_(self) -> str:
        """An iframe with the page in it, and the picture, which a script takes away.

        Where scripts are stripped, as by viewers of notebooks, so are iframes: the picture stays.
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


def explore(source: str | Path | RunResult | MemoryModel, task: Task | None = None) -> Page:
    """A page in which a trained network can be watched; in a notebook it shows itself.

    Args:
        source: a run's folder or the beginning of its name, what `train_run` returned, or a model.
        task: of a model: what it was trained on.
    Returns:
        the page; `page.save("FILE.html")` writes it.
    Raises:
        CheckpointError: the folder is no run, or holds no model that can be used.
        ConfigError: a model came without a task, or the page cannot run it.
    """
    if isinstance(source, MemoryModel):
        if task is None:
            raise ConfigError(
                ["task: expected what the model was trained on, got None; a model has no symbols"]
            )
        name = f"a model on {task.name}"
        example = task.short_example(0)
        return Page((run_data(source, task, name),), still_picture(source, task, example, name))
    folder = source.folder if isinstance(source, RunResult) else find_run(source)
    run = run_of_folder(folder)
    config = load_config(folder)
    planned = plan(config, build_task(config))
    example = planned.task.short_example(config.seed, planned.train_lengths)
    model, _ = load_model(folder)
    return Page((run,), still_picture(model, planned.task, example, run["title"]))
