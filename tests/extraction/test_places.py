"""Tapes and rows with keys: a golden network's machine is found again; soft places are named."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
import torch

from unbounded import machines
from unbounded.errors import ConfigError
from unbounded.extraction import extract, program_of, table_lines
from unbounded.extraction.memories import shape_of
from unbounded.extraction.words import long_words
from unbounded.memories import LieAccessMemory, TuringTape
from unbounded.tasks import TransductionTask, make_task

#: Task, its options, the machine, and states and symbols of what is found at the most.
CASES = {
    "copy_on_tape": ("copy", {"symbols": 3}, machines.copy_on_tape, 1, 3),
    "reversal_on_tape": ("reversal", {"symbols": 3}, machines.reversal_on_tape, 1, 3),
    "anbn_on_tape": ("anbn", {}, machines.anbn_on_tape, 1, 2),
    # Three states: the last symbol waits in the controller.
    "reversal_by_keys": ("reversal", {"symbols": 3}, machines.reversal_by_keys, 3, 4),
}


def extracted(name, **options):
    task, given, make, _, _ = CASES[name]
    task, model = make_task(task, **given), make(**given)
    symbols = 3 if isinstance(task, TransductionTask) else 2
    return task, model, extract(model, task, symbols=symbols, budget=1500, **options)


@pytest.mark.parametrize("name", CASES)
def test_a_golden_machine_is_found_again_and_its_program_equals_it(name, tmp_path):
    *_, states, symbols = CASES[name]
    task, model, found = extracted(name, lengths=[40])
    assert found.closed
    assert found.machine.states <= states
    assert len(found.machine.symbols[0]) <= symbols
    assert found.listed.equal == found.listed.words
    assert found.drawn[40].equal == found.drawn[40].words > 0
    path = tmp_path / "machine.py"
    path.write_text(program_of(found.machine, "a machine", found.shortest))
    assert "Any" not in path.read_text()
    words = long_words(task, 3, 25, 3, seed=7)
    says = model(words.inputs)[0].argmax(-1)
    for row, length in enumerate(words.lengths.tolist()):
        given = [f"#{token}" for token in words.inputs[row, :length].tolist()]
        command = [sys.executable, "-I", "-S", str(path), *given]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        said = [line.split("\t")[-1] for line in ran.stdout.splitlines()]
        for place in words.mask[row].nonzero()[:, 0].tolist():
            assert said[place] == found.machine.outputs[int(says[row, place])]


def test_the_table_says_where_the_heads_go():
    rows = {line[1:3]: line[3:5] for line in table_lines(extracted("copy_on_tape")[2].machine)[1:]}
    assert rows[("<s>", ".")] == ("read +1", "-")
    assert rows[("s0", ".")] == ("write +1 puts s0", "-")
    assert rows[("|||", "s1")] == ("read +1", "s1")
    assert rows[("said s1", "s2")] == ("read +1", "s2")
    lines = table_lines(extracted("reversal_by_keys")[2].machine)
    assert any(line[3] == "read by (1, 0), write by (1, 0) puts s1" for line in lines)
    assert any(line[3] == "read by (-1, 0)" for line in lines)


@pytest.mark.parametrize("reads", ["after", "before"])
@pytest.mark.parametrize("shift", ["circular", "zero"])
def test_a_tape_of_symbols_reads_what_the_tape_reads(shift, reads):
    """With gates of 0, shifts of one choice, and all of a cell erased before it is written."""
    drawn = random.Random(3)
    memory = TuringTape(slots=6, width=3, read_heads=2, write_heads=1, shift=shift, reads=reads)
    structure, state = shape_of(memory).new(), memory.initial_state(1)
    # A tape with two ends is entered from the one where the heads begin.
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
        told = memory.Instruction(
            *(zeros[:, :2, None].expand(1, 2, 3), zeros[:, :2], zeros[:, :2]),
            *(shifts[None, :2], 30 * ones[:, :2]),
            *(zeros[:, None], zeros[:, :1], zeros[:, :1], shifts[None, 2:], 30 * ones[:, :1]),
            *((ones * writes)[:, None], (value * writes)[None, None]),
        )
        reading, state = memory.step(state, told)
        structure.step(tuple(moves), (value if writes else None,))
        shown = [torch.full((3,), 1e-6) if row is None else row for row in structure.read()]
        torch.testing.assert_close(reading[0], torch.cat(shown), atol=1e-5, rtol=0)


def test_rows_with_keys_read_what_the_memory_reads():
    drawn = random.Random(4)
    memory = LieAccessMemory(width=3, step="free")
    structure, state = shape_of(memory).new(), memory.initial_state(1)
    taken: set[tuple[float, ...]] = set()
    writer, compared = (0.0, 0.0), 0
    for _ in range(80):
        actions, told = [], {}
        for who in ("read", "write"):
            how = drawn.choice(["by", "to"])
            point = (float(drawn.randint(-2, 2)), float(drawn.randint(-2, 2)))
            if who == "read" and taken and drawn.random() < 0.7:
                how, point = "to", drawn.choice(sorted(taken))
            actions.append((how, point))
            # A jump is a candidate key that nothing moves, a move one from where the head is.
            key, action = (point, (0.0, 0.0)) if how == "to" else ((0.0, 0.0), point)
            told[f"{who}_key"], told[f"{who}_action"] = torch.tensor([key]), torch.tensor([action])
            told[f"{who}_key_gate"] = torch.tensor([float(how == "to")])
            told[f"{who}_action_gate"] = torch.ones(1)
        how, point = actions[1]
        writer = point if how == "to" else (writer[0] + point[0], writer[1] + point[1])
        # Two rows at one key would be read as a mixture of both.
        writes = writer not in taken
        value = torch.rand(1, 3)
        told |= {"value": value, "strength": torch.tensor([float(writes)])}
        before = set(taken)
        reading, state = memory.step(state, memory.Instruction(**told))
        structure.step(tuple(actions), (value[0] if writes else None,))
        if writes:
            taken.add(writer)
        if structure.heads[0] in before:
            compared += 1
            torch.testing.assert_close(reading[0], structure.read()[0], atol=1e-5, rtol=0)
        if not before:
            assert structure.read() == (None,)
    assert compared > 20


def test_lookups_by_content_are_counted():
    model = machines.copy_on_tape(symbols=3)
    heads = model.sequence.layer.heads
    heads.weight[heads.rows("read_gate")] *= -1
    message = (
        r"its heads look a cell up by what it holds in (\d+) of \d+ moves \(gates of 1\), and 0 of "
        r"these come to one cell with 0\.999 of the weight"
    )
    with pytest.raises(ConfigError, match=message):
        extract(model, make_task("copy", symbols=3), budget=300)


def test_what_is_read_of_no_single_row_is_said():
    """The read head goes with the write head: what is put at a step cannot be read at it."""
    model = machines.reversal_by_keys(symbols=3)
    heads, names = model.sequence.layer.heads, ["answering", "reading", "following"]
    row = heads.weight[heads.rows("read_action")][0]
    row[names.index("reading")] = row[names.index("following")].clone()
    row[names.index("following")] = 0
    message = r"its heads are at no one place: in \d+ of \d+ moves the likeliest has less than 0\.9"
    with pytest.raises(ConfigError, match=message):
        extract(model, make_task("reversal", symbols=3), budget=300)
