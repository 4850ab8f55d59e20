"""The automata in results/exact: their programs do the tasks, and the page describes them."""

from __future__ import annotations

import json
import random
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MACHINES = ROOT / "results" / "exact" / "automata"
PAGE = (ROOT / "docs" / "extracted.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"automata/([\w-]+)/automaton\.svg", PAGE)
ORDERS = {"copy": lambda source: source, "reversal": lambda source: source[::-1]}


def said(program, word):
    """What is said of inputs by name, step by step; None where nothing was ever asked for."""
    numbers = [program["INPUTS"].index(name) for name in word]
    steps = program["run"](numbers)
    assert len(steps) == len(word)
    return [None if step[3] is None else program["OUTPUTS"][step[3]] for step in steps]


def test_the_page_shows_one_of_each():
    assert [name.split("-")[0] for name in SHOWN] == ["copy", "reversal", "anbn"]


@pytest.mark.parametrize("name", SHOWN)
def test_the_program_does_the_task_in_plain_python(name):
    program, drawn = runpy.run_path(str(MACHINES / name / "automaton.py")), random.Random(1)
    task = name.split("-")[0]
    for length in (2, 5, 40, 1000):
        if task == "anbn":
            word = ["b", *"a" * length, *"b" * length]
            expected = [*"b" * (length - 1), "a"]
            assert said(program, word)[-length:] == expected
            continue
        source = [drawn.choice(["s0", "s1"]) for _ in range(length)]
        target = ORDERS[task](source)
        word = ["<s>", *source, "|||", *(f"said {symbol}" for symbol in target)]
        assert said(program, word)[length + 1 :] == [*target, "</s>"]


@pytest.mark.parametrize("name", SHOWN)
def test_the_page_says_what_the_machine_says(name):
    data = json.loads((MACHINES / name / "automaton.json").read_text(encoding="utf-8"))
    assert data["closed"]
    assert data["listed"]["equal"] == data["listed"]["words"]
    assert f"{data['listed']['words']} of {data['listed']['words']} strings" in PAGE or (
        f"{data['listed']['words']} strings with {data['beginnings']} prefixes" in PAGE
    )
    for length, each in data["drawn"].items():
        assert each["equal"] == each["words"]
        assert re.search(rf"\b{length}\b", PAGE)
    files = {path.name for path in (MACHINES / name).iterdir()}
    assert files == {f"automaton.{end}" for end in ("svg", "txt", "dot", "py", "json")}


def test_no_file_names_a_folder_of_a_machine():
    for path in MACHINES.rglob("automaton.*"):
        assert not re.search(r"/(root|home|tmp|Users)/", path.read_text(encoding="utf-8")), path
