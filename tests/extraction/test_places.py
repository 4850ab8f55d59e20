"""Tapes and Lie-access memories: extraction of constructed networks; soft places are named."""

from __future__ import annotations

import random

import pytest
import torch

from tests.extraction.programs import assert_program_equals
from unbounded import constructions
from unbounded.errors import ConfigError
from unbounded.extraction import extract, table_lines
from unbounded.extraction.extract import long_strings
from unbounded.extraction.memories import shape_of
from unbounded.memories import LieAccessMemory, TuringTape
from unbounded.tasks import TransductionTask, make_task

#: Task, its options, the network, and the most states and symbols of its automaton.
CASES = {
    "copy_on_tape": ("copy", {"symbols": 3}, constructions.copy_on_tape, 1, 3),
    "reversal_on_tape": ("reversal", {"symbols": 3}, constructions.reversal_on_tape, 1, 3),
    "anbn_on_tape": ("anbn", {}, constructions.anbn_on_tape, 1, 2),
    # Three states: the last symbol waits in the controller.
    "reversal_by_keys": ("reversal", {"symbols": 3}, constructions.reversal_by_keys, 3, 4),
}


def extracted(name, **options):
    task, task_options, make, _, _ = CASES[name]
    task, model = make_task(task, **task_options), make(**task_options)
    symbols = 3 if isinstance(task, TransductionTask) else 2
    return task, model, extract(model, task, symbols=symbols, budget=1500, **options)


@pytest.mark.parametrize("name", CASES)
def test_a_constructed_networks_automaton_and_program_equal_it(name, tmp_path):
    *_, states, symbols = CASES[name]
    task, model, extraction = extracted(name, lengths=[40])
    assert extraction.closed
    assert extraction.automaton.states <= states
    assert len(extraction.automaton.symbols[0]) <= symbols
    assert extraction.listed.equal == extraction.listed.strings
    assert extraction.drawn[40].equal == extraction.drawn[40].strings > 0
    path = tmp_path / "automaton.py"
    strings = long_strings(task, 3, 25, 3, seed=7)
    assert_program_equals(extraction, model, strings, path)
    assert "Any" not in path.read_text()


def test_the_table_has_the_heads_moves():
    rows = {
        line[1:3]: line[3:5] for line in table_lines(extracted("copy_on_tape")[2].automaton)[1:]
    }
    assert rows[("<s>", ".")] == ("read +1", "-")
    assert rows[("s0", ".")] == ("write +1 puts s0", "-")
    assert rows[("|||", "s1")] == ("read +1", "s1")
    assert rows[("output s1", "s2")] == ("read +1", "s2")
    lines = table_lines(extracted("reversal_by_keys")[2].automaton)
    assert any(line[3] == "read by (1, 0), write by (1, 0) puts s1" for line in lines)
    assert any(line[3] == "read by (-1, 0)" for line in lines)


@pytest.mark.parametrize("reads", ["after", "before"])
@pytest.mark.parametrize("shift", ["circular", "zero"])
def test_an_extracted_tape_has_the_read_vectors_of_the_memory(shift, reads):
    """With gates of 0, one-hot shifts, and cells fully erased before a write."""
    drawn = random.Random(3)
    memory = TuringTape(slots=6, width=3, read_heads=2, write_heads=1, shift=shift, reads=reads)
    structure, state = shape_of(memory).new(), memory.initial_state(1)
    # A tape with two ends starts with the heads at one of them.
    place = [0, 0, 0]
    for _ in range(60):
        moves = []
        for head in range(3):
            most = 1 if shift == "circular" or place[head] < 5 else 0
            least = -1 if shift == "circular" or place[head] > 0 else 0
            moves.append(drawn.randint(least, most))
            place[head] += moves[-1]
        writes = drawn.random() < 0.6
        value = torch.rand(3)
        shifts = torch.nn.functional.one_hot(torch.tensor(moves) + 1, 3).float()
        zeros, ones = torch.zeros(1, 3), torch.ones(1, 3)
        fields = memory.Instruction(
            *(zeros[:, :2, None].expand(1, 2, 3), zeros[:, :2], zeros[:, :2]),
            *(shifts[None, :2], 30 * ones[:, :2]),
            *(zeros[:, None], zeros[:, :1], zeros[:, :1], shifts[None, 2:], 30 * ones[:, :1]),
            *((ones * writes)[:, None], (value * writes)[None, None]),
        )
        read_vector, state = memory.step(state, fields)
        structure.step(tuple(moves), (value if writes else None,))
        shown = [torch.full((3,), 1e-6) if row is None else row for row in structure.read()]
        torch.testing.assert_close(read_vector[0], torch.cat(shown), atol=1e-5, rtol=0)


