"""The hooks of the documentation site: generated pages, and links out of docs/."""

from __future__ import annotations

import runpy
from types import SimpleNamespace

import pytest

import unbounded
from tests.docs.pages import ROOT

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")


@pytest.fixture(scope="module")
def hooks():
    return runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))


def test_every_public_name_has_a_reference(hooks):
    page = hooks["api_page"]()
    for name in unbounded.__all__:
        if not name.startswith("__"):
            assert f"::: unbounded.{name}\n" in page or f"[`{name}`](../memories/" in page


def test_tasks_and_components_have_their_options(hooks):
    from unbounded.cli.list_ import names

    tasks, components = hooks["tasks_page"](), hooks["components_page"]()
    for name in names()["tasks"]:
        assert f"\n## {name}\n" in tasks
    for name in ("cooldown", "turing_tape", "gradual", "rmsprop"):
        assert f"\n### {name}\n" in components
    assert "| `batches` | `500` | length of the decay, at most half of the budget. |" in components
    assert "| `--training.learning\\_rate` |" not in hooks["config_page"]()
    assert "| `--training.learning_rate` | `0.001` |" in hooks["config_page"]()


def test_links_fit_the_site(hooks):
    there = {"results/exact/table.md", "index.md", "memories/stack.md", "tutorials/own_data.md"}
    files = SimpleNamespace(get_file_from_path=lambda path: path if path in there else None)
    adapted = hooks["_adapted"]
    for page, text, expected in (
        ("memories/queue.md", "[a](stack.md#x)", "[a](stack.md#x)"),
        (
            "memories/queue.md",
            "[a](../../results/exact/table.md)",
            "[a](../results/exact/table.md)",
        ),
        ("faq.md", "[a](../README.md)", "[a](index.md)"),
        ("faq.md", "[a](tutorials/own_data.ipynb)", "[a](tutorials/own_data.md)"),
        ("faq.md", "[a](../src/unbounded)", "a"),
        ("CONTRIBUTING.md", "[a](docs/memories/stack.md)", "[a](memories/stack.md)"),
    ):
        assert adapted(text, page, files) == expected
    page = adapted('<img src="../../results/a.svg" alt="">', "memories/queue.md", files)
    assert page == '<img src="../results/a.svg" alt="">'
    assert "../gallery/queue_copy.html" in adapted(
        "<!-- explorer: queue_copy -->", "memories/queue.md", files
    )
