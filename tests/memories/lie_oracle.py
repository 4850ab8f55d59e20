"""The Lie-access memory in plain Python; shares no code with the library.

A row is a list [key, value, strength], a head a list [key, action]; keys, actions and values are
lists of numbers.
"""

from __future__ import annotations

import math


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector) + 1e-12)
    return [x / length for x in vector]


def act(group, action, key):
    """The key after the action, normalised to length 1 where the group requires it."""
    if group == "translation":
        return [k + a for k, a in zip(key, action, strict=True)]
    if group in ("scaling_rotation", "rotation"):
        product = complex(*action) * complex(*key)
        return [product.real, product.imag]
    (x, y, z), (cos, sin) = action[:3], action[3:]
    k1, k2, k3 = key
    along = (x * k1 + y * k2 + z * k3) * (1 - cos)
    cross = [y * k3 - z * k2, z * k1 - x * k3, x * k2 - y * k1]
    axis = (x, y, z)
    return unit([key[i] * cos + cross[i] * sin + axis[i] * along for i in range(3)])


def move(group, step, head, key, key_gate, action, action_gate):
    mixed_key = [
        key_gate * new + (1 - key_gate) * old for new, old in zip(key, head[0], strict=True)
    ]
    if step == "normalised_candidate" and group in ("translation", "scaling_rotation"):
        action = unit(action)
    mixed = [
        action_gate * new + (1 - action_gate) * old
        for new, old in zip(action, head[1], strict=True)
    ]
    if group == "rotation":
        mixed = unit(mixed)
    elif group == "sphere":
        mixed, mixed_key = unit(mixed[:3]) + unit(mixed[3:]), unit(mixed_key)
    elif step == "normalised":
        mixed = unit(mixed)
    elif step == "bounded":
        size = math.sqrt(1 + sum(x * x for x in mixed))
        mixed = [x / size for x in mixed]
    return [act(group, mixed, mixed_key), mixed]


def weights(rows, query, temperature):
    """Read weight of each row; 0 for rows of strength 0."""
    held = [(i, row) for i, row in enumerate(rows) if row[2] > 0]
    distance = {i: sum((q - k) ** 2 for q, k in zip(query, row[0], strict=True)) for i, row in held}
    if temperature is None:
        parts = {i: row[2] / (distance[i] + 1e-10) for i, row in held}
    else:
        nearest = min(distance.values(), default=0)
        parts = {
            i: row[2] * math.exp((nearest - distance[i]) / (temperature + 1e-6)) for i, row in held
        }
    total = sum(parts.values())
    return [parts[i] / total if i in parts else 0.0 for i in range(len(rows))]


def step(group, step_length, rows, read, write, instruction, capacity=None, drop=1):
    """One step; `instruction` maps a field's name to its value. Missing gates are 1."""
    heads = [
        move(
            group, step_length, head,
            instruction[f"{who}_key"], instruction.get(f"{who}_key_gate", 1.0),
            instruction[f"{who}_action"], instruction.get(f"{who}_action_gate", 1.0),
        )
        for who, head in (("read", read), ("write", write))
    ]  # fmt: skip
    share = weights(rows, heads[0][0], instruction.get("temperature"))
    width = len(instruction["value"])
    read_vector = [
        sum(w * row[1][m] for w, row in zip(share, rows, strict=True)) for m in range(width)
    ]
    rows = [list(row) for row in rows]
    if capacity is not None and len(rows) == capacity:
        if instruction["strength"] <= 0:
            return read_vector, rows, *heads
        if all(row[2] > 0 for row in rows):
            for row in rows[:drop]:
                row[2] = 0.0
        rows.remove(next(row for row in rows if row[2] <= 0))
    rows.append([heads[1][0], instruction["value"], instruction["strength"]])
    return read_vector, rows, *heads
