"""The automaton of a constructed network is extracted and agrees; a wrong one is refused."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections import deque

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.extraction.programs import assert_program_equals
from tests.sweep import sweep
from tests.verification.runs import constructed_run, softened
from unbounded import constructions
from unbounded.cli import main
from unbounded.errors import ConfigError
from unbounded.experiments.run.extraction import summary
from unbounded.extraction import agreement, extract, program_of, table_lines
from unbounded.extraction.automaton import automaton_of
from unbounded.extraction.extract import listed_strings, long_strings
from unbounded.extraction.memories import Lists, Queue, Stack, Stacks, shape_of
from unbounded.extraction.observation import observe
from unbounded.extraction.refinement import refine
from unbounded.memories import MEMORIES, SuperpositionList, SuperpositionStack
from unbounded.models import MemoryModel
from unbounded.tasks import make_task

#: Task and options, and the least states and symbols of its constructed network.
CASES = {
    "anbn": ({}, 1, [1]),
    "anbncn": ({}, 1, [1, 1]),
    "anb2n": ({}, 2, [1]),
    "anbmcndm": ({}, 1, [1, 1]),
    # Which of its tops matters depends on its direction: none of them separates the cases.
    "anbmc_product": ({}, 4, [2, 2, 2]),
    "copy": ({"symbols": 3}, 1, [3]),
    "reversal": ({"symbols": 3}, 1, [3]),
    "bigram_flip": ({"symbols": 2}, 4, [2]),
    "memorization": ({}, 2, [2]),
    "dyck": ({}, 2, [2]),
}
#: Extraction from these two languages takes longest.
SLOW_CASES = ("anb2n", "anbmc_product")


def extracted(name, **options):
    task_options, _, _ = CASES[name]
    task = make_task(name, **task_options)
    alphabet = task_options.get("symbols", 2)
    model = constructions.CONSTRUCTIONS[name](**task_options)
    return task, model, extract(model, task, symbols=alphabet, budget=1500, **options)


@pytest.mark.parametrize("name", sweep(CASES, fast=lambda name: name not in SLOW_CASES))
def test_a_constructed_networks_automaton_is_extracted(name):
    _, states, symbols = CASES[name]
    _, model, extraction = extracted(name, lengths=[24])
    assert extraction.closed
    assert extraction.determined == 1.0
    assert extraction.automaton.states <= states
    assert [len(names) for names in extraction.automaton.symbols] == symbols
    assert extraction.listed.equal == extraction.listed.strings
    assert extraction.drawn[24].equal == extraction.drawn[24].strings > 0
    assert extraction.example is None
    assert extraction.automaton.states < model.sequence.layer.hidden_size


def test_an_extraction_shows_its_progress():
    shown: list[tuple[str, float]] = []
    extracted("reversal", lengths=[20], look=lambda name, share: shown.append((name, share)))
    shares = [share for _, share in shown]
    assert shares == sorted(shares)
    names = [name for name, _ in shown]
    assert names.count("running the strings") > 3
    assert "finding states and symbols, 2 so far" in names
    assert [*names[-2:]] == ["comparing", "comparing at length 20"]


def test_the_automaton_of_binary_addition_has_a_carry():
    """Two of its four stacks mark which digits are there, which an empty one shows too.

    Two zeros with a carry after a 1 come in sums of eight digits first: a case is missing.
    """
    task, model = make_task("binary_addition"), constructions.binary_addition()
    extraction = extract(model, task, budget=1500, lengths=[40])
    assert extraction.closed
    assert extraction.automaton.states <= 6
    assert [len(names) for names in extraction.automaton.symbols] == [2, 2]
    assert extraction.automaton.shape.actions == ("stack 1", "stack 3")
    assert extraction.listed.equal == extraction.listed.strings
    assert extraction.drawn[40].left > 0
    assert (
        extraction.drawn[40].equal + extraction.drawn[40].left == extraction.drawn[40].strings == 20
    )


@pytest.mark.parametrize("name", ["anbn", "copy", "dyck", "memorization"])
def test_the_program_equals_its_network(name, tmp_path):
    task, model, extraction = extracted(name)
    strings = long_strings(task, CASES[name][0].get("symbols", 2), 12, 4, seed=7)
    assert_program_equals(extraction, model, strings, tmp_path / "automaton.py")


@pytest.fixture(scope="module")
def copying():
    return extracted("copy")[2]


@pytest.mark.parametrize(
    ("string", "code", "message"),
    [
        (["s0", "|||", "|||", "s1"], 1, "the table has no case"),
        *((["s0", name], 2, f"no such input: {name}\ninputs are: <s> ") for name in ("zz", "#x")),
        (["s0", "#99"], 2, "no such input: #99\ninputs are: <s> "),
    ],
)
def test_a_program_names_a_case_or_an_input_that_it_does_not_have(
    copying, tmp_path, string, code, message
):
    path = tmp_path / "automaton.py"
    path.write_text(program_of(copying.automaton, "a machine", copying.shortest))
    command = [sys.executable, "-I", "-S", str(path), *string]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (code, "")
    assert message in ran.stdout


def test_a_title_cannot_inject_code_into_a_program(copying, tmp_path):
    path = tmp_path / "automaton.py"
    title = 'copy \\"""; print("INJECTED"); """'
    path.write_text(program_of(copying.automaton, title, copying.shortest))
    command = [sys.executable, str(path), "s0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, "INJECTED" in ran.stdout) == (0, False)
    assert runpy.run_path(str(path))["__doc__"].startswith(title)


def test_states_that_close_on_short_strings_alone_are_reported():
    task = make_task("dyck", kinds=2)
    extraction = extract(constructions.dyck(kinds=2), task, lengths=[20])
    assert (extraction.closed, extraction.drawn[20].equal) == (True, 0)
    assert "but longer strings do not" in "\n".join(summary(extraction))
    extraction = extract(constructions.dyck(kinds=2), task, budget=100_000, lengths=[20])
    assert extraction.drawn[20].equal == extraction.drawn[20].strings
    assert "go otherwise" not in "\n".join(summary(extraction))


def test_an_output_that_depends_on_the_same_steps_read_vector_is_refused():
    model = MemoryModel(
        inputs=8, outputs=4, memory={"name": "stack", "width": 3}, output_read_vector=True
    )
    with pytest.raises(
        ConfigError, match="with output_read_vector its output depends on the read vector"
    ):
        extract(model, make_task("copy", symbols=3), symbols=3, budget=100)


def test_a_wrong_automaton_is_refused(copying):
    automaton, model = copying.automaton, constructions.copy(symbols=3)
    strings, _ = listed_strings(make_task("copy", symbols=3), 3, 2500)
    right = agreement(automaton, model, strings)
    assert right.equal == right.strings
    case, step = next(each for each in automaton.table.items() if each[1].output not in (None, 0))
    changed = {**automaton.table, case: step._replace(output=0)}
    other = agreement(automaton._replace(table=changed), model, strings)
    assert other.equal < other.strings
    assert other.first is not None
    fewer = {key: value for key, value in automaton.table.items() if key != case}
    less = agreement(automaton._replace(table=fewer), model, strings)
    assert less.left > 0
    assert less.equal == other.equal


@pytest.mark.parametrize("most", [3, 6])
def test_with_too_few_classes_the_determined_share_is_reported(most):
    """Only the carry of the sum needs two states, and four stacks need six symbols."""
    strings, _ = listed_strings(make_task("binary_addition"), 2, 400)
    seen = observe(constructions.binary_addition(), strings)
    classes = refine(seen, most)
    assert not classes.closed
    assert 0.3 < classes.determined < 1.0
    automaton = automaton_of(seen, classes, "+=.01", "+=.01")
    there = agreement(automaton, constructions.binary_addition(), strings)
    assert there.equal < there.strings


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), max_size=12))
def test_stack_and_queue_against_collections_deque(steps):
    for structure, take in ((Stack, deque.pop), (Queue, deque.popleft)):
        memory, rows = structure(), deque()
        for number, (push, pop) in enumerate(steps):
            memory.step((push, pop), (number,))
            if pop and rows:
                take(rows)
            if push:
                rows.append(number)
            shown = (rows[-1] if structure is Stack else rows[0]) if rows else None
            assert memory.read() == (shown,)


@pytest.mark.parametrize("name", ["stack", "queue", "deque"])
def test_extracted_structures_have_the_read_vectors_of_the_memory(name):
    """With strengths of 0 and 1 each read vector is a written row."""
    torch.manual_seed(1)
    memory = MEMORIES[name](width=3)
    structure = shape_of(memory).new()
    state = memory.initial_state(1)
    ends = 2 if name == "deque" else 1
    for _ in range(40):
        values = torch.rand(ends, 3)
        bits = torch.randint(2, (ends, 2))
        fields = [f for k in range(ends) for f in (values[k : k + 1], bits[k, :1], bits[k, 1:])]
        instruction = memory.Instruction(*(field.float() for field in fields))
        read_vector, state = memory.step(state, instruction)
        structure.step(tuple(bits.flatten().tolist()), tuple(values))
        shown = [torch.zeros(3) if row is None else row for row in structure.read()]
        torch.testing.assert_close(read_vector[0], torch.cat(shown))


@pytest.mark.parametrize("kind", [SuperpositionStack, SuperpositionList])
def test_extracted_superpositions_have_the_read_vectors_of_the_memory(kind):
    torch.manual_seed(2)
    memory = kind(count=2, depth=2, noop=True)
    structure = shape_of(memory).new()
    assert isinstance(structure, Stacks | Lists)
    state = memory.initial_state(1)
    for _ in range(60):
        chosen = torch.randint(len(memory.actions), (2,))
        action = torch.nn.functional.one_hot(chosen, len(memory.actions)).float()
        value = torch.rand(1, 2)
        read_vector, state = memory.step(state, memory.Instruction(action[None], value))
        structure.step(tuple(memory.actions[k] for k in chosen.tolist()), tuple(value[0].tolist()))
        shown = [-1.0 if cell is None else cell for cell in structure.read()]
        torch.testing.assert_close(read_vector[0], torch.tensor(shown))


def test_strings_of_fewer_symbols_keep_the_vocabulary_of_the_task():
    task = make_task("copy", symbols=9)
    strings = long_strings(task, 2, 5, 6, seed=1)
    for row in range(6):
        tokens = strings.inputs[row].tolist()
        assert tokens[0] == 0
        assert tokens[6] == 1
        assert [token - 2 for token in tokens[1:6]] == [token - 11 for token in tokens[7:12]]
        assert set(tokens[1:6]) <= {2, 3}
        assert strings.targets[row][strings.mask[row]].tolist() == [
            *(t - 1 for t in tokens[1:6]),
            0,
        ]


def test_bad_input(tmp_path):
    task = make_task("anbn")
    soft = softened(constructions.anbn(), 0.9, "action")
    with pytest.raises(
        ConfigError, match=r"action has certainty 0\.9000 at least.*unbounded harden"
    ):
        extract(soft, task)
    learned = {"name": "turing_tape", "initial_weights": "learned"}
    drawn = {"name": "turing_tape", "initial_cells": "random"}
    turning = {"name": "lie_access", "group": "rotation"}
    with_row = {"name": "lie_access", "initial": "learned"}
    for memory, message in (
        ("none", "a model without a memory is not an automaton over symbols"),
        (
            {"name": "superposition_stack", "width": 3},
            r"expected cells that are numbers \(width=1\), got SuperpositionStack",
        ),
        (
            learned,
            "TuringTape.* is not an automaton over symbols: its heads have no single initial place",
        ),
        (drawn, "TuringTape.*: its initial cells are drawn for each string"),
        (turning, "LieAccessMemory.*: its heads move by the group rotation, not by addition"),
        (with_row, "LieAccessMemory.*: it has an initial row, or drops rows"),
    ):
        model = MemoryModel(inputs=2, outputs=2, memory=memory, hidden_size=4, embedding_size=None)
        with pytest.raises(ConfigError, match=message):
            extract(model, task)
    with pytest.raises(ConfigError, match=r"'ntm_copy' answers with vectors of bits.*extracted:"):
        extract(soft, make_task("ntm_copy"))
    with pytest.raises(ConfigError, match="'programs' has no rule from which its strings"):
        extract(soft, make_task("programs"))
    with pytest.raises(ConfigError, match="alphabet: expected at most 3, the symbols of a source"):
        extract(constructions.copy(symbols=3), make_task("copy", symbols=3), symbols=4)
    with pytest.raises(ConfigError, match="cannot be listed within 1 symbols"):
        extract(constructions.dyck(), make_task("dyck"), budget=1)


def test_the_command(tmp_path, capsys):
    run = constructed_run(tmp_path, "anbn")
    assert main(["extract", str(run), "--lengths", "40", "--symbols", "300"]) == 0
    out = capsys.readouterr().out
    assert "1 state, 1 symbol, 6 cases" in out
    assert "the states close: every step of these strings follows the table" in out
    assert "equal to the network on 1 of 1 random strings of length 40" in out
    for name in ("automaton.py", "automaton.dot", "automaton.svg", "automaton.txt"):
        assert (run / "automaton" / name).stat().st_size > 0
    data = json.loads((run / "automaton" / "automaton.json").read_text())
    assert (data["format"], data["closed"], data["weights"]) == (
        "unbounded-automaton",
        True,
        "model",
    )
    assert len(data["table"]) == 6
    dot = (run / "automaton" / "automaton.dot").read_text()
    assert dot.startswith("digraph automaton {")
    assert "q0 -> q0" in dot


def test_the_empty_string_is_extracted_and_verified(tmp_path, capsys):
    run = constructed_run(tmp_path, "flare", {"language": "parity"}, language="parity")
    assert main(["verify", str(run), "--most", "3", "--times", "0"]) == 0
    assert "of length 0 to 3" in capsys.readouterr().out.replace(":", " to ")
    assert main(["extract", str(run), "--symbols", "200"]) == 0
    assert "equal to the network on" in capsys.readouterr().out
    assert listed_strings(make_task("flare", language="parity"), 2, 50)[0].lengths.min() == 1
    report = json.loads((run / "verification-model.json").read_text())
    assert (report["correct_up_to"], report["first_error"]) == (3, None)


def test_the_table_has_the_actions(copying):
    lines = table_lines(copying.automaton)
    assert lines[0] == ("state", "input", "reads", "actions", "output", "next", "seen")
    rows = {(line[1], line[2]): line[3:5] for line in lines[1:]}
    assert rows[("s0", ".")] == ("push s0", "-")
    assert rows[("|||", "s1")] == ("pop", "s1")
    assert rows[("output s0", "s2")] == ("pop", "s2")
    assert rows[("output s0", ".")] == ("-", "</s>")


def test_a_wrong_program_is_refused(tmp_path, capsys):
    run = constructed_run(tmp_path, "copy", {"symbols": 3}, symbols=3)
    options = ["--alphabet", "3", "--symbols", "900", "--lengths", "20"]
    assert main(["extract", str(run), *options]) == 0
    program = run / "automaton" / "automaton.py"
    before = {path.name: path.read_bytes() for path in program.parent.iterdir()}
    capsys.readouterr()
    assert main(["extract", str(run), *options, "--check", str(program)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"equal to the network on (\d+) of \1: every string to length \d", out)
    assert "equal to the network on 20 of 20: drawn strings of length 20" in out
    assert "refused" not in out
    # The output of one case is changed.
    text = program.read_text()
    case = next(line for line in text.splitlines() if line.endswith(", 2),"))
    wrong = tmp_path / "wrong.py"
    wrong.write_text(text.replace(case, f"{case.removesuffix(', 2),')}, 1),"))
    assert main(["extract", str(run), *options, "--check", str(wrong)]) == 1
    out = capsys.readouterr().out
    assert "refused: the program differs from this network, for example on: <s>" in out
    assert {path.name: path.read_bytes() for path in program.parent.iterdir()} == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "program: there is no file"),
        ("raise SystemExit(0)", "does not run: SystemExit"),
        ("1 / 0", "does not run: ZeroDivisionError"),
        ("INPUTS = OUTPUTS = ()", "is not an extracted program: it has no 'run'"),
        ("INPUTS = OUTPUTS = ('a',)\nrun = list", "expected the 2 INPUTS of task 'anbn', a ... b"),
        ("INPUTS = OUTPUTS = ('a', 'b')\nrun = list", "its run failed on a string: TypeError"),
        ("INPUTS = OUTPUTS = ('a', 'b')\nrun = exit", "its run failed on a string: SystemExit"),
    ],
)
def test_an_invalid_program_file_is_an_error(tmp_path, capsys, text, message):
    run = constructed_run(tmp_path, "anbn")
    program = tmp_path / "program.py"
    if text is not None:
        program.write_text(text)
    assert main(["extract", str(run), "--lengths", "5", "--check", str(program)]) == 2
    assert message in capsys.readouterr().err
