from __future__ import annotations

import re

import pytest

import unbounded as ub
from unbounded.errors import ChoiceError, ConfigError
from unbounded.figures import draw_memory, draw_worked_example


@pytest.mark.parametrize("memory", [ub.NeuralStack(4), ub.NeuralQueue(4), ub.NeuralDeque(4)])
def test_svg_with_every_symbol_as_text(memory, layer_trace, tmp_path):
    paths = draw_memory(layer_trace(memory, [9, 5]), tmp_path / "figures", "work", example=0)
    assert [path.name for path in paths] == ["work.svg"]
    (svg,) = paths
    text = svg.read_text()
    for step in range(9):
        assert f">w0_{step}<" in text
    assert f"{type(memory).__name__} at work" in text
    for field in memory.Instruction._fields:
        assert (f">{field.replace('_', ' ')}<" in text) == ("value" not in field)


def test_the_same_trace_gives_the_same_bytes(layer_trace, tmp_path):
    trace = layer_trace(ub.NeuralDeque(4), [6])
    first = [path.read_bytes() for path in draw_memory(trace, tmp_path / "a")]
    second = [path.read_bytes() for path in draw_memory(trace, tmp_path / "b")]
    assert first == second


def test_a_long_sequence_keeps_a_bounded_size_and_names_some_symbols(layer_trace, tmp_path):
    (svg,) = draw_memory(layer_trace(ub.NeuralQueue(2), [150]), tmp_path)
    text = svg.read_text()
    width = re.search(r'<svg [^>]*width="([\d.]+)pt"', text)
    assert width is not None
    assert float(width[1]) < 1056
    assert ">w0_0<" in text
    assert ">w0_1<" not in text


def test_rows_used_shows_how_many_it_omits(figure1a_trace, layer_trace, tmp_path):
    svg = draw_memory(figure1a_trace, tmp_path, rows="used")[0].read_text()
    assert "not shown" not in svg
    with pytest.raises(ChoiceError, match="Did you mean 'used'"):
        draw_memory(figure1a_trace, tmp_path, rows="use")


def test_dollar_signs_are_symbols_and_no_mathematics(figure1a_trace, tmp_path):
    trace = figure1a_trace._replace(symbols=[["$a", "b$", "$c$"]])
    text = draw_memory(trace, tmp_path)[0].read_text()
    assert ">$a<" in text
    assert ">$c$<" in text


def test_figure_1a_has_the_numbers_of_the_paper(figure1a_trace, tmp_path):
    paths = draw_worked_example(figure1a_trace, tmp_path)
    assert [path.name for path in paths] == ["figure1a.svg"]
    text = paths[0].read_text()
    for line in (
        "push 0.8, pop 0",
        "push 0.5, pop 0.1",
        "push 0.9, pop 0.9",
        "v1: 0.7",
        "v2: 0  (gone)",
        "v1: 0.3",
        "read: 0.8 v1",
        "read: 0.5 v1 + 0.5 v2",
        "read: 0.1 v1 + 0.9 v3",
    ):
        assert line in text, line


def test_a_worked_example_is_short_and_of_one_end(layer_trace, tmp_path):
    with pytest.raises(ConfigError, match="at most 8"):
        draw_worked_example(layer_trace(ub.NeuralStack(2), [9]), tmp_path)
    with pytest.raises(ConfigError, match="got a trace of NeuralDeque"):
        draw_worked_example(layer_trace(ub.NeuralDeque(2), [3]), tmp_path)
