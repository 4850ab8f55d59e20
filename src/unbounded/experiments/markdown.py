"""Tables as Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a header; its columns are lined up, so that it can be read as it stands."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(header))]
    rule = ["-" * width for width in widths]
    texts = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in (lines[0], rule, *lines[1:])
    ]
    return "\n".join(f"| {text} |" for text in texts)
