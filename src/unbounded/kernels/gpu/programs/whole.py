"""The forward and backward programs, which run all phases of all steps or one phase of one step.

On a device, all programs of a launch run simultaneously, step after step. The programs wait for
each other between two phases (RUNS is ALL). If programs run sequentially, as in Triton's
interpreter, each phase is a separate launch.
"""

from __future__ import annotations

import triton
import triton.language as tl

from unbounded.kernels.gpu.programs.cells import (
    before_gradient_phase,
    cell_gradient_phase,
    cell_phase,
)
from unbounded.kernels.gpu.programs.row_gradients import rows_gradient_phase
from unbounded.kernels.gpu.programs.rows import pushed_row, rows_phase
from unbounded.kernels.gpu.programs.tiles import add_product, sigmoid, tanh, wait_for_all


@triton.jit
def heads_phase(
    tile, t, head_weight, head_bias, outputs, values, pushes_pops, lengths, T, B, H, N, N0, M,
    KIND: tl.constexpr, ENDS: tl.constexpr, ROWS: tl.constexpr, BATCH: tl.constexpr,
    CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the instruction of step t: values into their rows, strengths into [T, B, 2 ENDS]."""
    of_end = M + 2
    size = ENDS * of_end
    tiles = tl.cdiv(size, ROWS)
    rows = (tile % tiles) * ROWS + tl.arange(0, ROWS)
    batch = (tile // tiles) * BATCH + tl.arange(0, BATCH)
    length = tl.load(lengths + batch, mask=batch < B, other=0)
    active = (batch < B) & (t < length)
    bias = tl.load(head_bias + rows, mask=rows < size, other=0.0)
    total = bias[:, None] + tl.zeros((ROWS, BATCH), dtype=bias.dtype)
    total = add_product(
        total, head_weight, H, rows, rows < size, outputs + (t * B).to(tl.int64) * H, H, batch,
        active, H, CHUNK, PRECISION,
    )  # fmt: skip
    mask = (rows < size)[:, None] & active[None, :]
    end, place = rows // of_end, rows % of_end
    row = pushed_row(end, t, T, N0, KIND)
    at = (batch.to(tl.int64)[None, :] * N + row[:, None]) * M + place[:, None]
    tl.store(values + at, tanh(total), mask=mask & (place < M)[:, None])
    strength = (t * B + batch).to(tl.int64)[None, :] * (2 * ENDS) + (2 * end + place - M)[:, None]
    tl.store(pushes_pops + strength, sigmoid(total), mask=mask & (place >= M)[:, None])


#: Values of RUNS: all phases, or one of the three phases.
ALL = 3


@triton.jit(do_not_specialize=["begin", "steps", "T", "B", "N", "N0"])
def forward_program(
    begin, steps, counter, of_x, weight, head_weight, head_bias, hidden0, outputs, cell0, cells,
    read_vector0, read_vectors, gates, values, strengths, pushes_pops, changes, kept, grave_codes,
    grave_strengths, has_nan, lengths, T, B, H, R, K, N, N0, M,
    CELL: tl.constexpr, LANES: tl.constexpr, KIND: tl.constexpr, ENDS: tl.constexpr,
    UNITS: tl.constexpr, ROWS: tl.constexpr, BATCH: tl.constexpr, CHUNK: tl.constexpr,
    SCAN: tl.constexpr, PART: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    SAVES: tl.constexpr, RUNS: tl.constexpr,
):  # fmt: skip
    own, programs = tl.program_id(0), tl.num_programs(0)
    batches = tl.cdiv(B, BATCH)
    target = programs * 0
    for step in range(0, steps):
        t = begin + step
        if RUNS == 0 or RUNS == 3:
            for tile in range(own, tl.cdiv(H, UNITS) * batches, programs):
                cell_phase(
                    tile, t, of_x, weight, hidden0, outputs, cell0, cells, read_vector0,
    read_vectors,
                    gates, lengths, B, H, R, CELL, LANES, UNITS, BATCH, CHUNK, PRECISION, SAVES,
                )  # fmt: skip
        if RUNS == 3:
            target += programs
            wait_for_all(counter, target)
        if RUNS == 1 or RUNS == 3:
            for tile in range(own, tl.cdiv(K, ROWS) * batches, programs):
                heads_phase(
                    tile, t, head_weight, head_bias, outputs, values, pushes_pops, lengths, T, B, H,
                    N, N0, M, KIND, ENDS, ROWS, BATCH, CHUNK, PRECISION,
                )  # fmt: skip
        if RUNS == 3:
            target += programs
            wait_for_all(counter, target)
        if RUNS == 2 or RUNS == 3:
            for turn in range(0, tl.cdiv(B - own, programs)):
                b = own + turn * programs
                rows_phase(
                    b, t, values, strengths, pushes_pops, changes, kept, grave_codes,
                    grave_strengths, read_vectors, has_nan, lengths, T, B, N, N0, M, KIND, ENDS,
                    SCAN,
                    PART, WIDTH, SAVES,
                )  # fmt: skip
        if RUNS == 3:
            target += programs
            wait_for_all(counter, target)


@triton.jit(do_not_specialize=["begin", "steps", "T", "B", "N", "N0"])
def backward_program(
    begin, steps, counter, weight, head_weight, hidden0, outputs, cell0, cells, gates, values,
    strengths, pushes_pops, changes, kept, grave_codes, grave_strengths, of_strengths, of_values,
    of_outputs, of_read_vectors, of_hidden, of_cell, of_read_vector, of_gates, of_heads, lengths,
    T, B, H, R, K, N, N0, M,
    CELL: tl.constexpr, LANES: tl.constexpr, KIND: tl.constexpr, ENDS: tl.constexpr,
    UNITS: tl.constexpr, ROWS: tl.constexpr, BATCH: tl.constexpr, CHUNK: tl.constexpr,
    SCAN: tl.constexpr, PART: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    RUNS: tl.constexpr,
):  # fmt: skip
    own, programs = tl.program_id(0), tl.num_programs(0)
    batches = tl.cdiv(B, BATCH)
    target = programs * 0
    for step in range(0, steps):
        t = begin - step
        if RUNS == 0 or RUNS == 3:
            for turn in range(0, tl.cdiv(B - own, programs)):
                b = own + turn * programs
                rows_gradient_phase(
                    b, t, values, strengths, pushes_pops, changes, kept, grave_codes,
                    grave_strengths, of_strengths, of_values, of_read_vectors, of_read_vector,
                    of_heads,
                    lengths, T, B, K, N, N0, M, KIND, ENDS, SCAN, PART, WIDTH,
                )  # fmt: skip
        if RUNS == 3:
            target += programs
            wait_for_all(counter, target)
        if RUNS == 1 or RUNS == 3:
            for tile in range(own, tl.cdiv(H, UNITS) * batches, programs):
                cell_gradient_phase(
                    tile, t, head_weight, of_heads, hidden0, outputs, cell0, cells, gates,
                    of_outputs, of_hidden, of_cell, of_gates, lengths, B, H, K, CELL, LANES, UNITS,
                    BATCH, CHUNK, PRECISION,
                )  # fmt: skip
        if RUNS == 3:
            target += programs
            wait_for_all(counter, target)
        if RUNS == 2 or RUNS == 3:
            for tile in range(own, tl.cdiv(R + H, ROWS) * batches, programs):
                before_gradient_phase(
                    tile, t, weight, of_gates, of_hidden, of_read_vector, lengths, B, H, R, LANES,
                    ROWS,
                    BATCH, CHUNK, PRECISION,
                )  # fmt: skip
        if RUNS == 3:
            target += programs
            wait_for_all(counter, target)
