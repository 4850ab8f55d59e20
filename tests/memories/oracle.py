"""Stack, queue and deque in plain Python lists: no torch, and no code shared with the library.

Each operation walks from an end with a quantity in hand. The library uses
cumulative sums instead.
"""

from __future__ import annotations

Row = list[list[float] | float]  # [value, strength]


def _walk(rows: list[Row], end: str) -> list[Row]:
    return list(reversed(rows)) if end == "top" else list(rows)


def pop(rows: list[Row], quantity: float, end: str) -> None:
    for row in _walk(rows, end):
        taken = min(row[1], quantity)
        row[1] -= taken
        quantity -= taken


def read(rows: list[Row], width: int, end: str) -> list[float]:
    read_vector, room = [0.0] * width, 1.0
    for value, strength in _walk(rows, end):
        share = min(strength, room)
        room -= share
        read_vector = [r + share * v for r, v in zip(read_vector, value, strict=True)]
    return read_vector


def stack(values, pushes, pops, end="top"):
    """Return read vectors and, after every step, the strengths of all rows (one sequence)."""
    rows: list[Row] = []
    read_vectors, strengths = [], []
    for value, push, pop_quantity in zip(values, pushes, pops, strict=True):
        pop(rows, pop_quantity, end)
        rows.append([list(value), push])
        read_vectors.append(read(rows, len(value), end))
        strengths.append([row[1] for row in rows])
    return read_vectors, strengths


def queue(values, pushes, pops):
    return stack(values, pushes, pops, end="bottom")


def deque(top_values, top_pushes, top_pops, bottom_values, bottom_pushes, bottom_pops):
    rows: list[Row] = []
    read_vectors, strengths = [], []
    for tv, td, tu, bv, bd, bu in zip(
        top_values, top_pushes, top_pops, bottom_values, bottom_pushes, bottom_pops, strict=True
    ):
        pop(rows, tu, "top")
        pop(rows, bu, "bottom")
        rows.append([list(tv), td])
        rows.insert(0, [list(bv), bd])
        read_vectors.append(read(rows, len(tv), "top") + read(rows, len(bv), "bottom"))
        strengths.append([row[1] for row in rows])
    return read_vectors, strengths
