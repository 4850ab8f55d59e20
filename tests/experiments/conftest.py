from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.tiny_streams import tiny_corpus
from tests.pictures import no_pictures as no_pictures


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus under both names, and a file of pairs."""
    folder = tiny_corpus(tmp_path_factory.mktemp("data"))
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text((folder / f"ptb.{split}.txt").read_text())
    lines = (f"a{number % 7} b{number % 3}\tb{number % 3} a{number}" for number in range(60))
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    return folder
