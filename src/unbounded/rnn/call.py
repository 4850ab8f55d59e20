"""The arguments of a recurrent layer's call: checks, and the input forms of torch.nn.LSTM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from operator import index
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from unbounded.checks import check_floating, check_lengths, check_like, check_shape, check_tensor
from unbounded.errors import DeviceError, DTypeError, ShapeError

#: The largest int64.
_MOST = 2**63 - 1
#: The types of a layer's argument `lengths`.
Lengths = Tensor | Sequence[int] | None


def check_inputs(x: Tensor, like: Tensor) -> None:
    """Check inputs [T, B, I]. The messages contain their name.

    Args:
        like: one of the layer's parameters.
    Raises:
        DTypeError, DeviceError: they disagree with the parameters.
    """
    check_like("x", x, "the layer", like)
    check_floating("x", x)


@overload
def as_lengths(lengths: None, device: torch.device, name: str = ...) -> None: ...
@overload
def as_lengths(
    lengths: Tensor | Sequence[int], device: torch.device, name: str = ...
) -> Tensor: ...
def as_lengths(lengths: Lengths, device: torch.device, name: str = "lengths") -> Tensor | None:
    """Return lengths as an int64 tensor on a device.

    Lists, tuples and other integers are converted.

    Raises:
        DTypeError: they are not integers, or have no order. DeviceError: they are on meta only.
    """
    if isinstance(lengths, Tensor) and lengths.is_meta and device.type != "meta":
        raise DeviceError(
            f"{name}: expected a tensor with values, got one on the meta device. Give a list, or a "
            f"tensor on {device}."
        )
    if lengths is None or (isinstance(lengths, Tensor) and lengths.dtype == torch.int64):
        return None if lengths is None else lengths.to(device)
    if not isinstance(lengths, Tensor):
        values: object = lengths
        has_order = not isinstance(values, Set | Mapping)
        try:  # lengths in a set do not belong to particular sequences
            numbers = [None if isinstance(n, bool) or not has_order else index(n) for n in lengths]
        except TypeError:  # not a sequence, or not of integers
            numbers = [None]
        if None in numbers:
            raise DTypeError(
                f"{name}: expected integers, one per sequence, got {type(lengths).__name__} "
                f"{str(lengths)[:60]}. Give a list of them or a tensor."
            )
        if not all(abs(number) <= _MOST for number in numbers if number is not None):
            raise ShapeError(f"{name}: expected integers of 64 bits, got {str(lengths)[:60]}.")
        return torch.tensor(numbers, dtype=torch.int64, device=device)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise DTypeError(f"{name}: expected integers, one per sequence, got {lengths.dtype}.")
    return lengths.to(device=device, dtype=torch.int64)


@dataclass(frozen=True)
class Call:
    """The inputs of a call with steps first, and the layout of its output.

    Fields:
        x: [T, B, I]. lengths: int64 [B] or None.
        batch_first: whether outputs are [B, T, ...]. unbatched: whether they have no B.
        packed: the input if it was a PackedSequence; the output is then packed likewise.
    """

    x: Tensor
    lengths: Tensor | None
    batch_first: bool
    unbatched: bool = False
    packed: PackedSequence | None = None

    def laid_out(self, output: Tensor) -> Tensor | PackedSequence:
        """Give an output [T, B, O] the layout of the input."""
        if self.packed is not None and self.lengths is not None:
            return _packed_like(self.packed, output, self.lengths)
        if self.unbatched:
            return output.squeeze(1)
        return output.transpose(0, 1) if self.batch_first else output


def new_call(x: Tensor | PackedSequence, lengths: Lengths, width: int, batch_first: bool) -> Call:
    """Convert inputs to the form that the loop requires.

    Args:
        x: [T, B, I]; [B, T, I] with `batch_first`; [T, I] unbatched; or a PackedSequence.
        lengths: see `as_lengths`; None for a PackedSequence.
        width: I.
    Raises:
        ShapeError, DTypeError: an argument is invalid; the message names it.
    """
    if isinstance(x, PackedSequence):
        if lengths is not None:
            raise ShapeError("lengths: expected None, because x is packed and has its own.")
        padded, its_lengths = pad_packed_sequence(x)
        check_shape("x.data", x.data, ("steps", width))
        return Call(padded, its_lengths.to(padded.device), batch_first, packed=x)
    check_tensor("x", x)
    lengths_tensor = as_lengths(lengths, x.device)
    is_unbatched = x.dim() == 2
    if is_unbatched:
        check_shape("x", x, ("T", width))
        steps_first = x.unsqueeze(1)
    else:
        check_shape("x", x, (*(("B", "T") if batch_first else ("T", "B")), width))
        steps_first = x.transpose(0, 1) if batch_first else x
    if steps_first.shape[0] == 0:
        raise ShapeError(f"x: expected at least one step, got {list(x.shape)}.")
    if x.layout != torch.strided:
        raise DTypeError(
            f"x: expected a dense tensor, got {x.layout}. Convert it with .to_dense()."
        )
    return Call(
        without_padding(steps_first, lengths_tensor), lengths_tensor, batch_first, is_unbatched
    )


def without_padding(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Set inputs [T, B, I] to 0 beyond their lengths, so that padding has no effect."""
    if lengths is None or lengths.shape != x.shape[1:2]:
        return x  # a later check names a wrong number of lengths
    steps = torch.arange(x.shape[0], device=x.device).unsqueeze(1)
    return torch.where((steps < lengths).unsqueeze(-1), x, 0)


def _packed_like(packed: PackedSequence, output: Tensor, lengths: Tensor) -> PackedSequence:
    order = packed.sorted_indices
    if order is not None:
        output, lengths = output[:, order], lengths[order]
    data = pack_padded_sequence(output, lengths.cpu()).data
    return packed._replace(data=data)


def check_sequences(x: Tensor, lengths: Tensor | None) -> None:
    """Check lengths against inputs [T, B, I], if no kernel checks them."""
    check_lengths(lengths, x.shape[1], x.shape[0])


def as_called(module: nn.Module, weight: Tensor) -> Tensor:
    """Return a tensor with the dtype and device of a module's weight during a call.

    accelerate.cpu_offload leaves weights on the meta device. The hooks of accelerate load the
    weights for a call.

    Args:
        weight: of the module; returned unchanged unless hooks offload it.
    """
    if not weight.is_meta:
        return weight
    hook: Any = vars(module).get("_hf_hook")
    for hook_part in (
        hook,
        *getattr(hook, "hooks", ()),
    ):  # accelerate.hooks.SequentialHook has `hooks`
        device = getattr(hook_part, "execution_device", None)
        if device is not None:
            return torch.empty(0, dtype=weight.dtype, device=device)
    return weight
