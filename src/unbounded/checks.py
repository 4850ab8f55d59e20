"""Checks of user arguments. Messages name the argument, the expected and the actual value."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unbounded.errors import ChoiceError, ConfigError, DeviceError, DTypeError, ShapeError

ItemT = TypeVar("ItemT")

FROM_LIST = "torch.tensor makes one of a list."
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATING = (torch.float32, torch.float64)
#: The largest accepted number, within float32.
_GREATEST = 3.4e38
#: The largest accepted size.
_LARGEST_SIZE: Final = 2**31 - 1


def check_tensor(name: str, value: object, instead: str = "") -> None:
    """Raise DTypeError unless `value` is a tensor.

    Args:
        instead: advice for the message.
    """
    if not isinstance(value, Tensor):
        if isinstance(value, PackedSequence):
            instead = "Give the padded tensor and `lengths`: pad_packed_sequence gives both."
        raise DTypeError(
            f"{name}: expected a tensor, got {type(value).__name__}. {instead}".strip()
        )


def check_shape(name: str, tensor: Tensor, expected: tuple[int | str, ...]) -> None:
    """Raise ShapeError unless `tensor` has the expected axes.

    Args:
        name: the argument's name, for the message.
        tensor: the tensor to check.
        expected: one entry per axis; an int must match, a str names a free axis.
    """
    check_tensor(name, tensor)
    got = tuple(tensor.shape)
    fits = len(got) == len(expected) and all(
        isinstance(axis, str) or axis == size for axis, size in zip(expected, got, strict=True)
    )
    if not fits:
        shape = "[" + ", ".join(str(size) for size in expected) + "]"
        raise ShapeError(f"{name}: expected shape {shape}, got {list(got)}.")


def check_like(name: str, tensor: Tensor, reference_name: str, reference: Tensor) -> None:
    """Raise DTypeError or DeviceError unless `tensor` has the dtype and device of `reference`."""
    if tensor.dtype != reference.dtype:
        raise DTypeError(
            f"{name}: expected dtype {reference.dtype} as {reference_name} has, got "
            f"{tensor.dtype}. Convert it with .to({reference.dtype})."
        )
    if tensor.device != reference.device:
        raise DeviceError(
            f"{name}: expected device {reference.device} as {reference_name} has, got "
            f"{tensor.device}. Move it with .to({str(reference.device)!r})."
        )


def check_floating(name: str, tensor: Tensor) -> None:
    """Raise DTypeError unless `tensor` is float32 or float64."""
    if tensor.dtype not in FLOATING:
        raise DTypeError(f"{name}: expected dtype float32 or float64, got {tensor.dtype}.")


def check_dtype(dtype: object) -> None:
    """Raise DTypeError unless `dtype` is a floating-point dtype or None."""
    if dtype is None or (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        return
    raise DTypeError(
        f"dtype: expected a floating-point dtype such as torch.float32, got {dtype!r}."
    )


def check_bool(name: str, value: object) -> None:
    """Raise DTypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise DTypeError(f"{name}: expected a bool, got {value!r}.")


def check_positive(name: str, value: int | torch.SymInt | Tensor) -> None:
    """Raise ShapeError unless `value` is an integer of at least 1."""
    check_size(name, value, 1)


def check_size(name: str, value: int | torch.SymInt | Tensor, least: int = 0) -> None:
    """Raise ShapeError unless `value` is an integer from `least` to 2**31 - 1.

    Symbolic sizes, in a graph that is being captured or traced, are accepted.
    """
    if isinstance(value, torch.SymInt) or (isinstance(value, Tensor) and is_traced()):
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        advice = " Convert it with int()." if type(value).__module__ == "numpy" else ""
        raise ShapeError(f"{name}: expected an integer >= {least}, got {value!r}.{advice}")
    if value > _LARGEST_SIZE:
        raise ShapeError(f"{name}: expected an integer of at most {_LARGEST_SIZE}, got {value}.")


def check_number(name: str, value: float) -> None:
    """Raise ConfigError unless `value` is a number that is finite in float32."""
    errors = number_errors(name, value)
    if errors:
        raise ConfigError(errors)


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a number, not a bool, and finite in float32."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _GREATEST


def number_errors(
    name: str, value: object, above: float | None = None, at_most: float | None = None
) -> list[str]:
    """The error of an option that must be a number, as a list of at most one line.

    Args:
        above: exclusive lower bound; None for none.
        at_most: inclusive upper bound; None for none.
    """
    bounds = "" if above is None else f" above {above:g}"
    if at_most is not None:
        bounds += f"{',' if bounds else ''} at most {at_most:g}"
    if is_number(value):
        is_above, is_below = above is None or value > above, at_most is None or value <= at_most
        if is_above and is_below:
            return []
    return [f"{name}: expected a finite number{bounds}, got {value!r}"]


def check_module(name: str, value: object) -> None:
    """Raise DTypeError unless `value` is a torch.nn.Module."""
    if isinstance(value, nn.Module):
        return
    if isinstance(value, type) and issubclass(value, nn.Module):
        raise DTypeError(
            f"{name}: expected a model, got the class {value.__name__}. Create one: "
            f"{value.__name__}(...)."
        )
    raise DTypeError(f"{name}: expected a torch.nn.Module, got {type(value).__name__}.")


