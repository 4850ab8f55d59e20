"""The precision of products in float32 while a run is at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unbounded.errors import ConfigError


@contextmanager
def matmul_precision(precision: str | None) -> Iterator[None]:
    """Compute products in float32 with less than all of their bits; a decorator.

    Of all of torch, and of the fused kernels for the CPU where the processor has products of
    bfloat16 numbers (AMX): "high" takes a number for two of these, "medium" for one. The LSTMs of
    cuDNN follow it too: left alone they round to TF32 (10 bits) whatever torch's precision is.
    Afterwards all is as before.

    Args:
        precision: highest, high or medium; None leaves it as it is.
    Raises:
        ConfigError: the process has set torch.backends.*.fp32_precision, beside which torch does
            not say what its precision is.
    """
    cudnn = torch.backends.cudnn
    try:
        before, rounded = torch.get_float32_matmul_precision(), cudnn.allow_tf32
    except RuntimeError as error:
        if precision is None:
            yield
            return
        text = (
            "machine.matmul_precision: this process has set torch.backends.*.fp32_precision; "
            "leave one of the two as it is"
        )
        raise ConfigError([text]) from error
    wanted = precision or before
    torch.set_float32_matmul_precision(wanted)
    cudnn.allow_tf32 = wanted != "highest"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        cudnn.allow_tf32 = rounded
