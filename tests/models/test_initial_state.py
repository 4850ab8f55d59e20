"""An initial state as a linear map of 1: twice the parameters, the same state, saving."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from unbounded.errors import ConfigError
from unbounded.models import MemoryModel

MODELS: dict[str, dict[str, Any]] = {
    "lie_access": {"memory": {"name": "lie_access", "width": 3, "initial": "learned"}},
    "stack": {"memory": {"name": "stack", "width": 3}},
    "lstm": {"memory": "none", "controller": {"name": "lstm", "num_layers": 2}},
    "gru": {"memory": "none", "controller": "gru"},
}
#: Parameters of each initial state with five units.
NUMBERS = {"lie_access": 10 + 2 * 3 + 2 + 1 + 8, "stack": 10, "lstm": 20, "gru": 5}


def build(name: str, mapped: bool) -> MemoryModel:
    torch.manual_seed(1)
    options = {**MODELS[name], "hidden_size": 5, "embedding_size": 4, "learn_initial_state": True}
    return MemoryModel(inputs=6, outputs=3, **options, map_initial_state=mapped)


@pytest.mark.parametrize("name", MODELS)
def test_each_number_is_the_sum_of_two(name: str):
    plain, mapped = build(name, False), build(name, True)
    counts = [sum(each.numel() for each in model.parameters()) for model in (plain, mapped)]
    assert counts[1] - counts[0] == NUMBERS[name]
    tokens = torch.randint(6, (2, 5))
    outputs = [model(tokens)[0] for model in (plain, mapped)]
    torch.testing.assert_close(outputs[1], outputs[0])
    for output in outputs:
        output.square().sum().backward()
    added = {
        key: parameter
        for key, parameter in mapped.named_parameters()
        if (key.endswith("_bias") and "initial_memory" in key) or "original1" in key
    }
    assert sum(each.numel() for each in added.values()) == NUMBERS[name]
    assert all(not each.any() and each.grad is not None for each in added.values())
    with torch.no_grad():
        for parameter in added.values():
            parameter += 0.1
    assert not torch.allclose(mapped(tokens)[0], outputs[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_mapped_initial_state_is_saved_and_loaded(name: str, tmp_path: Path):
    model = build(name, True)
    model.save_pretrained(tmp_path)
    again = MemoryModel.from_pretrained(tmp_path)
    tokens = torch.randint(6, (2, 5))
    assert torch.equal(again(tokens)[0], model(tokens)[0])
    assert again.config["map_initial_state"] is True


def test_an_initial_state_of_zeros_cannot_be_mapped():
    with pytest.raises(ConfigError, match="map_initial_state: has no effect on an initial state"):
        MemoryModel(inputs=6, outputs=3, memory="stack", map_initial_state=True)
