"""Numbers too small for their exponent are taken for 0 while a run is at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: Elements for each thread that are enough for torch to begin it (its grain for simple operations).
_A_THREADS = 32768


@contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Take numbers below 1.2e-38 (float32) or 2.2e-308 (float64) for 0 in this thread; a decorator.

    A processor computes such numbers many times as slowly. The kernels take them for 0 themselves;
    here torch does too: the squares of a gradient whose norm is looked at come to them long before
    the gradient, and torch's own recurrent layers keep them. It holds for the calling thread,
    Python's numbers there included, and where the processor offers it; afterwards all is as before,
    if the number of torch's threads stays what it is.
    """
    before = bool(torch.tensor(1e-30).mul(1e-10) == 0)
    if not before:
        # A thread begins as the one that begins it is: torch's begin before, and stay as they are.
        torch.zeros(torch.get_num_threads() * _A_THREADS).add_(1)
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if not before:
            torch.set_flush_denormal(False)
