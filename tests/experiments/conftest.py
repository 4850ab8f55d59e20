from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.experiments.tiny_streams import tiny_corpus
from unbounded.experiments.run import run as run_module


@pytest.fixture(autouse=True, scope="module")
def no_pictures() -> Iterator[None]:
    """Runs made for other questions are not drawn: it takes longer than they do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "draw_run", lambda folder: [])
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus under both names, and a file of pairs."""
    folder = tiny_corpus(tmp_path_factory.mktemp("data"))
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text((folder / f"ptb.{split}.txt").read_text())
    lines = (f"a{number % 7} b{number % 3}\tb{number % 3} a{number}" for number in range(60))
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    return folder
