"""The automata in results/exact: their programs do the tasks, and the page describes them."""

from __future__ import annotations

import json
import random
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AUTOMATA = ROOT / "results" / "exact" / "automata"
PAGE = (ROOT / "docs" / "extracted.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"automata/([\w-]+)/automaton\.svg", PAGE)
ORDERS = {"copy": lambda source: source, "reversal": lambda source: source[::-1]}


def outputs_of(program, string):
    """The output after each input, by name; None where no output is judged."""
    numbers = [program["INPUTS"].index(name) for name in string]
    steps = program["run"](numbers)
    assert len(steps) == len(string)
    return [None if step[3] is None else program["OUTPUTS"][step[3]] for step in steps]


def test_the_page_shows_one_of_each():
    assert [name.split("-")[0] for name in SHOWN] == ["copy", "reversal", "anbn"]


@pytest.mark.parametrize("name", SHOWN)
def test_the_program_does_the_task_in_plain_python(name):
    program, drawn = runpy.run_path(str(AUTOMATA / name / "automaton.py")), random.Random(1)
    task = name.split("-")[0]
    for length in (2, 5, 40, 1000):
        if task == "anbn":
            string = ["b", *"a" * length, *"b" * length]
            expected = [*"b" * (length - 1), "a"]
            assert outputs_of(program, string)[-length:] == expected
            continue
        source = [drawn.choice(["s0", "s1"]) for _ in range(length)]
        target = ORDERS[task](source)
        string = ["<s>", *source, "|||", *(f"output {symbol}" for symbol in target)]
        assert outputs_of(program, string)[length + 1 :] == [*target, "</s>"]


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_has_the_numbers_of_the_automaton(name):
    data = json.loads((AUTOMATA / name / "automaton.json").read_text(encoding="utf-8"))
    assert data["closed"]
    assert data["listed"]["equal"] == data["listed"]["strings"]
    assert f"{data['listed']['strings']} of {data['listed']['strings']} strings" in PAGE or (
        f"{data['listed']['strings']} strings with {data['prefixes']} prefixes" in PAGE
    )
    for length, each in data["drawn"].items():
        assert each["equal"] == each["strings"]
        assert re.search(rf"\b{length}\b", PAGE)
    files = {path.name for path in (AUTOMATA / name).iterdir()}
    assert files == {f"automaton.{end}" for end in ("svg", "txt", "dot", "py", "json")}


def test_no_file_contains_a_local_path():
    for path in AUTOMATA.rglob("automaton.*"):
        assert not re.search(r"/(root|home|tmp|Users)/", path.read_text(encoding="utf-8")), path
