"""Superposition stack and list in plain Python: no torch, and no code shared with the library.

A cell is a dict entry by place; a place never written holds the number of empty cells. Each number
of a vector cell is computed separately: the numbers of a cell move together.
"""

from __future__ import annotations


def stack_step(cells, action, value, empty=-1.0):
    """One stack: cells is a dict from depth to number, action a list of 2 or 3 weights."""
    push, pop = action[0], action[1]
    keep = action[2] if len(action) == 3 else 0.0
    depth = max(cells, default=-1) + 2
    new = {}
    for i in range(depth):
        above = value if i == 0 else cells.get(i - 1, empty)
        new[i] = push * above + pop * cells.get(i + 1, empty) + keep * cells.get(i, empty)
    return new


def list_step(cells, action, value, empty=-1.0):
    """One list: cells is a dict from place to number, HEAD at 0; 3 or 4 weights."""
    right, left, insert = action[:3]
    keep = action[3] if len(action) == 4 else 0.0
    reach = max((abs(place) for place in cells), default=0) + 1
    new = {}
    for i in range(-reach, reach + 1):
        if i == 0:
            inserted = value
        elif i < 0:
            inserted = cells.get(i + 1, empty)
        else:
            inserted = cells.get(i, empty)
        new[i] = (
            right * cells.get(i + 1, empty)
            + left * cells.get(i - 1, empty)
            + insert * inserted
            + keep * cells.get(i, empty)
        )
    return new


def run(step, direction, actions, values, depth, capacity=None, empty=-1.0):
    """Read vectors of one structure: actions [T][A], values [T]; places 0, direction, ... are read.

    With a capacity, places at or beyond it on either side are dropped after each step.
    """
    cells: dict[int, float] = {}
    read_vectors = []
    for action, value in zip(actions, values, strict=True):
        cells = step(cells, action, value)
        if capacity is not None:
            cells = {place: cell for place, cell in cells.items() if abs(place) < capacity}
        read_vectors.append([cells.get(direction * j, empty) for j in range(depth)])
    return read_vectors, cells
