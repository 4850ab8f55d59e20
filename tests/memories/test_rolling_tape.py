"""The rolling tape against lists in plain Python, its gradients, and the length of a jump."""

from __future__ import annotations

import pytest
import torch

import unbounded as ub
from tests.sweep import diagonal
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ShapeError
from unbounded.memories import RollingTape, RollInstruction
from unbounded.memories.rolling_tape.reference import ACTIONS, VARIANTS
from unbounded.models import with_room
from unbounded.models.memory_model import MemoryModel

DOUBLE = torch.float64


def moved(cells: list[list[float]], by: int) -> list[list[float]]:
    """The ring after its head went `by` cells on."""
    by %= len(cells)
    return cells[by:] + cells[:by]


def oracle_step(
    cells: list[list[float]], value: list[float], weights: list[float], jump: int, variant: str
) -> list[list[float]]:
    """One step of one tape, with lists."""
    written = [value, *cells[1:]]
    jumping = written if variant == "code" else cells
    rings = [
        moved(written, 0), moved(written, 1), moved(written, -1),
        moved(jumping, jump), moved(jumping, -jump),
    ]  # fmt: skip
    return [
        [sum(w * ring[n][m] for w, ring in zip(weights, rings, strict=True)) for m in range(len(c))]
        for n, c in enumerate(cells)
    ]


def drawn(batch: int, steps: int, tapes: int, width: int) -> RollInstruction:
    generator = torch.Generator().manual_seed(3)
    action = torch.rand(batch, steps, tapes, len(ACTIONS), generator=generator, dtype=DOUBLE)
    value = torch.randn(batch, steps, tapes, width, generator=generator, dtype=DOUBLE)
    return RollInstruction(action / action.sum(-1, keepdim=True), value)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("slots", "tapes"), [(6, 1), (5, 2), (1, 1)])
def test_steps_equal_lists(variant, slots, tapes):
    tape = RollingTape(slots, 3, tapes, variant=variant)
    jumps, steps = [0, 2, 17], 9
    instructions = drawn(3, steps, tapes, 3)
    start = tape.initial_state(3, dtype=DOUBLE)
    start = tape.started(start, torch.tensor(jumps))
    read_vectors, final = tape.unroll(instructions, start, backend="reference")
    for b, jump in enumerate(jumps):
        for k in range(tapes):
            cells = [[0.0] * 3 for _ in range(slots)]
            for t in range(steps):
                weights, value = (part[b, t, k].tolist() for part in instructions)
                cells = oracle_step(cells, value, weights, jump, variant)
                read = torch.tensor(cells[0], dtype=DOUBLE)
                assert_close(read_vectors[b, t, 3 * k : 3 * k + 3], read, f"r at {t}")
            assert_close(final.cells[b, k], torch.tensor(cells, dtype=DOUBLE), "cells")
    assert final.jump.tolist() == jumps


@pytest.mark.parametrize(("variant", "backend"), diagonal(VARIANTS, ["reference", "auto"], share=2))
def test_gradients_are_those_of_finite_differences(variant, backend):
    tape = RollingTape(5, 2, 2, variant=variant)
    action, value = drawn(2, 11, 2, 2)
    cells = torch.randn(2, 2, 5, 2, dtype=DOUBLE)
    jump = torch.tensor([2.0, 8.0], dtype=DOUBLE)

    def unrolled(*parts):
        state = tape.State(parts[2], jump)
        read_vectors, final = tape.unroll(RollInstruction(*parts[:2]), state, backend=backend)
        return read_vectors, final.cells

    parts = [part.requires_grad_() for part in (action, value, cells)]
    assert torch.autograd.gradcheck(unrolled, parts)


def hard(moves: str, values: list[float], tape: RollingTape) -> RollInstruction:
    """Saturated moves: s stay, n next, p previous, f and b jumps."""
    action = torch.zeros(1, len(moves), 1, len(ACTIONS), dtype=DOUBLE)
    for t, move in enumerate(moves):
        action[0, t, 0, "snpfb".index(move)] = 1
    value = torch.tensor(values, dtype=DOUBLE).view(1, -1, 1, 1).expand(1, -1, 1, tape.width)
    return RollInstruction(action, value)


