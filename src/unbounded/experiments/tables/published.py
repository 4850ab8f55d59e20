"""What the papers print: tables as data, to stand beside what is measured here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from unbounded.errors import ChoiceError
from unbounded.evaluation.metric_sets import metric_set_of
from unbounded.experiments.config import plain_yaml
from unbounded.experiments.config.compose import PARTS

#: Every paper that can be reproduced, with a line on it for `unbounded list`.
PAPERS = {
    "grefenstette2015": "Learning to Transduce with Unbounded Memory (Neural Stack, Queue, DeQue)",
    "joulin2015": "Inferring Algorithmic Patterns with Stack-Augmented Recurrent Nets (Stack RNN)",
    "deleu2016": "Learning Operations on a Stack with Neural Turing Machines (Dyck words)",
    "graves2014": "Neural Turing Machines (copy, repeat copy, associative recall)",
    "yang2016": "Lie Access Neural Turing Machine (permutations, arithmetic, programs, words)",
    "exact": "Networks made right at a hundred times the training length (of no paper)",
    "matrix": "Every memory on every algorithmic task at one budget (of no paper)",
}


@dataclass(frozen=True)
class Contradiction:
    """A value that the paper prints in two ways.

    Fields:
        task, model, column: the cell; column is one of the metric set's.
        used: the value taken here. other: the value it contradicts.
        note: where each of them stands.
    """

    task: str
    model: str
    column: str
    used: float
    other: float
    note: str


@dataclass(frozen=True)
class PaperModel:
    """A model of a paper.

    Fields:
        title: as in its table.
        settings: what it sets, by part of the config (PARTS).
        phase: "trained", or "hardened" for what the same run is after hardening.
    """

    title: str
    settings: Mapping[str, Mapping[str, Any]]
    phase: str = "trained"


@dataclass(frozen=True)
class PaperTable:
    """One of a paper's tables.

    Fields:
        title: its heading; empty where there is only one.
        tasks: its rows' tasks.
        metric_set: that its tasks have; empty where they have several, and the table is a matrix of
            tasks and models.
    """

    title: str
    tasks: tuple[str, ...]
    metric_set: str


@dataclass(frozen=True)
class Published:
    """The tables of a paper.

    Fields:
        source: authors, year, identifier.
        tasks: name -> title.
        models: name -> title and settings.
        tables: what the table is made of.
        values: task -> model -> column -> value, None where none is printed; the columns are those
            of the task's scoring.
        contradictions: cells that the paper prints in two ways.
        notes: what else must be said beside the numbers.
        parameters: model -> hidden size -> parameters as printed, to two digits.
    """

    source: str
    tasks: dict[str, str]
    models: dict[str, PaperModel]
    tables: tuple[PaperTable, ...]
    values: dict[str, dict[str, dict[str, float | None]]]
    contradictions: tuple[Contradiction, ...]
    notes: tuple[str, ...]
    parameters: dict[str, dict[int, float]]

    def metric_set(self, task: str) -> str:
        """The metric set of a task."""
        return next((table.metric_set for table in self.tables if task in table.tasks), "")


def published(paper: str) -> Published:
    """The published tables of a paper.

    Raises:
        ChoiceError: no such paper; the message lists those there are and the closest.
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
        tasks=data["tasks"],
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
    )


def read_data(folder: str, paper: str) -> dict[str, Any]:
    """The data file of a paper in one of the folders beside this module.

    Raises:
        ChoiceError: no such paper.
    """
    if paper not in PAPERS:
        raise ChoiceError("paper", paper, PAPERS)
    file = files("unbounded.experiments").joinpath(folder, f"{paper}.yaml")
    data: dict[str, Any] = plain_yaml.load(file.read_text(encoding="utf-8"))
    return data
