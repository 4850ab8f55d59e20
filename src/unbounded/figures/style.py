"""One look for every figure: sizes, colours that colour-blind readers tell apart, PNG and SVG."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from unbounded.errors import say_once
from unbounded.files import storage_faults, write_bytes

# Okabe & Ito 2008, ordered so that neighbours differ in lightness too.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STRENGTH_COLOURS = "Blues"
READ_COLOURS = "Oranges"

PNG_DOTS_PER_INCH = 150
_HEADING_POINTS, _LETTERS_AN_INCH = 11, 11
_LABEL_INCHES = 0.23
_WIDTHS = (1.6, 0.7, 2.8)

_SETTINGS: dict[str, object] = {
    "font.size": 10.0,
    "axes.titlesize": 11.0,
    "axes.labelsize": 10.0,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.6,
    # Text stays text in an SVG: it can be searched, copied and read by a screen reader.
    "svg.fonttype": "none",
    # Element identifiers come from this salt and not from a random one: same data, same bytes.
    "svg.hashsalt": "unbounded",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw and save inside this context; the caller's matplotlib settings come back after it."""
    with mpl.rc_context(rc=mpl.rcParamsDefault):
        mpl.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        yield


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """A figure that belongs to no window system and to no global state."""
    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def set_heading(figure: Figure, title: str, behind: str = "") -> None:
    """Give a figure a heading of one line, cut at a word where the title would not fit.

    Args:
        figure: as wide as it will be drawn.
        title: may hold what a user typed; where it is cut, an ellipsis stands.
        behind: follows the title, and is never cut.
    """
    room = max(int(figure.get_figwidth() * _LETTERS_AN_INCH) - len(behind), 1)
    if len(title) > room:
        title = textwrap.shorten(title, room, placeholder=" …")
    text = f"{title} {behind}".strip()
    if text:
        figure.suptitle(plain(text), fontsize=_HEADING_POINTS)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `figure` as `folder/name.png` and `folder/name.svg`; call it inside `style()`.

    The same figure gives the same bytes: no date, no version and no random identifier go in.

    Returns:
        The two paths, PNG first.
    Raises:
        StorageError: the folder cannot be written.
    """
    with storage_faults(folder, "making folder"):
        folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        # Drawn to memory first, so that a drawing error leaves no half-written file behind.
        buffer = io.BytesIO()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            figure.savefig(buffer, format=suffix, dpi=PNG_DOTS_PER_INCH, metadata=metadata)
        _say_again(told)
        path = folder / f"{name}.{suffix}"
        write_bytes(path, buffer.getvalue())
        paths.append(path)
    return paths


def _say_again(told: Sequence[warnings.WarningMessage]) -> None:
    """Pass warnings on; those of symbols that the font lacks as one, once."""
    for each in told:
        if "missing from font" in str(each.message):
            say_once(
                "the font of the figures lacks some symbols: they are boxes in the PNG, and "
                "themselves in the SVG beside it",
                UserWarning,
            )
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def line_colour(index: int) -> str:
    """Colour of the `index`-th line; the seven repeat after that, in another width."""
    return PALETTE[index % len(PALETTE)]


def line_width(index: int) -> float:
    """Width of the `index`-th line in points: what tells lines of one colour apart."""
    return _WIDTHS[index // len(PALETTE) % len(_WIDTHS)]


def legend_below(figure: Figure, handles: Sequence[Artist], height_inches: float) -> None:
    """Put a legend below a figure, two labels beside each other where all are short enough.

    Args:
        figure: as wide as it will be drawn.
        handles: lines with their labels.
        height_inches: of the figure without its legend.
    """
    columns = 2
    figure.set_figheight(height_inches + _LABEL_INCHES * math.ceil(len(handles) / columns))
    legend = figure.legend(handles=handles, loc="outside lower center", ncols=columns)
    if legend.get_window_extent().width > figure.bbox.width:
        legend.remove()
        figure.set_figheight(height_inches + _LABEL_INCHES * len(handles))
        figure.legend(handles=handles, loc="outside lower center")


def plain(symbol: str) -> str:
    """A symbol as text: matplotlib would read dollar signs as mathematics."""
    return symbol.replace("$", r"\$")
