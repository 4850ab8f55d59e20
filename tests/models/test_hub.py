"""Models on the Hub, mocked: what is pushed is what comes back, and a path never goes there."""

from __future__ import annotations

import shutil
from pathlib import Path

import huggingface_hub.hub_mixin as hub
import pytest
import torch

from unbounded.errors import CheckpointError
from unbounded.models import MemoryModel, memory_model


def tiny() -> MemoryModel:
    torch.manual_seed(0)
    memory = {"name": "queue", "width": 3}
    return MemoryModel(inputs=5, outputs=4, memory=memory, hidden_size=4, embedding_size=3)


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
    made = Hub(tmp_path / "hub")
    monkeypatch.setattr(hub, "HfApi", made)
    monkeypatch.setattr(memory_model, "hf_hub_download", made.download)
    return made


def test_what_is_pushed_comes_back(a_hub: Hub) -> None:
    model = tiny()
    assert model.push_to_hub("user/counter") == "https://hub/user/counter"
    assert "unbounded" in (a_hub.root / "user/counter/README.md").read_text(encoding="utf-8")
    back = MemoryModel.from_pretrained("user/counter")
    assert back.config == model.config
    for name, weight in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight), name


def test_a_folder_comes_back(tmp_path: Path) -> None:
    model = tiny()
    model.save_pretrained(tmp_path / "model")
    assert MemoryModel.from_pretrained(str(tmp_path / "model")).config == model.config


@pytest.mark.parametrize("name", ["runs/modle", "rnus/model", "./model", "a/b/model", "runs", "~"])
def test_a_path_that_is_not_there_does_not_ask_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Item 14: it asked five times, 20 seconds without a network."""

    def refuse(*given: object, **options: object) -> str:
        raise AssertionError("the Hub was asked")

    monkeypatch.setattr(memory_model, "hf_hub_download", refuse)
    monkeypatch.chdir(tmp_path)
    for folder in ("runs", "~"):
        (tmp_path / folder).mkdir()
    with pytest.raises(CheckpointError, match="is not the folder of a model: it has no config"):
        MemoryModel.from_pretrained(name)