def test_extracted_rows_with_keys_have_the_read_vectors_of_the_memory():
    drawn = random.Random(4)
    memory = LieAccessMemory(width=3, step="free")
    structure, state = shape_of(memory).new(), memory.initial_state(1)
    taken: set[tuple[float, ...]] = set()
    writer, compared = (0.0, 0.0), 0
    for _ in range(80):
        actions, fields = [], {}
        for who in ("read", "write"):
            how = drawn.choice(["by", "to"])
            point = (float(drawn.randint(-2, 2)), float(drawn.randint(-2, 2)))
            if who == "read" and taken and drawn.random() < 0.7:
                how, point = "to", drawn.choice(sorted(taken))
            actions.append((how, point))
            # A jump is an unmoved candidate key; a move starts at the head's place.
            key, action = (point, (0.0, 0.0)) if how == "to" else ((0.0, 0.0), point)
            fields[f"{who}_key"], fields[f"{who}_action"] = (
                torch.tensor([key]),
                torch.tensor([action]),
            )
            fields[f"{who}_key_gate"] = torch.tensor([float(how == "to")])
            fields[f"{who}_action_gate"] = torch.ones(1)
        how, point = actions[1]
        writer = point if how == "to" else (writer[0] + point[0], writer[1] + point[1])
        # Two rows at one key would be read as a mixture of both.
        writes = writer not in taken
        value = torch.rand(1, 3)
        fields |= {"value": value, "strength": torch.tensor([float(writes)])}
        before = set(taken)
        read_vector, state = memory.step(state, memory.Instruction(**fields))
        structure.step(tuple(actions), (value[0] if writes else None,))
        if writes:
            taken.add(writer)
        if structure.heads[0] in before:
            compared += 1
            torch.testing.assert_close(read_vector[0], structure.read()[0], atol=1e-5, rtol=0)
        if not before:
            assert structure.read() == (None,)
    assert compared > 20


def test_lookups_by_content_are_counted():
    model = constructions.copy_on_tape(symbols=3)
    heads = model.sequence.layer.layers[0].heads
    heads.weight[heads.rows("read_gate")] *= -1
    message = (
        r"its heads address a cell by content in (\d+) of \d+ moves \(gates of 1\), and 0 of "
        r"these reach a single cell with 0\.999 of the weight"
    )
    with pytest.raises(ConfigError, match=message):
        extract(model, make_task("copy", symbols=3), budget=300)


def test_a_mixed_read_vector_is_refused():
    """The read head follows the write head: a row cannot be read at the step of its write."""
    model = constructions.reversal_by_keys(symbols=3)
    heads, names = model.sequence.layer.layers[0].heads, ["answering", "read_vector", "following"]
    row = heads.weight[heads.rows("read_action")][0]
    row[names.index("read_vector")] = row[names.index("following")].clone()
    row[names.index("following")] = 0
    message = (
        r"its heads are not at single places: in \d+ of \d+ moves the likeliest cell has less than"
    )
    with pytest.raises(ConfigError, match=message):
        extract(model, make_task("reversal", symbols=3), budget=300)
