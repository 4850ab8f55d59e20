"""The Python examples of README and pages run unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name_of, pages
from unbounded.models import least_saturated

_BLOCK = re.compile(r"```python\n(.*?)```", flags=re.DOTALL)
#: Pages whose examples have their own test, which also checks the written files.
_OWN_TEST = ("README.md", "hardening.md", "custom_components.md", "constructions.md")


def run_examples(page: Path) -> dict[str, object]:
    """Run the examples of a page in order, and return the defined names."""
    space: dict[str, object] = {}
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, page.name, "exec"), space)
    return space


def with_examples() -> list[Path]:
    return [page for page in pages() if _BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", with_examples(), ids=name_of)
def test_the_examples_run_unchanged(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page.name not in _OWN_TEST:
        run_examples(page)


def test_the_example_of_the_readme(capsys):
    run_examples(ROOT / "README.md")
    assert capsys.readouterr().out == "torch.Size([8, 20, 64])\n"


def test_the_examples_of_hardening(capsys):
    space = run_examples(ROOT / "docs" / "hardening.md")
    assert len(space["found"].removed) + space["found"].model.sequence.layer.memory.count == 3
    removed, head, *rows = capsys.readouterr().out.splitlines()
    assert removed == str(space["found"].removed)
    assert head.split()[:2] == ["current", "next"]
    assert [row.split()[:2] for row in rows] == [*map(list, ("ba", "aa", "ab", "bb", "ba"))]
    # `streams.batch` is a batch for `least_saturated`, as on the page.
    assert least_saturated(space["hardened"], space["streams"].batch) in (0.5, 1.0)
    assert 1 / 3 < least_saturated(space["model"], space["streams"].batch) < 1


def test_the_examples_of_custom_components(capsys):
    space = run_examples(ROOT / "docs" / "custom_components.md")
    model, task = space["loaded"](ROOT / "results" / "joulin2015" / "adder", hardened=True)
    assert len(task.input_vocabulary) == model.config["inputs"]
    assert "expected a subclass of unbounded.memories.core.memory.Memory" in capsys.readouterr().out


def test_the_example_of_constructed_networks(capsys):
    run_examples(ROOT / "docs" / "constructions.md")
    assert capsys.readouterr().out == "10 of 10 strings of 640 symbols\n"
