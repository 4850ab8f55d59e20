"""Answers below their targets, with the errors marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from unbounded.errors import ConfigError
from unbounded.evaluation.answers import Answer
from unbounded.figures.style import line_colour, new_figure, plain, save, style

#: Number of symbols in a line of the figure.
_LINE = 32
_RIGHT, _WRONG = "#E8F1F8", line_colour(1)


def draw_answers(
    answers: Sequence[Answer], folder: Path, name: str = "answers", *, title: str = ""
) -> list[Path]:
    """Draw some answers, with targets above, predictions below, and errors coloured.

    Args:
        answers: from `unbounded.evaluation.answers_of`.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        title: heading.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: there is no answer.
        StorageError: the folder cannot be written.
    """
    if not answers:
        raise ConfigError("answers: there is nothing to draw; give at least one")
    lines = [-(-len(answer.target) // _LINE) for answer in answers]
    with style():
        figure = new_figure(10.0, 0.6 + sum(0.5 + 0.55 * count for count in lines))
        axes = figure.subplots(
            len(answers), 1, squeeze=False, gridspec_kw={"height_ratios": [1 + n for n in lines]}
        )[:, 0]
        for axis, answer in zip(axes, answers, strict=True):
            _plot_answer(axis, answer)
        figure.suptitle(title or "Answers: targets above, predictions below", fontsize=11)
        return save(figure, folder, name)


def _plot_answer(axis: Axes, answer: Answer) -> None:
    wrong = sum(
        predicted != expected
        for predicted, expected in zip(answer.predicted, answer.target, strict=True)
    )
    count = len(answer.target)
    first = answer.first_error
    where = "" if first is None else f", the first at {first + 1}"
    axis.set_title(f"{count} symbols, {wrong} wrong{where}", loc="left", fontsize=9)
    width = max(map(len, answer.target + answer.predicted))
    size = 7 if width <= 2 else 5
    for place, (expected, predicted) in enumerate(
        zip(answer.target, answer.predicted, strict=True)
    ):
        column, line = place % _LINE, place // _LINE
        colour = _RIGHT if expected == predicted else _WRONG
        axis.add_patch(Rectangle((column, -2.4 * line - 2), 0.95, 0.95, color=colour))
        for height, symbol in ((-2.4 * line - 0.55, expected), (-2.4 * line - 1.55, predicted)):
            axis.text(column + 0.47, height, plain(symbol), ha="center", va="center", fontsize=size)
    axis.set_xlim(0, _LINE)
    axis.set_ylim(-2.4 * (-(-count // _LINE)), 0.2)
    axis.set_axis_off()
