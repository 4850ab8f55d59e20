"""The picture of an extracted machine: its states, and each case in columns that stay columns."""

from __future__ import annotations

from unbounded import machines
from unbounded.extraction import extract
from unbounded.figures import draw_machine
from unbounded.figures.machine import MOST_STATES
from unbounded.tasks import make_task


def test_cases_stand_in_columns(tmp_path):
    machine = extract(machines.anbn(), make_task("anbn"), budget=200).machine
    png, svg = draw_machine(machine, tmp_path, title="a machine")
    assert png.stat().st_size > 0
    text = svg.read_text(encoding="utf-8").replace("\u00a0", "_")
    assert ">q0</text>" in text
    lines = [line.split(">")[1].split("<")[0] for line in text.splitlines() if "_/_" in line]
    assert len(lines) == len(machine.table) == 6
    assert len({line.index("_/_") for line in lines}) == 1
    assert len({line.index("_:_") for line in lines if "_:_" in line}) == 1


def test_more_states_than_a_picture_shows(tmp_path):
    machine = extract(machines.anbn(), make_task("anbn"), budget=200).machine
    assert draw_machine(machine._replace(states=MOST_STATES + 1), tmp_path) == []
    assert list(tmp_path.iterdir()) == []
