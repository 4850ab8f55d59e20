"""Models on a mocked Hub: a pushed model can be loaded, and a path never asks the Hub."""

from __future__ import annotations

import shutil
from pathlib import Path

import huggingface_hub.hub_mixin as hub
import pytest
import torch
from huggingface_hub import errors

import unbounded
from tests.models.test_saved_model import tiny
from unbounded.errors import CheckpointError
from unbounded.memories import MEMORIES
from unbounded.models import MemoryModel, memory_model


class Hub:
    """A Hub that is a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, **options: object) -> Hub:
        return self  # HfApi(token=...)

    def create_repo(self, repo_id: str, **options: object) -> object:
        return type("Url", (), {"repo_id": repo_id})

    def upload_folder(self, *, repo_id: str, folder_path: str, **options: object) -> str:
        shutil.copytree(folder_path, self.root / repo_id)
        return f"https://hub/{repo_id}"

    def download(self, repo_id: str, filename: str, **options: object) -> str:
        return str(self.root / repo_id / filename)


@pytest.fixture
def a_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    mocked = Hub(tmp_path / "hub")
    monkeypatch.setattr(hub, "HfApi", mocked)
    monkeypatch.setattr(memory_model, "hf_hub_download", mocked.download)
    return mocked


def test_a_pushed_model_can_be_loaded(a_hub: Hub) -> None:
    model = tiny()
    assert model.push_to_hub("user/counter") == "https://hub/user/counter"
    assert "unbounded" in (a_hub.root / "user/counter/README.md").read_text(encoding="utf-8")
    back = MemoryModel.from_pretrained("user/counter")
    assert back.config == model.config
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name


@pytest.mark.parametrize("name", ["runs/modle", "rnus/model", "./model", "a/b/model", "runs", "~"])
def test_a_missing_path_does_not_ask_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once made five requests: 20 seconds without a network."""

    def refuse(*given: object, **options: object) -> str:
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr(memory_model, "hf_hub_download", refuse)
    monkeypatch.chdir(tmp_path)
    for folder in ("runs", "~"):
        (tmp_path / folder).mkdir()
    with pytest.raises(CheckpointError, match="is not the folder of a model: it has no config"):
        MemoryModel.from_pretrained(name)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (errors.RepositoryNotFoundError, "there is none of that name that you may read. Check the"),
        (errors.RevisionNotFoundError, "it has no such revision"),
        (errors.EntryNotFoundError, "it is no model of this library: it lacks config.json or"),
        (errors.LocalEntryNotFoundError, "nor is it in the cache. Check the connection"),
        (errors.OfflineModeIsEnabled, "nor is it in the cache. Unset HF_HUB_OFFLINE"),
        (errors.HFValidationError, "there can be none of that name. A name is USER/NAME"),
        (errors.HfHubHTTPError, "it could not be read. Try again later"),
    ],
)
def test_errors_of_the_hub_are_one_line(
    kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **options: object) -> str:
        refusal = kind.__new__(kind)  # their arguments differ between versions of the library
        refusal.args = ("404 Client Error.\n\nMore of it",)
        monkeypatch.setattr(kind, "__str__", lambda error: error.args[0])
        raise refusal

    monkeypatch.setattr(memory_model, "hf_hub_download", refuse)
    with pytest.raises(CheckpointError, match=message) as caught:
        MemoryModel.from_pretrained("nobody/nothing")
    start = "nobody/nothing is not a folder here, and on the Hugging Face"
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith("(404 Client Error.)")


def test_the_model_card_describes_the_model(tmp_path: Path) -> None:
    """Once it had "More Information Needed" three times."""
    tiny().save_pretrained(tmp_path, model_card_kwargs={"sections": "## Scores\n\n1.00"})
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Needed" not in card
    assert card.startswith("---\nlibrary_name: unbounded\nlicense: apache-2.0\n")
    for line in (
        "# queue with lstm",
        "* `queue`: A queue of vectors whose pushes and pops have a strength between 0 and 1.",
        "* `lstm`: An LSTM cell with one bias per gate, as in the paper's parameter counts.",
        "| memory | queue: width 3 |",
        "| hidden units | 4 |",
        "| embedding | 3 |",
        "| readout units | none |",
        "| input symbols | 5 |",
        "| logits a step | 4 |",
        "## Scores",
        "Apache-2.0.",
        'model = MemoryModel.from_pretrained("FOLDER")  # this folder, or USER/NAME on the Hub',
    ):
        assert line in card.splitlines(), line
    assert "Grefenstette et al. 2015" in card
    code = card.partition("```python\n")[2].partition("```")[0].replace("FOLDER", str(tmp_path))
    exec(code, names := {})
    assert names["logits"].shape == (1, 8, 4)


@pytest.mark.parametrize("memory", [*MEMORIES, "none"])
def test_every_memory_has_its_paper_in_the_card(memory: str) -> None:
    options = {"name": memory, "width": 2}
    if memory not in ("stack", "queue", "deque", "quiet_deque"):
        options = {"name": memory}
    model = MemoryModel(inputs=3, outputs=3, memory=options, hidden_size=4, embedding_size=None)
    card = str(model.generate_model_card())
    source = card.rpartition("## Citation")[2]
    assert (
        "arXiv" in source
        or "Nature" in source
        or (memory == "none" and "without external memory" in source)
    )
    assert "| embedding | one-hot symbols |" in card
    assert (f"* `{memory}`: " in card) == (memory != "none")
    assert f"`unbounded` {unbounded.__version__}." in source
