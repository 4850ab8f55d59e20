"""The phases of the controller: gates and cell of a step, and their gradients.

A tile consists of some units of some sequences. The program of a tile computes all lanes of its
units. Each lane has H units. The lanes are i, f, g, o for an LSTM; r, z and both parts of n for a
GRU; and a single lane for an Elman network.
"""

from __future__ import annotations

import triton
import triton.language as tl

from unbounded.kernels.gpu.programs.tiles import add_product, lane_of, sigmoid, tanh

#: Values of the constant CELL of the programs, by the name of the controller.
CELLS = {"lstm": 0, "gru": 1, "elman_tanh": 2, "elman_sigmoid": 3, "elman_relu": 4}


@triton.jit
def cell_phase(
    tile, t, of_x, weight, hidden0, outputs, cell0, cells, read_vector0, read_vectors, gates,
    lengths,
    B, H, R,
    CELL: tl.constexpr, LANES: tl.constexpr, UNITS: tl.constexpr, BATCH: tl.constexpr,
    CHUNK: tl.constexpr, PRECISION: tl.constexpr, SAVES: tl.constexpr,
):  # fmt: skip
    """Compute h_t, and c_t if there is a cell, from h_{t-1}, r_{t-1} and the part of x_t.

    of_x [T, B, LANES H]; weight [LANES H, R + H], for read vector and h; gates [T, B, LANES H].
    """
    tiles = tl.cdiv(H, UNITS)
    first = (tile % tiles) * UNITS
    batch = (tile // tiles) * BATCH + tl.arange(0, BATCH)
    length = tl.load(lengths + batch, mask=batch < B, other=0)
    active = (batch < B) & (t < length)
    row = tl.arange(0, UNITS * LANES)
    unit = first + row % UNITS
    rows = (row // UNITS) * H + unit
    total = tl.load(
        of_x + (t * B + batch).to(tl.int64)[None, :] * (LANES * H) + rows[:, None],
        mask=(unit < H)[:, None] & active[None, :],
        other=0.0,
    )
    before_r, before_h, before_c = read_vector0, hidden0, cell0
    if t > 0:
        before = (t - 1).to(tl.int64) * B
        before_r = read_vectors + before * R
        before_h = outputs + before * H
        before_c = cells + before * H
    total = add_product(
        total, weight, R + H, rows, unit < H, before_r, R, batch, active, R, CHUNK, PRECISION
    )
    total = add_product(
        total, weight + R, R + H, rows, unit < H, before_h, H, batch, active, H, CHUNK, PRECISION
    )
    units = first + tl.arange(0, UNITS)
    mask = (units < H)[:, None] & active[None, :]
    at = batch[None, :] * H + units[:, None]
    here = (t * B).to(tl.int64) * H + at
    lane = (t * B + batch).to(tl.int64)[None, :] * (LANES * H) + units[:, None]
    parts = tl.reshape(total, (LANES, UNITS, BATCH))
    if CELL == 0:
        i = sigmoid(lane_of(parts, 0, LANES))
        f = sigmoid(lane_of(parts, 1, LANES))
        g = tanh(lane_of(parts, 2, LANES))
        o = sigmoid(lane_of(parts, 3, LANES))
        c = f * tl.load(before_c + at, mask=mask, other=0.0) + i * g
        h = o * tanh(c)
        tl.store(cells + here, c, mask=mask)
        if SAVES:
            tl.store(gates + lane, i, mask=mask)
            tl.store(gates + lane + H, f, mask=mask)
            tl.store(gates + lane + 2 * H, g, mask=mask)
            tl.store(gates + lane + 3 * H, o, mask=mask)
    elif CELL == 1:
        r = sigmoid(lane_of(parts, 0, LANES))
        z = sigmoid(lane_of(parts, 1, LANES))
        of_h = lane_of(parts, 3, LANES)
        n = tanh(lane_of(parts, 2, LANES) + r * of_h)
        h = n + z * (tl.load(before_h + at, mask=mask, other=0.0, cache_modifier=".cg") - n)
        if SAVES:
            tl.store(gates + lane, r, mask=mask)
            tl.store(gates + lane + H, z, mask=mask)
            tl.store(gates + lane + 2 * H, n, mask=mask)
            tl.store(gates + lane + 3 * H, of_h, mask=mask)
    elif CELL == 2:
        h = tanh(lane_of(parts, 0, LANES))
    elif CELL == 3:
        h = sigmoid(lane_of(parts, 0, LANES))
    else:
        h = lane_of(parts, 0, LANES)
        h = tl.where(h < 0, 0.0, h)
    tl.store(outputs + here, h, mask=mask)


@triton.jit
def cell_gradient_phase(
    tile, t, head_weight, of_heads, hidden0, outputs, cell0, cells, gates, of_outputs, of_hidden,
    of_cell, of_gates, lengths, B, H, K,
    CELL: tl.constexpr, LANES: tl.constexpr, UNITS: tl.constexpr, BATCH: tl.constexpr,
    CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradient of the gates of step t from the gradients of h_t and of the heads.

    head_weight [H, K], transposed; of_heads [T, B, K]; of_hidden, of_cell [B, H]: first the part
    from the next step, then the part that bypasses the product to the previous step; of_gates
    [T, B, LANES H].
    """
    tiles = tl.cdiv(H, UNITS)
    units = (tile % tiles) * UNITS + tl.arange(0, UNITS)
    batch = (tile // tiles) * BATCH + tl.arange(0, BATCH)
    length = tl.load(lengths + batch, mask=batch < B, other=0)
    active = (batch < B) & (t < length)
    mask = (units < H)[:, None] & active[None, :]
    at = batch[None, :] * H + units[:, None]
    here = (t * B).to(tl.int64) * H + at
    lane = (t * B + batch).to(tl.int64)[None, :] * (LANES * H) + units[:, None]
    of_h = tl.load(of_hidden + at, mask=mask, other=0.0, cache_modifier=".cg")
    of_h += tl.load(of_outputs + here, mask=mask, other=0.0)
    of_h = add_product(
        of_h, head_weight, K, units, units < H, of_heads + (t * B).to(tl.int64) * K, K, batch,
        active, K, CHUNK, PRECISION,
    )  # fmt: skip
    past = tl.zeros_like(of_h)
    if CELL == 0:
        before_c = cell0
        if t > 0:
            before_c = cells + (t - 1).to(tl.int64) * B * H
        i = tl.load(gates + lane, mask=mask, other=0.0)
        f = tl.load(gates + lane + H, mask=mask, other=0.0)
        g = tl.load(gates + lane + 2 * H, mask=mask, other=0.0)
        o = tl.load(gates + lane + 3 * H, mask=mask, other=0.0)
        c = tanh(tl.load(cells + here, mask=mask, other=0.0))
        of_c = tl.load(of_cell + at, mask=mask, other=0.0) + of_h * o * (1.0 - c * c)
        before = tl.load(before_c + at, mask=mask, other=0.0)
        tl.store(of_gates + lane, of_c * g * i * (1.0 - i), mask=mask)
        tl.store(of_gates + lane + H, of_c * before * f * (1.0 - f), mask=mask)
        tl.store(of_gates + lane + 2 * H, of_c * i * (1.0 - g * g), mask=mask)
        tl.store(of_gates + lane + 3 * H, of_h * c * o * (1.0 - o), mask=mask)
        tl.store(of_cell + at, of_c * f, mask=mask)
    elif CELL == 1:
        before_h = hidden0
        if t > 0:
            before_h = outputs + (t - 1).to(tl.int64) * B * H
        r = tl.load(gates + lane, mask=mask, other=0.0)
        z = tl.load(gates + lane + H, mask=mask, other=0.0)
        n = tl.load(gates + lane + 2 * H, mask=mask, other=0.0)
        part = tl.load(gates + lane + 3 * H, mask=mask, other=0.0)
        before = tl.load(before_h + at, mask=mask, other=0.0)
        of_n = of_h * (1.0 - z) * (1.0 - n * n)
        tl.store(of_gates + lane, of_n * part * r * (1.0 - r), mask=mask)
        tl.store(of_gates + lane + H, of_h * (before - n) * z * (1.0 - z), mask=mask)
        tl.store(of_gates + lane + 2 * H, of_n, mask=mask)
        tl.store(of_gates + lane + 3 * H, of_n * r, mask=mask)
        past = of_h * z
    else:
        h = tl.load(outputs + here, mask=mask, other=0.0)
        if CELL == 2:
            of_h = of_h * (1.0 - h * h)
        elif CELL == 3:
            of_h = of_h * h * (1.0 - h)
        else:
            of_h = tl.where(h > 0, of_h, 0.0)
        tl.store(of_gates + lane, of_h, mask=mask)
    tl.store(of_hidden + at, past, mask=mask)


@triton.jit
def before_gradient_phase(
    tile, t, weight, of_gates, of_hidden, of_read_vector, lengths, B, H, R,
    LANES: tl.constexpr, COLUMNS: tl.constexpr, BATCH: tl.constexpr,
    CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of r_{t-1} and h_{t-1} from the gradients of the gates of step t.

    weight [R + H, LANES H], transposed. of_read_vector [B, R] is overwritten; of_hidden [B, H] is
    added to.
    """
    tiles = tl.cdiv(R + H, COLUMNS)
    columns = (tile % tiles) * COLUMNS + tl.arange(0, COLUMNS)
    batch = (tile // tiles) * BATCH + tl.arange(0, BATCH)
    length = tl.load(lengths + batch, mask=batch < B, other=0)
    active = (batch < B) & (t < length)
    is_hidden = (columns >= R) & (columns < R + H)
    at = batch[None, :] * H + (columns - R)[:, None]
    mask = is_hidden[:, None] & active[None, :]
    total = tl.load(of_hidden + at, mask=mask, other=0.0, cache_modifier=".cg")
    size = LANES * H
    total = add_product(
        total, weight, size, columns, columns < R + H, of_gates + (t * B).to(tl.int64) * size, size,
        batch, active, size, CHUNK, PRECISION,
    )  # fmt: skip
    tl.store(of_hidden + at, total, mask=mask)
    mask = (columns < R)[:, None] & active[None, :]
    tl.store(of_read_vector + batch[None, :] * R + columns[:, None], total, mask=mask)
