from __future__ import annotations

import pytest

from tests.machines import counter
from unbounded.errors import ConfigError
from unbounded.evaluation import ActionRow, action_rows
from unbounded.figures import draw_action_table, draw_actions
from unbounded.figures.actions import ACTION_COLOURS
from unbounded.memories import SuperpositionList, SuperpositionStack
from unbounded.models import discretized
from unbounded.tasks import make_task

DRAW = [draw_actions, draw_action_table]


def rows(text="abaabbaaabbba", count=2):
    return action_rows(discretized(counter(count)), make_task("anbn"), text)


@pytest.mark.parametrize("draw", DRAW)
def test_png_and_svg_and_the_same_bytes_again(draw, tmp_path):
    paths = draw(rows(), tmp_path / "figures", "work", title="A counter")
    assert [path.name for path in paths] == ["work.png", "work.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert paths[0].stat().st_size > 10_000
    assert ">A counter<" in paths[1].read_text()
    again = draw(rows(), tmp_path / "again", "work", title="A counter")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_the_actions_are_named_and_so_are_the_symbols(tmp_path):
    text = draw_actions(rows(), tmp_path)[1].read_text()
    assert text.count(">a<") + text.count(">b<") == 12
    for label in ("PUSH", "POP", "input symbol of the step"):
        assert label in text
    assert "INSERT" not in text
    assert "NO-OP" not in text


def test_the_table_has_the_papers_columns_and_numbers(tmp_path):
    text = draw_action_table(rows("aabba", 1), tmp_path)[1].read_text()
    for cell in ("current", "next", "predicted", "p(next)", "action 1", "top 1", "0.50", "-1.00"):
        assert f">{cell}<" in text, cell
    assert text.count(">PUSH<") == text.count(">POP<") == 2


def test_every_action_of_every_memory_has_a_colour():
    for memory in (SuperpositionStack(1, noop=True), SuperpositionList(1)):
        assert set(memory.actions) <= set(ACTION_COLOURS)


def test_a_list_and_dollar_signs(tmp_path):
    actions = ["INSERT", "LEFT", "RIGHT", "NO-OP"]
    steps = [ActionRow("$x$", "$x$", "$", 0.5, (action,), (0.6,), (0.1,)) for action in actions]
    for draw in DRAW:
        text = draw(steps, tmp_path)[1].read_text()
        assert ">$x$<" in text
        assert all(action in text for action in actions)
    assert "LEFT 0.60" in text


@pytest.mark.parametrize("draw", DRAW)
def test_bad_input(draw, tmp_path):
    with pytest.raises(ConfigError, match="there is nothing to draw"):
        draw([], tmp_path)


def test_a_long_input_keeps_a_bounded_size_and_makes_no_table(tmp_path):
    many = rows("ab" * 100)
    png, svg = draw_actions(many, tmp_path)
    assert int.from_bytes(png.read_bytes()[16:20], "big") < 2400
    assert svg.read_text().count(">a<") < 100
    with pytest.raises(ConfigError, match="199 are too many for a picture"):
        draw_action_table(many, tmp_path)
