"""Models whose weights share one storage, as an LSTM's on a GPU, are written completely."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from tests.devices import on_every_device, one_storage
from unbounded.models import MemoryModel


def model_of(device: str) -> MemoryModel:
    torch.manual_seed(0)
    model = MemoryModel(
        inputs=5,
        outputs=5,
        memory={"name": "none"},
        controller={"name": "lstm", "num_layers": 2},
        hidden_size=4,
        embedding_size=4,
    ).to(device)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.LSTM)]
    assert len(layers) == 2
    for layer in layers:
        if device == "cpu":
            one_storage(layer)
        assert len({weight.untyped_storage().data_ptr() for weight in layer.parameters()}) == 1
    return model


@on_every_device
def test_all_weights_are_written(device: str, tmp_path: Path) -> None:
    model = model_of(device)
    model.save_pretrained(tmp_path)
    again = MemoryModel.from_pretrained(tmp_path)
    want = dict(model.named_parameters())
    assert set(want) == set(dict(again.named_parameters()))
    for name, weight in again.named_parameters():
        assert torch.equal(weight, want[name].cpu()), name


@on_every_device
def test_a_state_dict_has_tensors_with_separate_storages(device: str) -> None:
    model = model_of(device)
    for name, tensor in model.state_dict().items():
        assert tensor.untyped_storage().nbytes() == tensor.nbytes, name
    alone = {
        name: each.data_ptr()
        for name, each in model.named_parameters()
        if each.untyped_storage().nbytes() == each.nbytes
    }
    assert "sequence.output.weight" in alone
    assert all(model.state_dict()[name].data_ptr() == place for name, place in alone.items())


@on_every_device
def test_under_a_larger_model_others_tensors_are_left_alone(device: str) -> None:
    # The other module first: it is in the dict when the model's hook runs.
    full = nn.ModuleDict({"another": nn.Linear(2, 2), "memory": model_of(device)})
    both = torch.zeros(2, 2)
    full["another"].weight.data = both[0].expand(2, 2).T[:1]
    state = full.state_dict()
    assert state["another.weight"].data_ptr() == both.data_ptr()
    storage = state["memory.sequence.layer.layers.0.weight_hh_l0"].untyped_storage()
    assert storage.nbytes() == 16 * 4 * 4


@on_every_device
def test_parameters_and_buffers_are_unchanged(device: str) -> None:
    model = model_of(device)
    kept = model.state_dict(keep_vars=True)
    buffers = dict(model.named_buffers())
    assert any(name.endswith("bias_hh_l0") for name in buffers)
    for name, tensor in [*model.named_parameters(), *buffers.items()]:
        assert kept[name] is tensor, name


def test_a_sparse_buffer_is_left_alone() -> None:
    model = model_of("cpu")
    model.sequence.register_buffer("few", torch.eye(3).to_sparse())
    assert model.state_dict()["sequence.few"].is_sparse
