"""The pages of docs/gallery: small, one for each memory, and of this version of the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explorer.test_pages import data_of
from unbounded.explorer.page import FORMAT, MARK, VERSION
from unbounded.memories.as_data import KINDS

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
PAGES = sorted(GALLERY.glob("*.html"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < 300_000
    assert MARK in text[:4096]
    data = data_of(text)
    assert (data["format"], data["version"]) == (FORMAT, VERSION)
    assert path.name in (GALLERY / "README.md").read_text(encoding="utf-8")


def test_every_memory_has_a_page() -> None:
    kinds = [
        data_of(path.read_text("utf-8"))["runs"][0]["model"]["memory"]["kind"] for path in PAGES
    ]
    assert sorted(kinds) == sorted(KINDS)
