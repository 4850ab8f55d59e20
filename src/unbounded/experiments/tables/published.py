"""The tables that the papers print, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from unbounded.errors import ChoiceError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import PARTS

#: The papers to reproduce, each with a line for `unbounded list`.
PAPERS = {
    "grefenstette2015": "Learning to Transduce with Unbounded Memory (Neural Stack, Queue, DeQue)",
    "joulin2015": "Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets (Stack RNN)",
    "deleu2016": "Learning Operations on a Stack with Neural Turing Machines (Dyck words)",
    "graves2014": "Neural Turing Machines (copy, repeat copy, associative recall)",
    "yang2016": "Lie Access Neural Turing Machine (permutations, arithmetic, programs, words)",
    "chomsky15": "Neural Networks and the Chomsky Hierarchy (fifteen tasks), with every memory",
    "flare18": "Training Neural Networks as Recognizers of Formal Languages, with every memory",
    "known": "Memories of later papers on tasks they are known for (VRNS, DNC, DeltaProduct)",
    "matrix": "Every memory on every algorithmic task at one budget (of no paper)",
    "exact": "Networks hardened to be correct at 100 times the training length (of no paper)",
}


@dataclass(frozen=True)
class Contradiction:
    """A value that the paper prints twice, with different numbers.

    Fields:
        task, model, column: the cell, and a column of its metric set.
        used: the value used here.
        other: the contradicting value.
        note: where the paper prints each of them.
    """

    task: str
    model: str
    column: str
    used: float
    other: float
    note: str


@dataclass(frozen=True)
class PaperModel:
    """A model in a paper's tables.

    Fields:
        title: title in the paper's table.
        settings: the settings of each part of the config (PARTS).
        phase: "trained", or "hardened" for the run's hardened model.
    """

    title: str
    settings: Mapping[str, Mapping[str, Any]]
    phase: str = "trained"


@dataclass(frozen=True)
class PaperTable:
    """One of a paper's tables.

    Fields:
        title: the heading; empty if the paper has one table only.
        tasks: the tasks of its rows.
        metric_set: the metric set of all its tasks; empty for a matrix of tasks and models, which
            has several.
    """

    title: str
    tasks: tuple[str, ...]
    metric_set: str


@dataclass(frozen=True)
class Published:
    """All tables of a paper.

    Fields:
        source: authors, year, identifier.
        tasks: name -> title.
        components: name -> the task's component, of tasks that are not named by their cell.
        models: name -> title and settings.
        tables: the tables.
        values: task -> model -> column -> printed value; None if the paper prints none. The columns
            are those of the task's metric set.
        contradictions: values that the paper prints twice, differently.
        notes: further remarks on the numbers.
        parameters: model -> hidden size -> number of parameters as printed, to two digits.
        overview: the two columns of the matrix of tasks and models; empty without one.
    """

    source: str
    tasks: dict[str, str]
    models: dict[str, PaperModel]
    tables: tuple[PaperTable, ...]
    values: dict[str, dict[str, dict[str, float | None]]]
    contradictions: tuple[Contradiction, ...]
    notes: tuple[str, ...]
    parameters: dict[str, dict[int, float]]
    components: dict[str, dict[str, Any]] = field(default_factory=dict)
    overview: tuple[str, ...] = ()

    def metric_set(self, task: str) -> str:
        """The metric set of a task."""
        return next((table.metric_set for table in self.tables if task in table.tasks), "")


def published(paper: str) -> Published:
    """The published tables of a paper.

    Raises:
        ChoiceError: unknown paper; the message lists all papers and the closest name.
    """
    data = read_data("papers", paper)
    default = data.get("metric_set", "")
    tables = tuple(
        PaperTable(table["title"], tuple(table["tasks"]), table.get("metric_set", default))
        for table in data.get("tables", [{"title": "", "tasks": list(data["tasks"])}])
    )
    columns = {
        task: tuple(metric_set_of(table.metric_set).columns)
        for table in tables
        if table.metric_set
        for task in table.tasks
    }
    return Published(
        source=data["source"],
        tasks={
            name: task["title"] if isinstance(task, Mapping) else task
            for name, task in data["tasks"].items()
        },
        models={
            name: PaperModel(
                model["title"],
                {part: model[part] for part in PARTS if part in model},
                model.get("phase", "trained"),
            )
            for name, model in data["models"].items()
        },
        tables=tables,
        values={
            task: {
                model: dict(zip(columns[task], values, strict=True))
                for model, values in models.items()
            }
            for task, models in data.get("values", {}).items()
        },
        contradictions=tuple(Contradiction(**cell) for cell in data.get("contradictions", ())),
        notes=tuple(data.get("notes", ())),
        parameters=data.get("parameters", {}),
        components={
            name: dict(task["task"])
            for name, task in data["tasks"].items()
            if isinstance(task, Mapping)
        },
        overview=tuple(data.get("overview", ())),
    )


def read_data(folder: str, paper: str) -> dict[str, Any]:
    """Read a paper's data file in a folder of `unbounded.experiments`.

    Args:
        folder: "papers" or "studies".
        paper: the paper.
    Raises:
        ChoiceError: unknown paper.
    """
    if paper not in PAPERS:
        raise ChoiceError("paper", paper, PAPERS)
    file = files("unbounded.experiments").joinpath(folder, f"{paper}.yaml")
    data: dict[str, Any] = plain_yaml.load(file.read_text(encoding="utf-8"))
    return data
