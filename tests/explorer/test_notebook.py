"""A notebook shows a run: the full page in an iframe, and a picture without scripts."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import unbounded as ub
from tests.experiments.tiny import tiny
from tests.explorer.test_pages import data_of
from unbounded.constructions import CONSTRUCTIONS
from unbounded.errors import ConfigError
from unbounded.experiments.run.run import RunResult, train_run
from unbounded.explorer.notebook import explore
from unbounded.explorer.page import template
from unbounded.models.memory_model import MemoryModel
from unbounded.tasks import make_task


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    root = tmp_path_factory.mktemp("runs")
    return train_run(tiny(batches=2, accuracy_every=0), root=root, quiet=True)


def picture_of(shown: str) -> ElementTree.Element:
    image = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', shown)
    assert image is not None
    return ElementTree.fromstring(base64.b64decode(image[1]))


def test_a_run_has_an_html_representation(result: RunResult) -> None:
    shown = explore(result)._repr_html_()
    frame = re.search(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"', shown)
    assert frame is not None
    page = html.unescape(frame[1])
    assert page == explore(result.folder).html()
    assert page.startswith(template()[:200])
    assert picture_of(shown).tag.endswith("svg")
    assert "queue-lstm on copy" in "".join(picture_of(shown).itertext())


def test_a_run_result_has_an_html_representation(result: RunResult) -> None:
    assert result._repr_html_() == explore(result)._repr_html_()
    gone = RunResult(result.folder / "nowhere", {}, fresh=True)
    assert "<p>Not shown: " in gone._repr_html_()
    assert "nowhere does not exist" in gone._repr_html_()


@pytest.mark.parametrize("name", ["copy", "reversal", "anbn", "dyck"])
def test_a_model_and_its_task(name: str, tmp_path: Path) -> None:
    options = {"symbols": 4} if name in ("copy", "reversal") else {}
    task = make_task(name, **options)
    page = ub.explore(CONSTRUCTIONS[name](**options), task)
    cells = [each for each in picture_of(page._repr_html_()).iter() if each.tag.endswith("rect")]
    assert cells
    title, name = page.runs[0]["title"], page.runs[0]["name"]
    both = page.beside(page)
    assert [run["title"] for run in both.runs] == 2 * [f"{title}: {name}"]
    assert page.runs[0]["title"] == title
    both.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('"layout"') == 2


@pytest.mark.parametrize(
    "options",
    [
        {"inputs": 5, "outputs": 3},
        {"inputs": 4, "outputs": 1, "memory": {"name": "turing_tape", "slots": 4, "width": 3}},
        {"inputs": 8, "outputs": 2, "embedding_size": None, "input_bits": 3, "memory": "stack"},
        {"inputs": 5, "outputs": 3, "memory": "none", "controller": "gru"},
    ],
    ids=lambda options: str(options.get("memory", "queue")),
)
def test_a_model_without_a_task_has_an_html_representation(options: dict[str, Any]) -> None:
    model = MemoryModel(hidden_size=6, **{"embedding_size": 3, **options})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    shown = model._repr_html_()
    frame = re.search(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"', shown)
    assert frame is not None
    (run,) = data_of(html.unescape(frame[1]))["runs"]
    assert run["task"]["inputs"] == [str(number) for number in range(options["inputs"])]
    assert run["task"]["objective"] == ("binary" if options["outputs"] == 1 else "cross_entropy")
    assert run["task"]["no_rule"].startswith("the model came without its task")
    assert len(run["samples"]) == 8
    assert not any(any(sample["mask"]) for sample in run["samples"])
    assert picture_of(shown).tag.endswith("svg")
    assert model.training
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


def test_unsupported_models_are_shown_as_text_in_a_notebook() -> None:
    model = MemoryModel(inputs=5, outputs=3, memory="none", controller="srcn", hidden_size=6)
    assert "<pre>MemoryModel(" in model._repr_html_()
    assert "controller: the explorer page cannot run SRCN" in model._repr_html_()
    large = MemoryModel(inputs=5, outputs=3, hidden_size=1100)
    with pytest.raises(ConfigError, match="parameters, and a notebook would hold them in every"):
        ub.explore(large)
    assert "at most 4,000,000 are shown" in large._repr_html_()
