"""Set the numerics of a run: device, precision of float32 products, and denormals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unbounded.errors import ConfigError
from unbounded.experiments.config.schema import RunConfig


@contextmanager
def matmul_precision(precision: str | None) -> Iterator[None]:
    """Context manager and decorator that sets the precision of float32 products.

    The precision applies to torch. The precision applies to the fused CPU kernels only if the
    processor multiplies bfloat16 numbers (AMX). "high" represents a number by two bfloat16 numbers,
    "medium" by one such number. The precision applies to cuDNN's LSTMs too, unless the process has
    set their precision. By default cuDNN's LSTMs round to TF32 (10 bits) regardless of torch's
    precision. The former precision is restored afterwards.

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
        raise ConfigError(text)
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
    """Let cuDNN use TF32 if the precision allows it, unless the process has set its precision."""
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


#: Number of elements per thread for which torch starts another thread (its grain size for simple
#: operations).
_A_THREADS = 32768


@contextmanager
def denormals_are_zero() -> Iterator[None]:
    """Context manager and decorator that flushes denormals to zero in this thread.

    Denormals, below 1.2e-38 (float32) or 2.2e-308 (float64), are many times slower. The kernels
    always flush them; this setting makes torch flush them too. Denormals arise in squares of
    gradients, long before they arise in gradients, and persist in torch's recurrent layers. The
    setting applies to the calling thread, including Python's numbers, if the processor supports it.
    The former setting is restored afterwards, if the number of torch's threads is unchanged.
    """
    before = bool(torch.tensor(1e-30).mul(1e-10) == 0)
    if not before:
        # A thread inherits the denormal setting of its parent. Start torch's threads first, so that
        # they keep the former setting.
        torch.zeros(torch.get_num_threads() * _A_THREADS).add_(1)
        torch.set_flush_denormal(True)
    try:
        yield
    finally:
        if not before:
            torch.set_flush_denormal(False)


def is_on_cpu(config: RunConfig) -> bool:
    """Whether a run must use the CPU; otherwise accelerate chooses the device."""
    return config.hardware.device == "cpu" or config.training.update == "per_symbol"


def device_of(config: RunConfig) -> torch.device:
    """The device of a run, as accelerate chooses it (build.py)."""
    if not is_on_cpu(config) and torch.cuda.is_available():
        return torch.device("cuda")
    if not is_on_cpu(config) and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
