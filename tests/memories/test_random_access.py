"""RAM and RAM/tape against plain Python, and their invariants."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbounded as ub
from tests.memories.toy import check_gradients, orders_with_holes, random_instructions
from tests.tolerances import assert_close
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError
from unbounded.memories import MEMORIES, Memory, RandomAccessMemory

DOUBLE = torch.float64
every_kind = pytest.mark.parametrize(
    ("tape", "sharpening"), list(itertools.product([False, True], repeat=2))
)


def oracle(rows, ahead, behind, instruction):
    """Read vector, rows, and the keys after and before the read rows; all lists of numbers."""
    key = instruction["read_key"]
    if "link" in instruction:
        links = [key, ahead, behind]
        key = [
            sum(c * link[j] for c, link in zip(instruction["link"], links, strict=True))
            for j in range(len(key))
        ]
    live = [row for row in rows if row[2] > 0]
    beta = instruction.get("sharpening", 1.0)
    scores = [beta * sum(q * k for q, k in zip(key, row[0], strict=True)) for row in live]
    powers = [
        row[2] * math.exp(score - max(scores)) for row, score in zip(live, scores, strict=True)
    ]
    weights = [power / sum(powers) for power in powers]
    read_vector = [
        sum(w * row[1][m] for w, row in zip(weights, live, strict=True))
        for m in range(len(instruction["value"]))
    ]
    size = range(len(key))
    ahead = [sum(w * live[i + 1][0][j] for i, w in enumerate(weights[:-1])) for j in size]
    behind = [sum(w * live[i][0][j] for i, w in enumerate(weights[1:])) for j in size]
    return (
        read_vector,
        [*rows, [instruction["write_key"], instruction["value"], instruction["strength"]]],
        ahead,
        behind,
    )


@every_kind
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_agrees_with_the_oracle(tape, sharpening, seed, steps):
    memory = RandomAccessMemory(2, 3, tape, sharpening)
    instructions = orders_with_holes(memory, 2, steps, seed)
    read_vectors, final = memory.unroll(instructions, None, "reference")
    for b in range(2):
        held = [], [0.0] * 3, [0.0] * 3
        for t in range(steps):
            instruction = {name: f[b, t].tolist() for name, f in instructions._asdict().items()}
            expected, *held = oracle(*held, instruction)
            assert_close(read_vectors[b, t], torch.tensor(expected, dtype=DOUBLE), "read_vector")
        if tape:
            assert final.forward_key[b].tolist() == pytest.approx(held[1], abs=1e-12)
            assert final.backward_key[b].tolist() == pytest.approx(held[2], abs=1e-12)


@every_kind
def test_gradcheck(tape, sharpening):
    memory = RandomAccessMemory(2, 2, tape, sharpening)
    check_gradients(memory, random_instructions(memory, 1, 4, 3), memory.initial_state(1, DOUBLE))


@every_kind
def test_trimmed_resumed_and_padded_sequences(tape, sharpening):
    memory = RandomAccessMemory(2, 3, tape, sharpening)
    instructions = orders_with_holes(memory, 2, 9, 5)
    expected, _ = memory.unroll(instructions, None, "reference")
    first, second = (
        memory.Instruction(*(field[:, part] for field in instructions))
        for part in (slice(5), slice(5, 9))
    )
    _, state = memory.unroll(first, None, "reference")
    fewer = memory.trim(state)
    assert fewer.keys.shape[1] < 5
    padded = memory.State(
        *(f.padded(x, 2) for f, x in zip(memory.state_fields, state, strict=True))
    )
    for start in (state, fewer, padded):
        assert_close(memory.unroll(second, start, "reference")[0], expected[:, 5:], "read_vectors")


def test_a_tape_reads_in_the_order_of_writing():
    memory = RandomAccessMemory(4, 4, tape=True, sharpening=True)
    eye, one = torch.eye(4, dtype=DOUBLE), torch.ones(1, dtype=DOUBLE)
    state = memory.initial_state(1, DOUBLE)
    here, onward, back = torch.eye(3, dtype=DOUBLE).unsqueeze(1)
    for row in eye:
        instruction = memory.Instruction(row[None], row[None], row[None], one, one, here)
        _, state = memory.step(state, instruction)
    read = []
    for link in (here, onward, onward, back):
        instruction = memory.Instruction(eye[:1], eye[:1], eye[:1], 0 * one, 60 * one, link)
        read_vector, state = memory.step(state, instruction)
        read.append(int(read_vector.argmax()))
    assert read == [0, 1, 2, 1]


@every_kind
def test_as_a_layer_with_a_learned_initial_state(tape, sharpening):
    memory = RandomAccessMemory(3, 2, tape, sharpening, initial="learned")
    layer = ub.MemoryRNN(2, 5, memory, backend="reference")
    output, state = layer(torch.randn(6, 3, 2), lengths=torch.tensor([6, 2, 4]))
    assert state.memory.keys.shape == (3, 7 + tape, 2)
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_a_memory_is_found_by_its_name_and_its_import_path():
    from unbounded.custom_components import find_part

    for name in ("ram", "unbounded.memories.RandomAccessMemory"):
        assert find_part("memory", name, MEMORIES, Memory) is RandomAccessMemory


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"width": 0}, ShapeError, "width: expected an integer >= 1, got 0"),
        ({"key_size": 0}, ShapeError, "key_size: expected an integer >= 1, got 0"),
        ({"tape": 1}, DTypeError, "tape: expected"),
        ({"sharpening": "x"}, DTypeError, "sharpening: expected"),
        ({"initial": "learnt"}, ChoiceError, "unknown initial 'learnt'. Did you mean 'learned'"),
        ({"strength_bias": "x"}, ConfigError, "strength_bias: expected a finite number"),
    ],
)
def test_invalid_options(options, error, message):
    with pytest.raises(error, match=message):
        RandomAccessMemory(**options)
