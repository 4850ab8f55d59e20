"""Sentences of the pages are short: at most 18 words in the mean, but for the notebook."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import name_of, pages

MOST = 18
#: Lines without sentences: tables, headings, HTML, pictures, generated API, code.
_NO_SENTENCE = ("|", "#", "<", "![", ":::", "    ")


def sentences(text: str) -> list[str]:
    """The sentences of a page, without code and tables."""
    text = re.sub(r"```.*?```", " ", text, flags=re.DOTALL)
    lines = [line for line in text.splitlines() if line.strip()]
    prose = " ".join(line for line in lines if not line.startswith(_NO_SENTENCE))
    parts = re.split(r"(?<=[.!?])\s+", prose)
    return [part for part in parts if len(part.split()) > 2]


@pytest.mark.parametrize(
    "page", [page for page in pages() if page.parent.name != "notebook"], ids=name_of
)
def test_sentences_are_short(page):
    lengths = {part: len(part.split()) for part in sentences(page.read_text(encoding="utf-8"))}
    mean = sum(lengths.values()) / max(1, len(lengths))
    longest = sorted(lengths, key=lambda part: -lengths[part])[:3]
    assert mean <= MOST, f"{name_of(page)}: {mean:.1f} words a sentence; the longest: {longest}"


def test_sentences_of_a_text():
    prose, other = "One two three. Four\nfive six!", "    code. x\n```\na b c.\n```\n| a b c. |"
    text = f"# A title\n\n{prose}\n\n{other}\n"
    assert sentences(text) == ["One two three.", "Four five six!"]
