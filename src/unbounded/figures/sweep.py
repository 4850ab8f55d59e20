"""A metric against an axis of a study, with intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final

from scipy.special import stdtrit

from unbounded.errors import ConfigError
from unbounded.evaluation.score import wilson
from unbounded.figures.style import PALETTE, new_figure, plain, save, style

#: Least ratio of the greatest to the least value at which an axis is logarithmic.
_LOG_FROM: Final = 20.0
_CONFIDENCE: Final = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with an interval.

    Fields:
        middle, low, high: the mean and the ends; all are equal if one value has no interval.
    """

    middle: float
    low: float
    high: float


def interval_of(
    values: Sequence[float],
    *,
    is_share: bool = False,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """The mean of some seeds with its 95 % interval.

    The interval is Student's interval of the mean, or Wilson's if each value is a success or a
    failure.

    Args:
        values: one a seed, at least one.
        is_share: whether each value is 0 or 1.
        bounds: the least and the greatest possible value; Student's interval is clipped to them.
    """
    if is_share:
        correct = round(sum(values))
        return Interval(correct / len(values), *wilson(correct, len(values), _CONFIDENCE))
    middle = mean(values)
    if len(values) == 1:
        return Interval(middle, middle, middle)
    quantile = float(stdtrit(len(values) - 1, (1 + _CONFIDENCE) / 2))
    half = quantile * stdev(values) / math.sqrt(len(values))
    low, high = bounds
    return Interval(middle, max(low, middle - half), min(high, middle + half))


def draw_sweep(
    lines: Mapping[str, Mapping[Any, Sequence[float]]],
    folder: Path,
    name: str,
    *,
    axis: str,
    metric: str,
    title: str = "",
    is_share: bool = False,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> list[Path]:
    """Draw a metric against an axis, with mean over seeds, 95 % interval, and each seed.

    Numbers are placed according to their value, on a logarithmic axis if their range is large.
    Other values are evenly spaced.

    Args:
        lines: label of a line -> value of the axis -> the metric of each seed.
        folder: folder of `name.svg`; created when missing.
        name: file name without ending.
        axis, metric: labels of the axes.
        title: heading.
        is_share: whether the metric is success, with Wilson's interval.
        bounds: the least and the greatest possible value of the metric.
    Returns:
        The path written, in a list.
    Raises:
        ConfigError: there is nothing to draw.
        StorageError: the folder cannot be written.
    """
    places = list(dict.fromkeys(place for line in lines.values() for place in line))
    if not places:
        raise ConfigError(f"plot: no finished run has {metric} and {axis}")
    is_number = all(isinstance(v, int | float) and not isinstance(v, bool) for v in places)
    if is_number:
        places.sort()
    where = {place: float(place) if is_number else float(n) for n, place in enumerate(places)}
    with style():
        figure = new_figure(6.4, 4.2)
        axes = figure.subplots()
        for number, (label, line) in enumerate(lines.items()):
            colour = PALETTE[number % len(PALETTE)]
            there = [place for place in places if line.get(place)]
            shift = 0.0 if is_number else 0.12 * (number - (len(lines) - 1) / 2)
            x = [where[place] + shift for place in there]
            intervals = [
                interval_of(line[place], is_share=is_share, bounds=bounds) for place in there
            ]
            middles = [own.middle for own in intervals]
            ends = [
                [max(0.0, own.middle - own.low) for own in intervals],
                [max(0.0, own.high - own.middle) for own in intervals],
            ]
            axes.errorbar(
                x,
                middles,
                yerr=ends,
                color=colour,
                marker="o",
                markersize=4,
                capsize=3,
                linestyle="-" if is_number else "none",
                label=plain(label),
            )
            if not is_share:
                for place, at in zip(there, x, strict=True):
                    seeds = line[place]
                    axes.plot([at] * len(seeds), seeds, ".", color=colour, alpha=0.4, markersize=4)
        if is_number and min(where.values()) > 0:
            if max(where.values()) / min(where.values()) >= _LOG_FROM:
                axes.set_xscale("log")
        elif not is_number:
            axes.set_xticks(list(where.values()), [plain(str(place)) for place in places])
            axes.set_xlim(-0.5, len(places) - 0.5)
            if sum(len(str(place)) for place in places) > 50:
                axes.tick_params(axis="x", labelrotation=30)
        axes.set_xlabel(plain(axis))
        axes.set_ylabel(plain(metric))
        axes.set_title(plain(title))
        if len(lines) > 1:
            axes.legend()
        return save(figure, folder, name)
