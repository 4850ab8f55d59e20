"""Gates, certainty and initial biases in the declaration of a head."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from unbounded.errors import ChoiceError, ShapeError
from unbounded.memories import MEMORIES, Head
from unbounded.memories.core import ACTIVATIONS

GATES = {
    "stack": {"push", "pop"},
    "queue": {"push", "pop"},
    "deque": {"top_push", "top_pop", "bottom_push", "bottom_pop"},
    "quiet_deque": {"top_push", "top_pop", "bottom_push", "bottom_pop"},
    "superposition_stack": {"action"},
    "superposition_list": {"action"},
    "turing_tape": {"read_gate", "read_shift", "write_gate", "write_shift", "erase"},
    "rolling_tape": {"action"},
    "nondeterministic_stack": set(),
    "dnc": {"free_gate", "erase", "allocation_gate", "write_gate", "read_mode"},
    "lie_access": {
        "read_key_gate", "read_action_gate", "write_key_gate", "write_action_gate", "strength",
    },
    "ram": {"strength"},
}  # fmt: skip


#: The gates of each memory.
SIZES = {name: {"width": 3} for name in ("stack", "queue", "deque", "quiet_deque")}
SIZES |= {name: {"count": 2, "depth": 2} for name in ("superposition_stack", "superposition_list")}


@pytest.mark.parametrize("name", MEMORIES)
def test_every_memory_declares_its_gates(name):
    memory = MEMORIES[name](**SIZES.get(name, {}))
    heads = memory.heads
    assert tuple(head.name for head in heads) == memory.Instruction._fields
    assert {head.name for head in heads if head.gate} == GATES[name]
    assert all(head.can_harden for head in heads if head.gate)


def test_only_activations_of_gates_harden():
    tape = ub.TuringTape(slots=4, width=3, activations={"erase": "tanh"})
    erase = next(head for head in tape.heads if head.name == "erase")
    assert erase.gate
    assert not erase.can_harden
    with pytest.raises(ChoiceError, match="activation of a gate"):
        erase.certainty(torch.zeros(1, 3))


@pytest.mark.parametrize("activation", ["sigmoid", "hard_sigmoid"])
def test_certainty_of_a_gate(activation):
    head = Head("push", (), activation, gate=True)
    torch.testing.assert_close(
        head.certainty(torch.tensor([0.0, 0.2, 0.5, 0.9])), torch.tensor([1.0, 0.8, 0.5, 0.9])
    )


def test_certainty_of_a_softmax_is_its_largest_weight():
    head = Head("action", (2, 3), "softmax", gate=True)
    field = torch.tensor([[[0.2, 0.7, 0.1], [0.0, 0.0, 1.0]]])
    torch.testing.assert_close(head.certainty(field), torch.tensor([[0.7, 1.0]]))


@pytest.mark.parametrize("activation", ["sigmoid", "hard_sigmoid", "softmax"])
def test_larger_logits_increase_certainty(activation):
    head = Head("choice", (3,), activation, gate=True)
    products = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    before, after = (
        head.certainty(ACTIVATIONS[activation](factor * products)) for factor in (1.0, 1.5)
    )
    assert bool((after >= before).all())


def test_a_head_has_one_bias_or_one_for_each_index_of_its_last_axis():
    biases = torch.zeros(6)
    Head("shift", (2, 3), "softmax", (1.0, 2.0, 3.0)).set_initial_biases(biases)
    assert biases.tolist() == [1.0, 2.0, 3.0] * 2
    Head("shift", (2, 3), "softmax").set_initial_biases(biases)
    assert biases.tolist() == [1.0, 2.0, 3.0] * 2
    for several in ((1.0, 2.0), (1.0,) * 6, ()):
        head = Head("shift", (2, 3), "softmax", several)
        with pytest.raises(ShapeError, match=r"bias of head 'shift': expected one number, or one"):
            head.set_initial_biases(biases)
    with pytest.raises(ShapeError, match=r"last axis of \[\], got 2"):
        Head("push", (), "sigmoid", (1.0, 2.0)).set_initial_biases(biases[:1])
