"""The memory of a DNC in plain Python lists; shares no code with the library.

A state is a dict of lists: cells [N][M], usage [N], write_weights [1][N], read_weights [R][N]; with
links also links [N][N] and precedence [N].
"""

from __future__ import annotations

import math


def content(cells, key, strength):
    scores = []
    for row in cells:
        product = sum(k * m for k, m in zip(key, row, strict=True))
        squares = sum(k * k for k in key) * sum(m * m for m in row)
        scores.append(strength * product / math.sqrt(squares + 1e-6))
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def allocation(usage):
    """The free list: the least used slot first, the first of equal ones before the others."""
    weights, product = [0.0] * len(usage), 1.0
    for slot in sorted(range(len(usage)), key=lambda n: (round(usage[n] * 4096), n)):
        held = 1e-6 + (1 - 1e-6) * usage[slot]
        weights[slot] = (1 - held) * product
        product *= held
    return weights


def step(state, instruction):
    """The read vector and the next state; `instruction` maps a field's name to lists."""
    cells, reads, writes = state["cells"], state["read_weights"], state["write_weights"][0]
    count, slots = len(cells), range(len(cells))
    usage = []
    for n in slots:
        held = 1 - (1 - state["usage"][n]) * (1 - writes[n])
        for gate, weights in zip(instruction["free_gate"], reads, strict=True):
            held *= 1 - gate * weights[n]
        usage.append(held)
    free = allocation(usage)
    found = content(cells, instruction["write_key"], instruction["write_strength"])
    share, gate = instruction["allocation_gate"], instruction["write_gate"]
    writes = [gate * (share * free[n] + (1 - share) * found[n]) for n in slots]
    new = [
        [
            old * (1 - writes[n] * erase) + writes[n] * value
            for old, erase, value in zip(
                cells[n], instruction["erase"], instruction["write_value"], strict=True
            )
        ]
        for n in slots
    ]
    after = {"cells": new, "usage": usage, "write_weights": [writes]}
    has_links = "links" in state
    if has_links:
        links, before = [[0.0] * count for _ in slots], state["precedence"]
        for i in slots:
            for j in slots:
                if i != j:
                    old = state["links"][i][j]
                    links[i][j] = old * (1 - writes[i] - writes[j]) + writes[i] * before[j]
        kept = 1 - sum(writes)
        after["links"] = links
        after["precedence"] = [kept * p + w for p, w in zip(before, writes, strict=True)]
    after["read_weights"], read_vector = [], []
    for head, old in enumerate(reads):
        weights = content(new, instruction["read_key"][head], instruction["read_strength"][head])
        if has_links:
            backward, by_content, forward = instruction["read_mode"][head]
            weights = [
                backward * sum(links[i][n] * old[i] for i in slots)
                + by_content * weights[n]
                + forward * sum(links[n][j] * old[j] for j in slots)
                for n in slots
            ]
        after["read_weights"].append(weights)
        read_vector += [sum(weights[n] * new[n][m] for n in slots) for m in range(len(new[0]))]
    return read_vector, after
