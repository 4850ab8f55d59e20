"""The common style and output of all figures."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.lines import Line2D

from unbounded.errors import say_once
from unbounded.figures.style import (
    PALETTE,
    legend_below,
    line_colour,
    line_width,
    new_figure,
    save,
    style,
)


def test_symbols_that_the_font_lacks_are_reported_once(tmp_path: Path) -> None:
    say_once.cache_clear()
    with style(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in ("one", "other"):
            figure = new_figure(3, 2)
            figure.suptitle("\N{CJK UNIFIED IDEOGRAPH-6F22} \N{CJK UNIFIED IDEOGRAPH-8A9E}")
            save(figure, tmp_path, name)
    (only,) = caught
    assert "the font of the figures lacks some symbols" in str(only.message)
    assert "\N{CJK UNIFIED IDEOGRAPH-6F22}" in (tmp_path / "one.svg").read_text(encoding="utf-8")


def test_other_warnings_are_not_suppressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = new_figure(3, 2)
    saved = type(figure).savefig

    def warns(self, *arguments, **options):
        warnings.warn("something else", RuntimeWarning, stacklevel=1)
        return saved(self, *arguments, **options)

    monkeypatch.setattr(type(figure), "savefig", warns)
    with style(), pytest.warns(RuntimeWarning, match="something else"):
        save(figure, tmp_path, "one")


@pytest.mark.parametrize(
    "label", ["LSTM", "m" * 22, "m" * 30, "Stack RNN, emptied often (median and range of 10 runs)"]
)
def test_a_legend_stays_inside_of_its_figure(label: str) -> None:
    with style():
        figure = new_figure(7.5, 4)
        figure.subplots()
        legend_below(figure, [Line2D([], [], label=label)] * 3, 3)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= canvas.get_width_height()[0]
    assert box.y0 >= 0


def test_no_two_of_fourteen_lines_look_alike() -> None:
    styles = {(line_colour(index), line_width(index)) for index in range(2 * len(PALETTE))}
    assert len(styles) == 14
