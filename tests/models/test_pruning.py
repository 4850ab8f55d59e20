"""Models without some of their stacks: outputs and errors."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.constructions import counter, stream_model
from tests.tolerances import assert_close
from unbounded.errors import ConfigError
from unbounded.evaluation.removal import without_stacks
from unbounded.memories import SuperpositionList
from unbounded.models import MemoryModel, discretized
from unbounded.models.memory_room import with_room

OPTIONS = [
    {},
    {"recurrent": True, "depth": 3},
    {"noop": True, "depth": 1},
    {"memory": "superposition_list", "noop": True},
    {"controller": "lstm"},
    {"controller": "gru", "noop": True},
]


def make(**options):
    torch.manual_seed(0)
    model = stream_model(vocabulary=3, hidden_size=6, count=5, backend="reference", **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model.double()


def tokens(steps=15, rows=3):
    return torch.randint(3, (rows, steps), generator=torch.Generator().manual_seed(1))


def hold_empty(model, removed):
    """The model whose `removed` stacks read -1 at every step, by the layer's loop."""
    layer = model.sequence.layer

    class Held(type(layer.memory)):
        def read(self, cells):
            read = super().read(cells).unflatten(1, (self.count, self.depth)).clone()
            read[:, removed] = self.empty
            return read.flatten(1)

    held = copy.deepcopy(model)
    memory = layer.memory
    own = {"empty": memory.empty} if isinstance(memory, SuperpositionList) else {}
    held.sequence.layer.memory = Held(memory.count, memory.depth, memory.noop, **own)
    return held


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("removed", [[1], [0, 2, 3], [4, 0]])
def test_the_pruned_model_equals_the_full_one_with_empty_stacks(options, removed):
    model = make(**options)
    smaller = without_stacks(model, removed)
    want, _ = hold_empty(model, removed)(tokens())
    got, state = smaller(tokens())
    assert_close(got, want, "logits")
    assert state.memory.cells.shape[1] == 5 - len(removed)
    assert sum(p.numel() for p in smaller.parameters()) < sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("bias", [False, True])
def test_lists_whose_empty_cells_hold_0(bias):
    memory = {"name": "superposition_list", "count": 5, "empty": 0, "capacity": 4}
    memory |= {"overflow": "drop_ends"}
    torch.manual_seed(0)
    controller = {"name": "elman", "bias": bias}
    options = {"memory": memory, "controller": controller, "hidden_size": 6, "backend": "reference"}
    model = MemoryModel(inputs=3, outputs=3, embedding_size=None, **options).double()
    smaller = without_stacks(model, [1, 3])
    lists = smaller.sequence.layer.memory
    assert (lists.count, lists.empty) == (3, 0)
    roomy, symbols = with_room(smaller, 15)
    assert symbols == 15
    assert repr(roomy.sequence.layer.memory) == repr(lists.with_capacity(15))
    assert lists.capacity == 4
    held = hold_empty(model, [1, 3])
    held.sequence.layer.memory = held.sequence.layer.memory.with_capacity(15)
    assert_close(roomy(tokens())[0], held(tokens())[0], "logits")


def test_removing_no_stack_changes_nothing():
    model = make()
    same = without_stacks(model, ())
    assert torch.equal(same(tokens())[0], model(tokens())[0])
    assert {name for name, _ in same.named_parameters()} == {n for n, _ in model.named_parameters()}


def test_pruning_changes_neither_the_model_nor_the_generator():
    model = make().eval()
    before = copy.deepcopy(model.state_dict())
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    smaller = without_stacks(model, [0])
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert not smaller.training


def test_a_smaller_model_is_saved_and_loaded(tmp_path):
    smaller = without_stacks(discretized(counter(3, 1)), [0, 2])
    smaller.save_pretrained(tmp_path)
    loaded = MemoryModel.from_pretrained(tmp_path)
    inputs = tokens() % 2
    assert loaded.sequence.layer.memory.count == 1
    assert torch.equal(loaded(inputs)[0], smaller(inputs)[0])
    # The rest is the constructed counter, apart from constants of the unread stacks.
    for name, weight in discretized(counter()).state_dict().items():
        assert_close(smaller.state_dict()[name], weight, name)


def test_bad_input():
    model = make()
    with pytest.raises(ConfigError, match=r"expected stacks 0..4, got \[-1, 7\]"):
        without_stacks(model, [7, -1, 2])
    with pytest.raises(ConfigError, match="at least one of the 5 stacks must remain"):
        without_stacks(model, range(5))
    plain = stream_model(vocabulary=2, memory="none", controller="gru")
    with pytest.raises(ConfigError, match="expected one with superposition"):
        without_stacks(plain, [0])
