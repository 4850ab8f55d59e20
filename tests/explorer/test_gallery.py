"""The pages of the gallery: small, one for each memory, and of this version of the format."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.explorer.test_pages import data_of
from unbounded.explorer.page import FORMAT, MARK, VERSION
from unbounded.memories.as_data import KINDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    spec = importlib.util.spec_from_file_location("make_gallery", DOCS / "make_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    paths: list[Path] = module.build(tmp_path_factory.mktemp("gallery"))
    return paths


def test_pages(pages: list[Path]) -> None:
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert len(text) < 320_000
        assert MARK in text[:4096]
        data = data_of(text)
        assert (data["format"], data["version"]) == (FORMAT, VERSION)
        assert path.name in (DOCS / "gallery" / "README.md").read_text(encoding="utf-8")


def test_every_memory_has_a_page(pages: list[Path]) -> None:
    kinds = [
        data_of(path.read_text("utf-8"))["runs"][0]["model"]["memory"]["kind"] for path in pages
    ]
    assert sorted(kinds) == sorted(KINDS)
