from __future__ import annotations

import re

import pytest

import unbounded as ub
from tests.constructions import counter
from unbounded.errors import ConfigError
from unbounded.evaluation import ActionRow, action_rows
from unbounded.figures import draw_action_table, draw_actions, draw_run, read_actions
from unbounded.figures.actions import ACTION_COLOURS
from unbounded.memories import SuperpositionList, SuperpositionStack
from unbounded.models import discretized
from unbounded.tasks import make_task

DRAW = [draw_actions, draw_action_table]


def rows(text="abaabbaaabbba", count=2):
    return action_rows(discretized(counter(count)), make_task("anbn"), text)


@pytest.mark.parametrize("draw", DRAW)
def test_svg_and_the_same_bytes_again(draw, tmp_path):
    paths = draw(rows(), tmp_path / "figures", "work", title="A counter")
    assert [path.name for path in paths] == ["work.svg"]
    assert ">A counter<" in paths[0].read_text()
    again = draw(rows(), tmp_path / "again", "work", title="A counter")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_the_actions_are_named_and_so_are_the_symbols(tmp_path):
    text = draw_actions(rows(), tmp_path)[0].read_text()
    assert text.count(">a<") + text.count(">b<") == 13
    for label in ("PUSH", "POP", "input symbol of the step"):
        assert label in text
    assert "INSERT" not in text
    assert "NO-OP" not in text


def test_the_table_has_the_papers_columns_and_numbers(tmp_path):
    text = draw_action_table(rows("aabba", 1), tmp_path)[0].read_text()
    for cell in ("current", "next", "predicted", "p(next)", "action 1", "top 1", "0.50", "-1.00"):
        assert f">{cell}<" in text, cell
    assert (text.count(">PUSH<"), text.count(">POP<")) == (2, 3)


def test_every_action_of_every_memory_has_a_colour():
    for memory in (SuperpositionStack(1, noop=True), SuperpositionList(1)):
        assert set(memory.actions) <= set(ACTION_COLOURS)


def test_a_list_and_dollar_signs(tmp_path):
    actions = ["INSERT", "LEFT", "RIGHT", "NO-OP"]
    steps = [ActionRow("$x$", "$x$", "$", 0.5, (action,), (0.6,), (0.1,)) for action in actions]
    for draw in DRAW:
        text = draw(steps, tmp_path)[0].read_text()
        assert ">$x$<" in text
        assert all(action in text for action in actions)
    assert "LEFT 0.60" in text


@pytest.mark.parametrize("draw", DRAW)
def test_bad_input(draw, tmp_path):
    with pytest.raises(ConfigError, match="there is nothing to draw"):
        draw([], tmp_path)


def test_a_long_input_keeps_a_bounded_size_and_makes_no_table(tmp_path):
    many = rows("ab" * 100)
    (svg,) = draw_actions(many, tmp_path)
    text = svg.read_text()
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', text)
    assert width is not None
    assert float(width[1]) < 1152
    assert text.count(">a<") < 100
    with pytest.raises(ConfigError, match="200 are too many for a picture"):
        draw_action_table(many, tmp_path)


@pytest.mark.parametrize("memory", [ub.SuperpositionStack(3), ub.SuperpositionList(2, depth=1)])
@pytest.mark.parametrize("symbols", [True, False])
def test_a_trace_file_is_read_and_drawn(memory, symbols, layer_trace, tmp_path):
    trace = layer_trace(memory, [6, 4], symbols=symbols)
    arrays = trace.arrays
    steps = read_actions(trace, 1)
    assert [row.current for row in steps] == (
        [f"w1_{t}" for t in range(4)] if symbols else ["1", "2", "3", "4"]
    )
    chosen = arrays["instruction.action"][1, :4].argmax(-1)
    for row, actions, cells in zip(steps, chosen, memory.read(arrays["cells"][1]), strict=False):
        assert row.actions == tuple(memory.actions[action] for action in actions)
        assert row.tops == pytest.approx(tuple(cells[:: memory.depth].tolist()))
    assert "a dot" not in draw_actions(steps, tmp_path)[0].read_text()


def test_a_run_folder_of_a_stack_rnn_is_drawn(layer_trace, tmp_path):
    run = tmp_path / "run"
    (run / "traces").mkdir(parents=True)
    ub.save_trace(
        run / "traces" / "example.safetensors", layer_trace(ub.SuperpositionStack(2), [5])
    )
    assert [path.name for path in draw_run(run)] == ["example.svg"]


def test_other_traces_have_no_actions(layer_trace):
    with pytest.raises(ConfigError, match="expected actions, got a trace of NeuralStack"):
        read_actions(layer_trace(ub.NeuralStack(2), [3]))
    with pytest.raises(ConfigError, match="example: expected 0 to 1, got 2"):
        read_actions(layer_trace(ub.SuperpositionStack(2), [3, 2]), 2)