def check_path(name: str, value: object) -> None:
    """Raise DTypeError unless `value` is text or a path."""
    if not isinstance(value, str | os.PathLike):
        raise DTypeError(
            f"{name}: expected a path, got {type(value).__name__}. Give a str or Path."
        )


def is_traced() -> bool:
    """Whether torch.jit.trace is running, in which sizes are tensors."""
    return torch._C._get_tracing_state() is not None


def is_batched(tensor: Tensor) -> bool:
    """Whether a tensor is batched by vmap, so that its values cannot be read.

    The result is True under torch.func.vmap, and in a backward pass with `is_grads_batched`, but
    not under only torch.func.grad. While a graph is captured, the result is False.
    """
    if torch.compiler.is_compiling():
        return False
    functorch = torch._C._functorch
    if functorch.is_legacy_batchedtensor(tensor):
        return True
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            return True
        tensor = functorch.get_unwrapped(tensor)
    return False


def check_lengths(lengths: Tensor | None, batch: int, steps: int | None = None) -> None:
    """Raise unless lengths are int64 [B] in 0..T.

    Args:
        lengths: the lengths; None is valid too.
        steps: T; None skips the check of the values, if a forward pass has checked them. The values
            are also not checked on the meta device, during graph capture (CUDA graphs included) and
            under vmap.
    Raises:
        ShapeError, DTypeError: the lengths are invalid.
    """
    if lengths is None:
        return
    check_tensor("lengths", lengths, FROM_LIST)
    check_shape("lengths", lengths, (batch,))
    if lengths.dtype != torch.int64:
        raise DTypeError(f"lengths: expected dtype int64, got {lengths.dtype}.")
    if steps is None or lengths.is_meta or torch.compiler.is_compiling() or is_batched(lengths):
        return
    if lengths.is_cuda and torch.cuda.is_current_stream_capturing():
        return
    if bool(((lengths < 0) | (lengths > steps)).any()):
        raise ShapeError(
            f"lengths: expected 0..{steps} (the time axis of x), got {lengths.tolist()}."
        )


def check_symbol(name: str, value: object, symbols: int) -> int:
    """Return `value` as an integer; raise ShapeError unless it is in 0..symbols-1."""
    is_one = isinstance(value, Tensor) and value.dim() == 0 and not value.is_meta
    if isinstance(value, Tensor) and is_one and value.dtype in _INTEGERS:
        value = value.item()
    number = None
    if not isinstance(value, bool | Tensor) and hasattr(value, "__index__"):
        with contextlib.suppress(TypeError):  # fails for an array of several numbers
            number = operator.index(value)
    if number is None or not 0 <= number < symbols:
        raise ShapeError(f"{name}: expected a symbol of 0..{symbols - 1}, got {value!r}.")
    return number


def check_kind(name: str, value: object, kind: type, advice: str = "") -> None:
    """Raise DTypeError unless `value` is an instance of `kind`.

    Args:
        advice: a sentence on how to make an instance; empty for none.
    """
    if isinstance(value, kind):
        return
    got = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    raise DTypeError(f"{name}: expected a {kind.__name__}, got {got}. {advice}".strip())


def check_device(value: object, name: str = "device") -> torch.device:
    """Return a device by name; raise DeviceError for unknown devices."""
    try:
        return torch.device(value)  # type: ignore[call-overload, no-any-return]  # a user's
    except (RuntimeError, TypeError, ValueError):
        raise DeviceError(
            f"{name}: expected a device such as 'cpu' or 'cuda', got {value!r}."
        ) from None


def check_callable(name: str, value: object) -> None:
    """Raise DTypeError unless `value` can be called."""
    if not callable(value):
        raise DTypeError(f"{name}: expected a function, got {type(value).__name__}.")


def check_items(name: str, value: object, kind: type[ItemT]) -> Sequence[ItemT]:
    """Return the items of an iterable; raise DTypeError unless all are of type `kind`."""
    items = None
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Tensor):
        items = list(value)
    is_bool = items is not None and kind is not bool and any(isinstance(e, bool) for e in items)
    if items is None or is_bool or not all(isinstance(item, kind) for item in items):
        got = type(value).__name__ if items is None else repr(items)[:60]
        raise DTypeError(f"{name}: expected a list of {kind.__name__}, got {got}.")
    return items


def check_symbols(name: str, value: object) -> Sequence[str]:
    """Return symbols as a list of strings (a string as its letters), or raise DTypeError."""
    return check_items(name, list(value) if isinstance(value, str) else value, str)


def check_choice(kind: str, value: object, valid: Iterable[str]) -> None:
    """Raise ChoiceError unless `value` is one of the names."""
    names = list(valid)
    if not isinstance(value, str) or value not in names:
        raise ChoiceError(kind, value, names)


def check_place(device: object, dtype: object) -> None:
    """Raise DeviceError or DTypeError for invalid values. None means torch's default."""
    if device is not None:
        check_device(device)
    check_dtype(dtype)
