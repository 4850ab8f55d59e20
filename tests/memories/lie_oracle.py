"""The Lie-access memory in plain Python; shares no code with the library.

A row is a list [key, value, strength], a head a list [key, action]; keys, actions and values are
lists of numbers.
"""

from __future__ import annotations

import cmath
import math


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector) + 1e-12)
    return [x / length for x in vector]


def act(group, action, key):
    """The key after the action, normalised to length 1 where the group requires it."""
    if group == "translation":
        return [k + a for k, a in zip(key, action, strict=True)]
    if group == "poincare_disk":
        return on_disk(action, key)
    if len(key) > 2 and "sphere" not in group:
        factor, numbers = (action[0], action[1:]) if group == "scaling_rotation" else (1, action)
        return [factor * x for x in turned(numbers, key)]
    if group in ("scaling_rotation", "rotation"):
        product = complex(*action) * complex(*key)
        return [product.real, product.imag]
    (x, y, z), (cos, sin) = action[:3], action[3:5]
    k1, k2, k3 = key
    along = (x * k1 + y * k2 + z * k3) * (1 - cos)
    cross = [y * k3 - z * k2, z * k1 - x * k3, x * k2 - y * k1]
    axis = (x, y, z)
    return unit([key[i] * cos + cross[i] * sin + axis[i] * along for i in range(3)])


def turned(numbers, key):
    """exp(X) k by Taylor's series of many small turns."""
    n, count = len(key), 64
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    matrix = [[0.0] * n for _ in range(n)]
    for (i, j), number in zip(pairs, numbers, strict=True):
        matrix[i][j], matrix[j][i] = number / count, -number / count
    for _ in range(count):
        term, key = list(key), list(key)
        for order in range(1, 20):
            term = [sum(matrix[i][j] * term[j] for j in range(n)) / order for i in range(n)]
            key = [x + y for x, y in zip(key, term, strict=True)]
    return key


def in_disk(z):
    return z if abs(z) <= 1 - 1e-5 else z / abs(z) * (1 - 1e-5)


def on_disk(action, key):
    vector, length = complex(*action[:2]), math.hypot(*action[:2])
    point = in_disk(vector * math.tanh(length / 2) / length) if length else 0
    z = cmath.exp(1j * action[2]) * in_disk(complex(*key))
    z = in_disk((z + point) / (1 + point.conjugate() * z))
    return [z.real, z.imag]


def squared_distance(group, one, other):
    if group != "poincare_disk":
        return sum((q - k) ** 2 for q, k in zip(one, other, strict=True))
    a, b = complex(*one), complex(*other)
    x = abs(a - b) ** 2 / (1 - abs(a) ** 2) / (1 - abs(b) ** 2)
    return math.acosh(1 + 2 * x) ** 2


def bounded_turn(outputs, bound):
    """Axis and (cos, sin) of an angle from four outputs of the controller."""
    angle = bound * math.tanh(outputs[3])
    return [*unit(outputs[:3]), math.cos(angle), math.sin(angle)]


def move(group, step, head, key, key_gate, action, action_gate):
    bound = []
    if group in ("bounded_sphere", "learned_bound_sphere"):
        bound = head[1][5:]
        key, action = unit(key), bounded_turn(action, *bound)
        head = [head[0], head[1][:5]]
    mixed_key = [
        key_gate * new + (1 - key_gate) * old for new, old in zip(key, head[0], strict=True)
    ]
    # The numbers with a length, and the others.
    long = {"translation": len(key), "poincare_disk": 2}.get(group, 0)
    if group == "scaling_rotation":
        long = 2 if len(key) == 2 else 1
    if step == "normalised_candidate" and long:
        action = unit(action[:long]) + action[long:]
    mixed = [
        action_gate * new + (1 - action_gate) * old
        for new, old in zip(action, head[1], strict=True)
    ]
    if group == "rotation" and len(key) == 2:
        mixed = unit(mixed)
    elif "sphere" in group:
        mixed, mixed_key = unit(mixed[:3]) + unit(mixed[3:]) + bound, unit(mixed_key)
    elif step == "normalised" and long:
        mixed = unit(mixed[:long]) + mixed[long:]
    elif step == "bounded" and long:
        size = math.sqrt(1 + sum(x * x for x in mixed[:long]))
        mixed = [x / size for x in mixed[:long]] + mixed[long:]
    return [act(group, mixed, mixed_key), mixed]


def weights(group, rows, query, temperature):
    """Read weight of each row; 0 for rows of strength 0."""
    held = [(i, row) for i, row in enumerate(rows) if row[2] > 0]
    distance = {i: squared_distance(group, query, row[0]) for i, row in held}
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
    share = weights(group, rows, heads[0][0], instruction.get("temperature"))
    width = len(instruction["value"])
    read_vector = [
        sum(w * row[1][m] for w, row in zip(share, rows, strict=True)) for m in range(width)
    ]
    new = [heads[1][0], instruction["value"], instruction["strength"]]
    rows = written(rows, new, capacity is not None and len(rows) == capacity, drop)
    return read_vector, rows, *heads


def written(rows, new, is_full, drop):
    """The rows after one more; without a further place it takes that of the oldest absent row."""
    rows = [list(row) for row in rows]
    if is_full:
        if new[2] <= 0:
            return rows
        if all(row[2] > 0 for row in rows):
            for row in rows[:drop]:
                row[2] = 0.0
        rows.remove(next(row for row in rows if row[2] <= 0))
    return [*rows, new]


def step_of_many(group, step_length, rows, readers, writers, instruction, capacity=None, drop=1):
    """One step of lists of heads; the fields of `instruction` are lists, one item for each head."""
    moved = [
        [
            move(
                group, step_length, head,
                instruction[f"{who}_key"][i], instruction.get(f"{who}_key_gate", ones)[i],
                instruction[f"{who}_action"][i], instruction.get(f"{who}_action_gate", ones)[i],
            )
            for i, head in enumerate(heads)
        ]
        for who, heads, ones in (
            ("read", readers, [1.0] * len(readers)), ("write", writers, [1.0] * len(writers))
        )
    ]  # fmt: skip
    read_vector = []
    temperatures = instruction.get("temperature", [None] * len(readers))
    for head, temperature in zip(moved[0], temperatures, strict=True):
        share = weights(group, rows, head[0], temperature)
        read_vector += [
            sum(w * row[1][m] for w, row in zip(share, rows, strict=True))
            for m in range(len(instruction["value"][0]))
        ]
    is_full = capacity is not None and len(rows) + len(writers) > capacity
    for head, value, strength in zip(
        moved[1], instruction["value"], instruction["strength"], strict=True
    ):
        rows = written(rows, [head[0], value, strength], is_full, drop)
    return read_vector, rows, *moved