def test_written_values_are_read_after_a_jump_back():
    tape = RollingTape(8, 1)
    start = tape.started(tape.initial_state(1, dtype=DOUBLE), torch.tensor([3]))
    read, _ = tape.unroll(hard("nnnb", [1, 2, 3, 9], tape), start)
    assert read.flatten().tolist() == [0, 0, 0, 1]  # three cells on, then back to the first
    # The head's cell stays as it was: "paper" jumps do not write.
    read, _ = tape.unroll(hard("snfb", [5, 6, 7, 8], tape), start)
    assert read.flatten().tolist()[-1] == 0
    wrote = RollingTape(8, 1, variant="code")
    read, _ = wrote.unroll(hard("snfb", [5, 6, 7, 8], wrote), start)
    assert read.flatten().tolist()[-1] == 7


def test_a_layer_jumps_by_the_length_of_each_sequence():
    layer = ub.MemoryRNN(2, 4, RollingTape(9, 3), dtype=DOUBLE)
    x = torch.randn(6, 2, 2, dtype=DOUBLE)
    _, state = layer(x, None, [6, 4])
    assert state.memory.jump.tolist() == [6, 4]
    assert layer(x)[1].memory.jump.tolist() == [6, 6]
    given, same = layer(x, layer.initial_state(2, [6, 6])), layer(x)
    assert_close(given[0], same[0], "output")
    assert layer.initial_state(2).memory.jump.tolist() == [0, 0]
    for call in (lambda: layer.initial_state(2, [6]), lambda: layer(x, None, [6])):
        with pytest.raises(ShapeError, match="lengths"):
            call()


def test_a_model_jumps_by_the_symbols_before_the_answer():
    options = {"memory": {"name": "rolling_tape", "slots": 9, "width": 3}, "hidden_size": 5}
    model = MemoryModel(inputs=4, outputs=3, length_token=1, **options)
    tokens = torch.tensor([[2, 3, 3, 1, 1, 1], [3, 1, 1, 0, 0, 0]])
    _, state = model(tokens, None, torch.tensor([6, 3]))
    assert state.memory.jump.tolist() == [3, 1]
    _, state = MemoryModel(inputs=4, outputs=3, **options)(tokens, None, torch.tensor([6, 3]))
    assert state.memory.jump.tolist() == [6, 3]
    chunked, state = model(tokens[:, :4])
    assert_close(
        torch.cat([chunked, model(tokens[:, 4:], state)[0]], 1), model(tokens)[0], "chunks"
    )
    with pytest.raises(ShapeError, match=r"length_token: expected a symbol of 0\.\.3, got 4"):
        MemoryModel(inputs=4, outputs=3, length_token=4, **options)


def test_a_longer_input_gets_more_cells():
    memory = {"name": "rolling_tape", "slots": 12, "width": 3}
    model = MemoryModel(inputs=4, outputs=3, memory=memory)
    longer, cells = with_room(model, 30)
    slots = [each.sequence.layer.memory.slots for each in (longer, model)]
    assert (cells, slots) == (240, [240, 12])
    # A jump of up to 29 cells ends far from a step and from a jump back.
    for jump in range(5, 30):
        assert all(min(far % 240, -far % 240) > 1 for far in (jump - 1, jump + 1, 2 * jump))
    assert with_room(model, 8) == (model, None)
    tokens = torch.randint(4, (2, 2))  # too short to go around either ring
    assert_close(longer(tokens)[0], model(tokens)[0], "logits")


def test_choices_and_sizes():
    with pytest.raises(ShapeError, match="tapes"):
        RollingTape(8, 2, 0)
    with pytest.raises(ChoiceError, match="variant"):
        RollingTape(variant="papers")
    with pytest.raises(ChoiceError, match="activation"):
        RollingTape(activation="tan")
    assert repr(RollingTape()) == (
        "RollingTape(slots=256, width=8, tapes=1, variant='paper', activation='identity')"
    )
