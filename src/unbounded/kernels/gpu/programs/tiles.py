"""Building blocks for all phases, in Triton: tiles of matrix products, activations, a barrier."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def tanh(x):
    # The absolute value is used, so that no power overflows and NaN stays NaN.
    power = tl.exp(-2.0 * tl.abs(x))
    size = (1.0 - power) / (1.0 + power)
    return tl.where(x < 0, -size, size)


@triton.jit
def add_product(
    total, weight, stride, rows, row_mask, taken, taken_stride, batch, batch_mask, size,
    CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return `total` [rows, batch] + weight[rows, :size] taken[batch, :size]^T.

    Values that another program wrote in this launch are read past the first-level cache.
    """
    for begin in range(0, size, CHUNK):
        k = begin + tl.arange(0, CHUNK)
        inside = k < size
        w = tl.load(
            weight + rows[:, None] * stride + k[None, :],
            mask=row_mask[:, None] & inside[None, :],
            other=0.0,
        )
        z = tl.load(
            taken + batch[None, :] * taken_stride + k[:, None],
            mask=batch_mask[None, :] & inside[:, None],
            other=0.0,
            cache_modifier=".cg",
        )
        total = tl.dot(w, z, total, input_precision=PRECISION, out_dtype=total.dtype)
    return total


@triton.jit
def lane_of(parts, lane, LANES: tl.constexpr):
    """Select one of the lanes of [LANES, units, batch]."""
    which = tl.arange(0, LANES)[:, None, None]
    return tl.sum(tl.where(which == lane, parts, 0.0), axis=0)


@triton.jit
def wait_for_all(counter, target):
    """Wait until every program has arrived.

    Each program adds 1 to `counter`, which never decreases.

    The last addition makes the writes of the other programs visible. Without this addition, an old
    copy stays in the first-level cache. Loads that bypass this cache (".cg") use it after all if
    they have less than 16 bytes and a loop has several in flight.
    """
    tl.debug_barrier()
    here = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") + 1
    while here < target:
        here = tl.load(counter, volatile=True)
    tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()
