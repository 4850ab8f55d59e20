"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from unbounded.files import markdown_cell


def number_cell(value: float | None, digits: int) -> str:
    """A number with these digits after the point, or a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]], *, lined_up: bool = False) -> str:
    """A Markdown table with a header.

    Args:
        header, rows: the cells.
        lined_up: whether to pad the cells, so that the columns align in plain text.
    """
    cells = [[markdown_cell(cell) for cell in row] for row in (header, *rows)]
    lines = [cells[0], ["---"] * len(header), *cells[1:]]
    if lined_up:
        widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
        lines[1] = ["-" * width for width in widths]
        lines = [
            [cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines
        ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
