"""The common style of all figures: sizes, and colours for colour-blind readers."""

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
from unbounded.files import make_folder, write_bytes

# Okabe & Ito 2008, ordered so that neighbours differ in lightness too.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STRENGTH_COLOURS = "Blues"
READ_COLOURS = "Oranges"

_HEADING_POINTS, _LETTERS_AN_INCH = 11, 11
_LABEL_INCHES = 0.23
_WIDTHS = (1.6, 0.7, 2.8)

_SETTINGS: dict[str, object] = {
    "font.size": 10.0,
    # An SVG repeats the list of fonts at every text.
    "font.sans-serif": ["DejaVu Sans", "sans-serif"],
    "axes.titlesize": 11.0,
    "axes.labelsize": 10.0,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.6,
    # Text in an SVG stays text, so that it can be searched, copied and read by a screen reader.
    "svg.fonttype": "none",
    # Element identifiers depend on this salt instead of a random salt, so that equal data result in
    # equal bytes.
    "svg.hashsalt": "unbounded",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw and save inside this context.

    The caller's matplotlib settings are restored after it.
    """
    with mpl.rc_context(rc=mpl.rcParamsDefault):
        mpl.rcParams.update(_SETTINGS)  # type: ignore[arg-type]
        yield


def new_figure(width_inches: float, height_inches: float) -> Figure:
    """Make a figure without a window system or global state."""
    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def set_heading(figure: Figure, title: str, behind: str = "") -> None:
    """Set a heading of one line. A title that does not fit is truncated at a word.

    Args:
        figure: with its final width.
        title: may contain user text; a truncated one ends with an ellipsis.
        behind: follows the title, and is never truncated.
    """
    room = max(int(figure.get_figwidth() * _LETTERS_AN_INCH) - len(behind), 1)
    if len(title) > room:
        title = textwrap.shorten(title, room, placeholder=" …")
    text = f"{title} {behind}".strip()
    if text:
        figure.suptitle(plain(text), fontsize=_HEADING_POINTS)


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write `figure` as `folder/name.svg`. Call this function inside `style()`.

    Equal figures result in equal bytes, because dates, versions and random identifiers are omitted.

    Returns:
        The path, in a list.
    Raises:
        StorageError: the folder cannot be written.
    """
    make_folder(folder)
    # Drawn to memory first, so that an error leaves no partial file.
    buffer = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    _pass_on(caught)
    path = folder / f"{name}.svg"
    write_bytes(path, buffer.getvalue())
    return [path]


def _pass_on(caught: Sequence[warnings.WarningMessage]) -> None:
    """Issue warnings again.

    All warnings about symbols that are missing in the font are combined into one.
    """
    for warning in caught:
        if "missing from font" in str(warning.message):
            say_once(
                "the font of the figures lacks some symbols; the viewer's font shows them",
                UserWarning,
            )
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def line_colour(index: int) -> str:
    """Colour of the `index`-th line. The seven colours repeat, with another line width."""
    return PALETTE[index % len(PALETTE)]


def line_width(index: int) -> float:
    """Width of the `index`-th line in points, which distinguishes lines of one colour."""
    return _WIDTHS[index // len(PALETTE) % len(_WIDTHS)]


def legend_below(figure: Figure, handles: Sequence[Artist], height_inches: float) -> None:
    """Put a legend below a figure, in two columns if all labels are short enough.

    Args:
        figure: with its final width.
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
    """Format a symbol as text, because matplotlib would read dollar signs as mathematics."""
    return symbol.replace("$", r"\$")
