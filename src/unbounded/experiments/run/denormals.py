"""Flush denormal numbers to zero during a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Elements per thread from which torch starts a thread (its grain for simple operations).
_A_THREADS = 32768


@contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Context manager and decorator that flushes denormals to zero in this thread.

    Denormals, below 1.2e-38 (float32) or 2.2e-308 (float64), are many times slower. The kernels
    flush them themselves; this setting does it in torch. They arise in squares of gradients, long
    before the gradients themselves, and persist in torch's recurrent layers. It applies to the
    calling thread, including Python's numbers, if the processor supports it. The former setting is
    restored afterwards, if the number of torch's threads is unchanged.
    """
    before = bool(torch.tensor(1e-30).mul(1e-10) == 0)
    if not before:
        # A thread inherits the setting of its parent. Start torch's threads first, so that they
        # keep the former setting.
        torch.zeros(torch.get_num_threads() * _A_THREADS).add_(1)
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if not before:
            torch.set_flush_denormal(False)
