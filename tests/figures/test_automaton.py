"""The figure of an extracted automaton: its states, and its cases in columns."""

from __future__ import annotations

from unbounded import constructions
from unbounded.extraction import extract
from unbounded.figures import draw_automaton
from unbounded.figures.automaton import MOST_STATES
from unbounded.tasks import make_task


def test_cases_are_in_columns(tmp_path):
    automaton = extract(constructions.anbn(), make_task("anbn"), budget=200).automaton
    (svg,) = draw_automaton(automaton, tmp_path, title="an automaton")
    text = svg.read_text(encoding="utf-8").replace("\u00a0", "_")
    assert ">q0</text>" in text
    lines = [line.split(">")[1].split("<")[0] for line in text.splitlines() if "_/_" in line]
    assert len(lines) == len(automaton.table) == 6
    assert len({line.index("_/_") for line in lines}) == 1
    assert len({line.index("_:_") for line in lines if "_:_" in line}) == 1


def test_more_states_than_a_figure_shows(tmp_path):
    automaton = extract(constructions.anbn(), make_task("anbn"), budget=200).automaton
    assert draw_automaton(automaton._replace(states=MOST_STATES + 1), tmp_path) == []
    assert list(tmp_path.iterdir()) == []
