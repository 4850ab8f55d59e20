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
    cuDNN follow it too, which left alone round to TF32 (10 bits) whatever torch's precision is,
    unless the process has set their precision. Afterwards that is as before.

    Args:
        precision: highest, high or medium; None for torch's own, which is left alone.
    Raises:
        ConfigError: the process has set torch.backends.*.fp32_precision, beside which torch does
            not say what its precision is.
    """
    before = _own()
    if precision is not None and before is None:
        text = (
            "machine.matmul_precision: this process has set torch.backends.*.fp32_precision; "
            "leave one of the two as it is"
        )
        raise ConfigError([text])
    with _of_cudnn(precision or before):
        if precision is None or before is None:
            yield
            return
        torch.set_float32_matmul_precision(precision)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)


def _own() -> str | None:
    """Torch's precision; None where the process has set what torch does not say in one word."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


@contextmanager
def _of_cudnn(precision: str | None) -> Iterator[None]:
    """Let cudnn round as that precision allows; as the process has it where that has chosen."""
    cudnn = torch.backends.cudnn
    try:
        before = None if precision is None else cudnn.allow_tf32
    except RuntimeError:
        before = None
    if before is None:
        yield
        return
    cudnn.allow_tf32 = precision != "highest"
    try:
        yield
    finally:
        cudnn.allow_tf32 = before
