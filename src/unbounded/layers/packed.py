"""Tensors as text: base64 of a chosen encoding."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from unbounded.errors import CheckpointError, ChoiceError

#: By name, little endian. An int8 is a multiple of `scale`.
ENCODINGS: Final = ("float32", "float16", "int8")
_INT8_MOST: Final = 127


def packed(tensor: Tensor, encoding: str) -> dict[str, Any]:
    """A tensor as plain data: "shape", "encoding", "data" in base64, and "scale" for int8.

    Raises:
        ChoiceError: there is no such encoding.
    """
    if encoding not in ENCODINGS:
        raise ChoiceError("encoding", encoding, ENCODINGS)
    numbers = tensor.detach().cpu().double()
    block: dict[str, Any] = {"shape": list(numbers.shape), "encoding": encoding}
    if encoding == "int8":
        most = float(numbers.abs().max()) if numbers.numel() else 0.0
        block["scale"] = most / _INT8_MOST if most else 1.0
        numbers = (numbers / block["scale"]).round()
    array = numbers.numpy().astype(np.dtype(encoding).newbyteorder("<"))
    block["data"] = base64.b64encode(array.tobytes()).decode("ascii")
    return block


def unpacked(name: str, block: Mapping[str, Any]) -> Tensor:
    """The tensor of a block, in float32.

    Raises:
        CheckpointError: the block is invalid; the message has its `name`.
    """
    try:
        encoding, shape = block["encoding"], tuple(block["shape"])
        if encoding not in ENCODINGS:
            raise ValueError(f"expected an encoding of {', '.join(ENCODINGS)}, got {encoding!r}")
        raw = base64.b64decode(block["data"], validate=True)
        array = np.frombuffer(raw, dtype=np.dtype(encoding).newbyteorder("<")).astype(np.float32)
        if encoding == "int8":
            array = array * np.float32(block["scale"])
        return torch.from_numpy(np.ascontiguousarray(array.reshape(shape)))
    except (LookupError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise CheckpointError(f"{name} is no block of numbers: {error}") from error
