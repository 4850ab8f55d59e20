"""The notebooks of the tutorials run from the first cell to the last, and hold no outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.test_sentences import MOST, sentences

NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def cells(path: Path) -> list[tuple[str, str]]:
    """Kind and text of each cell."""
    data = json.loads(path.read_text(encoding="utf-8"))
    assert not any(cell.get("outputs") for cell in data["cells"]), "clear all outputs"
    return [(cell["cell_type"], "".join(cell["source"])) for cell in data["cells"]]


def run_cells(name: str, few: bool = False) -> dict[str, object]:
    """Run the code of a notebook, perhaps with few batches, and return the defined names."""
    space: dict[str, object] = {}
    for kind, text in cells(ROOT / "docs" / "tutorials" / f"{name}.ipynb"):
        if kind == "code":
            if few:
                text = re.sub(r"(\.(batches|accuracy_every)) \d+", r"\1 4", text)
            exec(compile(text, name, "exec"), space)
    return space


def test_there_are_three_notebooks():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_sentences_are_short(path):
    texts = [part for kind, text in cells(path) if kind == "markdown" for part in sentences(text)]
    assert sum(len(text.split()) for text in texts) / len(texts) <= MOST


@pytest.mark.slow
def test_a_stack_in_your_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scores = run_cells("stack_in_your_model")["scores"]
    assert scores["LSTM with a stack"][20] > 0.9
    assert scores["LSTM"][20] < 0.1
    assert "push" in capsys.readouterr().out


def test_watch_a_memory_learn_for_a_few_batches(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    report = run_cells("watch_a_memory_learn", few=True)["report"]
    assert report["batches"] == 4
    assert "hardened" in report
    assert re.search(r"batch +\d+  [01]\.\d\d  ", capsys.readouterr().out)


@pytest.mark.slow
def test_watch_a_memory_learn(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    report = run_cells("watch_a_memory_learn")["report"]
    rows = {row["lengths"]: row["exact_match"] for row in report["hardened"]["rows"]}
    assert rows["11:20"] > 0.9
    assert re.search(r"batch +\d+  [01]\.\d\d  #", capsys.readouterr().out)


def test_own_data_for_a_few_batches(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = run_cells("own_data", few=True)
    assert len(space["targets"]) == len(space["new"])


@pytest.mark.slow
def test_own_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = run_cells("own_data")
    for source, target in zip(space["new"], space["targets"], strict=True):
        assert target.split() == source.split()[::-1]
