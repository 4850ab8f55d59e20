"""The memory phase of neural stack, queue and deque, in which rows are popped, pushed and read.

One program runs a memory's step for each sequence. No two programs add to the same number, so
results are bitwise reproducible. The rows of all steps have fixed places from the start. A deque's
bottom rows come before the initial rows. Rows `low` to `high` exist.

A pop scans the rows from its end in chunks until its quantity is used up. A pop removes the full
strength of some rows, which are then called dead. A pop removes a part of the strength of at most
one row, whose previous strength is recorded.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Values of KIND in the phases, by `Structure.name`.
KINDS = {"stack": 0, "queue": 1, "deque": 2}


@triton.jit
def first_row(t, T, KIND: tl.constexpr):
    """The lowest row that exists before step t."""
    if KIND == 2:
        return T - t
    return t * 0


@triton.jit
def pushed_row(end, t, T, N0, KIND: tl.constexpr):
    """The row that step t pushes at an end (0 for the top or the only end, 1 for the bottom)."""
    if KIND == 2:
        return tl.where(end == 0, T + N0 + t, T - 1 - t)
    return N0 + t + end * 0


@triton.jit
def row_at(place, low, high, IS_TOP: tl.constexpr):
    """The row at a given number of places from an end."""
    if IS_TOP:
        return high - 1 - place
    return low + place


@triton.jit
def place_of(row, low, high, IS_TOP: tl.constexpr):
    """The number of places between a row and an end."""
    if IS_TOP:
        return high - 1 - row
    return row - low


@triton.jit
def nearer_sum(
    strengths, begin, count, low, high, above, CHUNK: tl.constexpr, IS_TOP: tl.constexpr
):
    """For each row of a chunk, sum the nearer rows. Rows are shifted first, for exact ties."""
    place = begin + tl.arange(0, CHUNK)
    shifted = tl.load(
        strengths + row_at(place - 1, low, high, IS_TOP),
        mask=(place > begin) & (place < count),
        other=0.0,
        cache_modifier=".cg",
    )
    return above + tl.cumsum(shifted, axis=0)


@triton.jit
def pop(
    strengths, amount, code, low, high, grave_codes, grave_strengths, change, kept,
    CHUNK: tl.constexpr, IS_TOP: tl.constexpr, SAVES: tl.constexpr,
):  # fmt: skip
    """Remove an amount from the strengths, starting at an end; eq. 2, 4, 7, 8."""
    count = high - low
    begin = count * 0
    above = amount * 0.0
    changed = begin - 1
    was = above
    while (begin < count) & (above < amount):
        place = begin + tl.arange(0, CHUNK)
        row = row_at(place, low, high, IS_TOP)
        mask = place < count
        strength = tl.load(strengths + row, mask=mask, other=0.0, cache_modifier=".cg")
        nearer = nearer_sum(strengths, begin, count, low, high, above, CHUNK, IS_TOP)
        left = amount - nearer
        touched = mask & (left > 0) & (strength > 0)
        new = tl.where(strength > left, strength - left, 0.0)
        tl.debug_barrier()
        tl.store(strengths + row, new, mask=touched)
        if SAVES:
            died = touched & (new == 0)
            tl.store(grave_codes + row, tl.zeros_like(row) + code, mask=died)
            tl.store(grave_strengths + row, strength, mask=died)
            lasting = touched & (new > 0)
            first = tl.min(tl.where(lasting, place, count), axis=0)
            if (changed < 0) & (first < count):
                changed = row_at(first, low, high, IS_TOP)
                was = tl.sum(tl.where(place == first, strength, 0.0), axis=0)
        above += tl.sum(strength, axis=0)
        begin += CHUNK
    if SAVES:
        tl.store(change, changed)
        tl.store(kept, was)


@triton.jit
def part_of(vector, part, CHUNK: tl.constexpr, PART: tl.constexpr):
    """Select one part of a vector [CHUNK]."""
    which = tl.arange(0, CHUNK // PART)[:, None]
    parts = tl.reshape(vector, (CHUNK // PART, PART))
    return tl.sum(tl.where(which == part, parts, 0), axis=0)


@triton.jit
def read(
    strengths, values, read_vector, low, high, M,
    CHUNK: tl.constexpr, PART: tl.constexpr, WIDTH: tl.constexpr, IS_TOP: tl.constexpr,
):  # fmt: skip
    """Sum the values that make up the first unit of strength from an end; eq. 3, 5, 10, 11."""
    count = high - low
    begin = count * 0
    column = tl.arange(0, WIDTH)
    total = tl.zeros((WIDTH,), dtype=values.dtype.element_ty)
    above = tl.sum(total, axis=0)
    while (begin < count) & (above < 1):
        place = begin + tl.arange(0, CHUNK)
        row = row_at(place, low, high, IS_TOP)
        strength = tl.load(strengths + row, mask=place < count, other=0.0, cache_modifier=".cg")
        nearer = nearer_sum(strengths, begin, count, low, high, above, CHUNK, IS_TOP)
        room = tl.where(nearer < 1, 1 - nearer, 0.0)
        weight = tl.where(strength > room, room, strength)
        for part in range(CHUNK // PART):
            some = part_of(weight, part, CHUNK, PART)
            if tl.max(some, axis=0) > 0:
                at = row_at(begin + part * PART + tl.arange(0, PART), low, high, IS_TOP)
                value = tl.load(
                    values + at.to(tl.int64)[:, None] * M + column[None, :],
                    mask=(some > 0)[:, None] & (column < M)[None, :],
                    other=0.0,
                    cache_modifier=".cg",
                )
                total += tl.sum(some[:, None] * value, axis=0)
        above += tl.sum(strength, axis=0)
        begin += CHUNK
    tl.store(read_vector + column, total, mask=column < M)


@triton.jit
def rows_phase(
    b, t, values, strengths, pushes_pops, changes, kept, grave_codes, grave_strengths, read_vectors,
    has_nan, lengths, T, B, N, N0, M,
    KIND: tl.constexpr, ENDS: tl.constexpr, CHUNK: tl.constexpr, PART: tl.constexpr,
    WIDTH: tl.constexpr, SAVES: tl.constexpr,
):  # fmt: skip
    """Pop, push and read in sequence b.

    values [B, N, M], strengths [B, N]; pushes_pops [T, B, 2 ENDS]; changes, kept [B, T, ENDS] and
    grave_codes, grave_strengths [B, N]: records of the pops; read vectors [T, B, ENDS M].
    """
    if t < tl.load(lengths + b):
        low, high = first_row(t, T, KIND), pushed_row(0, t, T, N0, KIND)
        own = b.to(tl.int64) * N
        gates = pushes_pops + (t * B + b).to(tl.int64) * (2 * ENDS)
        note = (b.to(tl.int64) * T + t) * ENDS
        read_vector = read_vectors + (t * B + b).to(tl.int64) * (ENDS * M)
        code = 1 + t * ENDS
        push = tl.load(gates, cache_modifier=".cg")
        amount = tl.load(gates + 1, cache_modifier=".cg")
        # Nearer rows would hide a NaN here, but the sums of eq. 1-11 do not hide it.
        column = tl.arange(0, WIDTH)
        value = tl.load(
            values + (own + high) * M + column, mask=column < M, other=0.0, cache_modifier=".cg"
        )
        bad = (push != push) | (amount != amount) & (high > low)
        bad = bad | (tl.max((value != value).to(tl.int32), axis=0) > 0)
        if KIND != 1:
            pop(
                strengths + own, amount, code, low, high, grave_codes + own, grave_strengths + own,
                changes + note, kept + note, CHUNK, True, SAVES,
            )  # fmt: skip
        else:
            pop(
                strengths + own, amount, code, low, high, grave_codes + own, grave_strengths + own,
                changes + note, kept + note, CHUNK, False, SAVES,
            )  # fmt: skip
        tl.debug_barrier()
        if KIND == 2:
            bottom = tl.load(gates + 2, cache_modifier=".cg")
            amount = tl.load(gates + 3, cache_modifier=".cg")
            value = tl.load(
                values + (own + low - 1) * M + column, mask=column < M, other=0.0,
                cache_modifier=".cg",
            )  # fmt: skip
            bad = bad | (bottom != bottom) | (amount != amount) & (high > low)
            bad = bad | (tl.max((value != value).to(tl.int32), axis=0) > 0)
            pop(
                strengths + own, amount, code + 1, low, high, grave_codes + own,
                grave_strengths + own, changes + note + 1, kept + note + 1, CHUNK, False, SAVES,
            )  # fmt: skip
            low -= 1
            tl.store(strengths + own + low, bottom)
        tl.store(strengths + own + high, push)
        high += 1
        tl.debug_barrier()
        if KIND != 1:
            read(
                strengths + own,
                values + own * M,
                read_vector,
                low,
                high,
                M,
                CHUNK,
                PART,
                WIDTH,
                True,
            )
        if KIND != 0:
            bottom_read_vector = read_vector + (ENDS - 1) * M
            read(
                strengths + own, values + own * M, bottom_read_vector, low, high, M, CHUNK, PART,
                WIDTH,
                False,
            )  # fmt: skip
        if bad:
            tl.store(has_nan + b, 1)
        tl.debug_barrier()
        if tl.load(has_nan + b, cache_modifier=".cg") != 0:
            none = tl.zeros((WIDTH,), dtype=push.dtype) + float("nan")
            for end in range(ENDS):
                tl.store(read_vector + end * M + column, none, mask=column < M)
