"""In a notebook a run shows itself: the whole page in an iframe, and a picture without scripts."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

import unbounded as ub
from tests.experiments.tiny import tiny
from unbounded.errors import ConfigError
from unbounded.experiments.run.run import RunResult, train_run
from unbounded.explorer.notebook import explore
from unbounded.explorer.page import template
from unbounded.machines import MACHINES
from unbounded.tasks import make_task


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    root = tmp_path_factory.mktemp("runs")
    return train_run(tiny(batches=2, accuracy_every=0), root=root, quiet=True)


def picture_of(shown: str) -> ElementTree.Element:
    image = re.search(r'src="data:image/svg\+xml;base64,([^"]*)"', shown)
    assert image is not None
    return ElementTree.fromstring(base64.b64decode(image[1]))


def test_a_run_shows_itself(result: RunResult) -> None:
    shown = explore(result)._repr_html_()
    frame = re.search(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts"', shown)
    assert frame is not None
    page = html.unescape(frame[1])
    assert page == explore(result.folder).html()
    assert page.startswith(template()[:200])
    assert picture_of(shown).tag.endswith("svg")
    assert "queue-lstm on copy" in "".join(picture_of(shown).itertext())


def test_the_shell_shows_what_training_returned(result: RunResult) -> None:
    kinds: dict[type, Any] = {}
    formatter = SimpleNamespace(for_type=kinds.__setitem__)
    formatters = {"text/html": formatter}
    ub.load_ipython_extension(
        SimpleNamespace(display_formatter=SimpleNamespace(formatters=formatters))
    )
    assert "<iframe srcdoc=" in kinds[RunResult](result)


@pytest.mark.parametrize("name", ["copy", "reversal", "anbn", "dyck"])
def test_a_model_and_its_task(name: str, tmp_path: Path) -> None:
    options = {"symbols": 4} if name in ("copy", "reversal") else {}
    task = make_task(name, **options)
    page = ub.explore(MACHINES[name](**options), task)
    cells = [each for each in picture_of(page._repr_html_()).iter() if each.tag.endswith("rect")]
    assert cells
    page.beside(page).save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('"layout"') == 2


def test_a_model_alone_has_no_symbols() -> None:
    with pytest.raises(ConfigError, match="task: expected what the model was trained on, got None"):
        ub.explore(MACHINES["copy"](symbols=4))
