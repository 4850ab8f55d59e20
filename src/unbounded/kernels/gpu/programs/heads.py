"""The phase of the heads: the instruction of a neural stack, queue or deque."""

from __future__ import annotations

import triton
import triton.language as tl

from unbounded.kernels.gpu.programs.rows import pushed_row
from unbounded.kernels.gpu.programs.tiles import add_product, sigmoid, tanh


@triton.jit
def heads_phase(
    tile, t, head_weight, head_bias, outputs, values, pushes_pops, lengths, T, B, H, N, N0, M,
    KIND: tl.constexpr, ENDS: tl.constexpr, ROWS: tl.constexpr, BATCH: tl.constexpr,
    CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute step t's instruction: values to their rows [B, N, M], strengths to [T, B, 2 ENDS]."""
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
