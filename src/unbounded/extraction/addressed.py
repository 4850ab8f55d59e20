"""Hardened tapes and Lie-access memories as data structures of symbols, in plain Python.

An extracted program contains the source of these classes, so they need nothing else.
"""

from __future__ import annotations

from typing import Any


class Tape:
    """Cells in a row, with heads that move. Actions: how far each head moves, readers first.

    A step moves all heads, then writes; it shows the cells below the read heads, as they are then,
    or as they were before it wrote.
    """

    def __init__(self, slots: int, circular: int, readers: int, writers: int, before: int) -> None:
        self.slots, self.circular, self.readers, self.before = slots, circular, readers, before
        self.cells: dict[int, Any] = {}
        self.places = [0] * (readers + writers)
        self.shown = self.below()

    def below(self) -> tuple[Any, ...]:
        """What is below each read head; None where nothing was written."""
        return tuple(self.cells.get(place) for place in self.places[: self.readers])

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Move by the actions; the values are those of the write heads, None for no writing."""
        for head, move in enumerate(actions):
            self.places[head] += move
            if self.circular:
                self.places[head] %= self.slots
        shown = self.below()
        for place, value in zip(self.places[self.readers :], values, strict=True):
            if value is not None:
                self.cells[place] = value
        self.shown = shown if self.before else self.below()

    def read(self) -> tuple[Any, ...]:
        """What the last step showed; None where nothing was written."""
        return self.shown


class KeyedRows:
    """Rows at keys, points that two heads move between. Actions: of the read and the write head.

    Each is ("by", a vector) from where the head is, or ("to", a point). A step moves both, shows
    the row that is nearest to the read head, then puts a row at the write head.
    """

    def __init__(self, size: int) -> None:
        self.heads = [(0.0,) * size, (0.0,) * size]
        self.rows: list[Any] = []
        self.shown: Any = None

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out the actions; the one value is what is put there, None for no row."""
        for head, (how, point) in enumerate(actions):
            origin = self.heads[head] if how == "by" else (0.0,) * len(point)
            self.heads[head] = tuple(a + b for a, b in zip(origin, point, strict=True))
        reader, writer = self.heads
        nearest = min(self.rows, key=lambda row: self.distance(row[0], reader), default=None)
        self.shown = None if nearest is None else nearest[1]
        if values[0] is not None:
            self.rows.append((writer, values[0]))

    def distance(self, key: tuple[Any, ...], other: tuple[Any, ...]) -> float:
        """The square of the distance of two keys."""
        return float(sum((a - b) ** 2 for a, b in zip(key, other, strict=True)))

    def read(self) -> tuple[Any, ...]:
        """What the last step showed; None where there was no row."""
        return (self.shown,)
