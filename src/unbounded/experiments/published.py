"""What the papers print: tables as data, to stand beside what is measured here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from unbounded.errors import ChoiceError

#: Every paper that can be reproduced, with a line on it for `unbounded list`.
PAPERS = {
    "grefenstette2015": "Learning to Transduce with Unbounded Memory (Neural Stack, Queue, DeQue)",
}

COLUMNS = ("train_coarse", "train_fine", "test_coarse", "test_fine")

#: Short names of models, as in published tables, tiers and `--only`.
MODEL_TITLES = {
    "lstm-1": "1-layer LSTM",
    "lstm-2": "2-layer LSTM",
    "lstm-4": "4-layer LSTM",
    "lstm-8": "8-layer LSTM",
    "stack": "Stack-LSTM",
    "queue": "Queue-LSTM",
    "deque": "DeQue-LSTM",
    "deque-quiet": "DeQue-LSTM, quiet bottom (ours)",
}

TASK_TITLES = {
    "copy": "Copy",
    "reversal": "Reversal",
    "bigram_flip": "Bigram flip",
    "svo_sov": "SVO to SOV",
    "gender": "Gender conjugation",
}


@dataclass(frozen=True)
class Contradiction:
    """A value that the paper prints in two ways.

    Fields:
        task, model, column: the cell; column is one of COLUMNS.
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
class Published:
    """The tables of a paper.

    Fields:
        source: authors, year, identifier.
        parameters: model -> hidden size -> parameters as printed, to two digits.
        accuracies: task -> model -> the four values of COLUMNS.
        contradictions: cells that the paper prints in two ways.
    """

    source: str
    parameters: dict[str, dict[int, float]]
    accuracies: dict[str, dict[str, dict[str, float]]]
    contradictions: tuple[Contradiction, ...]


def published(paper: str) -> Published:
    """The published tables of a paper.

    Raises:
        ChoiceError: no such paper; the message lists those there are and the closest.
    """
    data = read_data("papers", paper)
    return Published(
        source=data["source"],
        parameters=data["parameters"],
        accuracies={
            task: {
                model: dict(zip(COLUMNS, values, strict=True)) for model, values in models.items()
            }
            for task, models in data["accuracies"].items()
        },
        contradictions=tuple(Contradiction(**each) for each in data["contradictions"]),
    )


def read_data(folder: str, paper: str) -> dict[str, Any]:
    """The data file of a paper in one of the folders beside this module.

    Raises:
        ChoiceError: no such paper.
    """
    if paper not in PAPERS:
        raise ChoiceError("paper", paper, PAPERS)
    file = files("unbounded.experiments").joinpath(folder, f"{paper}.yaml")
    data: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return data
