"""The gradients of `rows`. Each step is undone, which restores the previous rows.

At a tie the derivative goes to the left argument of max(0, z) and min(s, z) (footnote 1). So a row
that a pop reduced to 0, or that already was 0, has no derivative through its own strength. The row
still has the derivative through the sums over nearer rows. When the removal of a row is undone, its
gradient therefore restarts with this part. Gradients accumulated while the row's strength was 0 are
discarded.
"""

from __future__ import annotations

import triton
import triton.language as tl

from unbounded.kernels.gpu.programs.rows import (
    first_row,
    nearer_sum,
    part_of,
    place_of,
    pushed_row,
    row_at,
)


@triton.jit
def read_back(
    strengths, values, of_strengths, of_values, of_read_vector, pushed, other, low, high, M,
    CHUNK: tl.constexpr, PART: tl.constexpr, WIDTH: tl.constexpr, IS_TOP: tl.constexpr,
):  # fmt: skip
    """Add a read vector's gradient [M] to the gradients of strengths [N] and values [N, M].

    pushed, other: the rows of this step, whose strength counts even if it is 0.
    """
    count = high - low
    begin = count * 0
    column = tl.arange(0, WIDTH)
    of_read = tl.load(of_read_vector + column, mask=column < M, other=0.0, cache_modifier=".cg")
    above = tl.sum(of_read, axis=0) * 0.0
    of_room = above
    last = begin - 1  # the place of the partly read row
    while (begin < count) & (above < 1):
        place = begin + tl.arange(0, CHUNK)
        row = row_at(place, low, high, IS_TOP)
        mask = place < count
        strength = tl.load(strengths + row, mask=mask, other=0.0, cache_modifier=".cg")
        nearer = nearer_sum(strengths, begin, count, low, high, above, CHUNK, IS_TOP)
        room = tl.where(nearer < 1, 1 - nearer, 0.0)
        is_room = strength > room
        weight = tl.where(is_room, room, strength)
        counts = mask & ((strength > 0) | (row == pushed) | (row == other))
        expected = counts & ((weight > 0) | (strength <= room))
        of_weight = tl.zeros((CHUNK // PART, PART), dtype=of_read.dtype)
        which = tl.arange(0, CHUNK // PART)[:, None]
        for part in range(CHUNK // PART):
            some = part_of(expected.to(tl.int32), part, CHUNK, PART) > 0
            if tl.max(some.to(tl.int32), axis=0) > 0:
                at = row_at(begin + part * PART + tl.arange(0, PART), low, high, IS_TOP)
                cell = at.to(tl.int64)[:, None] * M + column[None, :]
                inside = some[:, None] & (column < M)[None, :]
                value = tl.load(values + cell, mask=inside, other=0.0, cache_modifier=".cg")
                products = tl.sum(value * of_read[None, :], axis=1)
                of_weight = tl.where(which == part, products[None, :], of_weight)
                by = part_of(weight, part, CHUNK, PART)
                added = tl.load(of_values + cell, mask=inside, other=0.0, cache_modifier=".cg")
                added += by[:, None] * of_read[None, :]
                tl.store(of_values + cell, added, mask=inside)
        of_weight = tl.reshape(of_weight, (CHUNK,))
        own = expected & (strength <= room)
        before = tl.load(of_strengths + row, mask=own, other=0.0, cache_modifier=".cg")
        tl.store(of_strengths + row, before + of_weight, mask=own)
        partial = expected & is_room
        first = tl.min(tl.where(partial, place, count), axis=0)
        if (last < 0) & (first < count):
            last = first
            of_room = tl.sum(tl.where(place == first, of_weight, 0.0), axis=0)
        above += tl.sum(strength, axis=0)
        begin += CHUNK
    # A row of this step beyond the read rows, with strength 0 and no remaining weight, is a tie.
    for which_row in range(2):
        row = tl.where(which_row == 0, pushed, other)
        place = place_of(row, low, high, IS_TOP)
        if (place >= begin) & ((which_row == 0) | (other != pushed)):
            if tl.load(strengths + row, cache_modifier=".cg") == 0:
                value = tl.load(
                    values + row.to(tl.int64) * M + column, mask=column < M, other=0.0,
                    cache_modifier=".cg",
                )  # fmt: skip
                before = tl.load(of_strengths + row, cache_modifier=".cg")
                tl.store(of_strengths + row, before + tl.sum(value * of_read, axis=0))
    tl.debug_barrier()
    begin = count * 0
    while begin < last:
        place = begin + tl.arange(0, CHUNK)
        row = row_at(place, low, high, IS_TOP)
        mask = place < last
        before = tl.load(of_strengths + row, mask=mask, other=0.0, cache_modifier=".cg")
        tl.store(of_strengths + row, before - of_room, mask=mask)
        begin += CHUNK
    tl.debug_barrier()


@triton.jit
def pop_back(
    strengths, of_strengths, amount, code, low, high, grave_codes, grave_strengths, change, kept,
    fresh, other, initial, initial_count,
    CHUNK: tl.constexpr, IS_TOP: tl.constexpr,
):  # fmt: skip
    """Undo a pop: restore strengths and their gradients. Return the gradient of the pop's amount.

    fresh, other: rows pushed in the previous step, or a row below `low`; initial, initial_count:
    initial rows, in the first step. Among these rows, a row of strength 0 counts as dead without a
    pop.
    """
    count = high - low
    begin = count * 0
    row_changed = tl.load(change)
    was = tl.load(kept)
    through = was * 0.0
    place_changed = count
    if row_changed >= 0:
        through = tl.load(of_strengths + row_changed, cache_modifier=".cg")
        place_changed = place_of(row_changed, low, high, IS_TOP)
        tl.debug_barrier()
        tl.store(strengths + row_changed, was)
    tl.debug_barrier()
    above = was * 0.0
    while (begin < count) & (above < amount):
        place = begin + tl.arange(0, CHUNK)
        row = row_at(place, low, high, IS_TOP)
        mask = place < count
        died = mask & (tl.load(grave_codes + row, mask=mask, other=0) == code)
        strength = tl.load(strengths + row, mask=mask, other=0.0, cache_modifier=".cg")
        strength = tl.where(died, tl.load(grave_strengths + row, mask=died, other=0.0), strength)
        tl.debug_barrier()
        tl.store(strengths + row, strength, mask=died)
        tl.store(of_strengths + row, tl.zeros_like(strength) + through, mask=died)
        above += tl.sum(strength, axis=0)
        begin += CHUNK
    tl.debug_barrier()
    for which_row in range(2):
        row = tl.where(which_row == 0, fresh, other)
        if row >= low:
            if tl.load(strengths + row, cache_modifier=".cg") == 0:
                place = place_of(row, low, high, IS_TOP)
                nearer = (row_changed >= 0) & (place < place_changed)
                tl.store(of_strengths + row, tl.where(nearer, through, 0.0))
    begin = count * 0
    while begin < initial_count:
        row = initial + begin + tl.arange(0, CHUNK)
        mask = row < initial + initial_count
        strength = tl.load(strengths + row, mask=mask, other=1.0, cache_modifier=".cg")
        place = place_of(row, low, high, IS_TOP)
        nearer = (row_changed >= 0) & (place < place_changed)
        tl.store(of_strengths + row, tl.where(nearer, through, 0.0), mask=mask & (strength == 0))
        begin += CHUNK
    tl.debug_barrier()
    return -through


@triton.jit
def push_back(values, of_strengths, of_values, gates, of_heads, row, M, WIDTH: tl.constexpr):
    """Compute the gradients of the value and push heads' outputs, before their activations."""
    column = tl.arange(0, WIDTH)
    at = row.to(tl.int64) * M + column
    value = tl.load(values + at, mask=column < M, other=0.0)
    of_value = tl.load(of_values + at, mask=column < M, other=0.0, cache_modifier=".cg")
    tl.store(of_heads + column, of_value * (1.0 - value * value), mask=column < M)
    push = tl.load(gates)
    of_push = tl.load(of_strengths + row, cache_modifier=".cg")
    tl.store(of_heads + M, of_push * push * (1.0 - push))


@triton.jit
def rows_gradient_phase(
    b, t, values, strengths, pushes_pops, changes, kept, grave_codes, grave_strengths, of_strengths,
    of_values, of_read_vectors, of_read_vector, of_heads, lengths, T, B, K, N, N0, M,
    KIND: tl.constexpr, ENDS: tl.constexpr, CHUNK: tl.constexpr, PART: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Undo step t of sequence b.

    of_read_vectors [T, B, ENDS M]: of the result; of_read_vector [B, ENDS M]: from the next step,
    to which the result's is added; of_heads [T, B, K], where K may be padded. strengths [B, N] is a
    copy that goes back in time.
    """
    if t < tl.load(lengths + b):
        own = b.to(tl.int64) * N
        gates = pushes_pops + (t * B + b).to(tl.int64) * (2 * ENDS)
        note = (b.to(tl.int64) * T + t) * ENDS
        heads = of_heads + (t * B + b).to(tl.int64) * K
        top = pushed_row(0, t, T, N0, KIND)
        bottom = pushed_row(ENDS - 1, t, T, N0, KIND)
        low, high = first_row(t, T, KIND), top
        column = tl.arange(0, WIDTH)
        for end in range(ENDS):
            at = b * (ENDS * M) + end * M + column
            total = tl.load(of_read_vector + at, mask=column < M, other=0.0, cache_modifier=".cg")
            total += tl.load(
                of_read_vectors + (t * B).to(tl.int64) * (ENDS * M) + at, mask=column < M, other=0.0
            )
            tl.store(of_read_vector + at, total, mask=column < M)
        tl.debug_barrier()
        first = low
        if KIND == 2:
            first = low - 1
        mine = of_read_vector + b * (ENDS * M)
        if KIND != 1:
            read_back(
                strengths + own, values + own * M, of_strengths + own, of_values + own * M, mine,
                top, bottom, first, high + 1, M, CHUNK, PART, WIDTH, True,
            )  # fmt: skip
        if KIND != 0:
            read_back(
                strengths + own, values + own * M, of_strengths + own, of_values + own * M,
                mine + (ENDS - 1) * M, top, bottom, first, high + 1, M, CHUNK, PART, WIDTH, False,
            )  # fmt: skip
        push_back(
            values + own * M, of_strengths + own, of_values + own * M, gates, heads, top, M, WIDTH
        )
        if KIND == 2:
            push_back(
                values + own * M, of_strengths + own, of_values + own * M, gates + 2,
                heads + M + 2, bottom, M, WIDTH,
            )  # fmt: skip
        # Rows that may be 0 although no pop removed them: rows of the previous step, and initial
        # rows.
        fresh = pushed_row(0, t - 1, T, N0, KIND)
        other = pushed_row(ENDS - 1, t - 1, T, N0, KIND)
        initial_count = low * 0
        if t == 0:
            fresh, other = low - 1, low - 1
            initial_count += N0
        code = 1 + t * ENDS
        if KIND == 2:
            amount = tl.load(gates + 3)
            of_pop = pop_back(
                strengths + own, of_strengths + own, amount, code + 1, low, high, grave_codes + own,
                grave_strengths + own, changes + note + 1, kept + note + 1, fresh, other, low,
                initial_count, CHUNK, False,
            )  # fmt: skip
            tl.store(heads + 2 * M + 3, of_pop * amount * (1.0 - amount))
        amount = tl.load(gates + 1)
        if KIND != 1:
            of_pop = pop_back(
                strengths + own, of_strengths + own, amount, code, low, high, grave_codes + own,
                grave_strengths + own, changes + note, kept + note, fresh, other, low,
                initial_count, CHUNK, True,
            )  # fmt: skip
        else:
            of_pop = pop_back(
                strengths + own, of_strengths + own, amount, code, low, high, grave_codes + own,
                grave_strengths + own, changes + note, kept + note, fresh, other, low,
                initial_count, CHUNK, False,
            )  # fmt: skip
        tl.store(heads + M + 1, of_pop * amount * (1.0 - amount))
