"""The precision of float32 products during a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unbounded.errors import ConfigError


@contextmanager
def matmul_precision(precision: str | None) -> Iterator[None]:
    """Context manager and decorator that sets the precision of float32 products.

    It applies to torch, and to the fused CPU kernels if the processor multiplies bfloat16 numbers
    (AMX): "high" represents a number by two of these, "medium" by one. cuDNN's LSTMs follow it too,
    unless the process has set their precision; by default they round to TF32 (10 bits) regardless
    of torch's precision. The former precision is restored afterwards.

    Args:
        precision: highest, high or medium; None leaves torch's precision unchanged.
    Raises:
        ConfigError: the process has set torch.backends.*.fp32_precision; then torch does not report
            its precision.
    """
    before = _own()
    if precision is not None and before is None:
        text = (
            "hardware.matmul_precision: this process has set torch.backends.*.fp32_precision; "
            "set only one of the two"
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
    """Torch's precision; None if the process has set torch.backends.*.fp32_precision."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


@contextmanager
def _of_cudnn(precision: str | None) -> Iterator[None]:
    """Let cuDNN use TF32 if the precision allows it; unchanged if the process has set it."""
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
