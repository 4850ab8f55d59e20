"""The tape of a Neural Turing Machine in plain Python; shares no code with the library.

Cells are a list of rows, weights one list per head, shifts a list from -s to s.
"""

from __future__ import annotations

import math


def cosine(key, row):
    product = sum(k * m for k, m in zip(key, row, strict=True))
    squares = sum(k * k for k in key) * sum(m * m for m in row)
    return product / math.sqrt(squares + 1e-6)


def address(cells, before, key, strength, gate, shifts, sharpening, circular, floor):
    """One head's weights, Graves et al. 2014, eq. 5 to 9."""
    count, reach = len(cells), len(shifts) // 2
    powers = [math.exp(strength * cosine(key, row)) for row in cells]
    content = [power / sum(powers) for power in powers]
    gated = [gate * c + (1 - gate) * b for c, b in zip(content, before, strict=True)]
    moved = [0.0] * count
    for i, weight in enumerate(gated):
        for offset, part in zip(range(-reach, reach + 1), shifts, strict=True):
            to = i + offset
            if circular:
                moved[to % count] += part * weight
            elif 0 <= to < count:
                moved[to] += part * weight
    raised = [(weight + floor) ** sharpening for weight in moved]
    return [power / sum(raised) for power in raised]


def step(cells, read_weights, write_weights, instruction, circular, floor, reads_before=False):
    """One step; `instruction` maps a field's name to a list with one entry per head."""

    def addressed(who, weights):
        return [
            address(
                *(cells, weights[h]),
                *(instruction[f"{who}_{part}"][h] for part in ("key", "strength", "gate", "shift")),
                *(instruction[f"{who}_sharpening"][h], circular, floor),
            )
            for h in range(len(weights))
        ]

    read_weights = addressed("read", read_weights)
    write_weights = addressed("write", write_weights)
    new = [list(row) for row in cells]
    for i, row in enumerate(new):
        for m in range(len(row)):
            for weights, erase in zip(write_weights, instruction["erase"], strict=True):
                row[m] *= 1 - weights[i] * erase[m]
            for weights, add in zip(write_weights, instruction["add"], strict=True):
                row[m] += weights[i] * add[m]
    seen = cells if reads_before else new
    read_vector = []
    for weights in read_weights:
        columns = zip(*seen, strict=True)
        read_vector += [
            sum(w * c for w, c in zip(weights, column, strict=True)) for column in columns
        ]
    return read_vector, new, read_weights, write_weights
