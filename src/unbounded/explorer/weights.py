"""The weights of a model as text: tensors by name in one base64 string, most of them in half."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn

from unbounded.errors import ChoiceError

ModelT = TypeVar("ModelT", bound=nn.Module)

#: By the name in a page, little endian.
PRECISIONS: Final[dict[str, torch.dtype]] = {
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}


def packed(tensors: Mapping[str, Tensor], precision: str) -> dict[str, Any]:
    """Tensors by name as plain data.

    A tensor that is the same number everywhere is that number, whatever the precision.

    Args:
        tensors: of any shapes.
        precision: one of PRECISIONS.
    Returns:
        "precision", "data" (base64) and "tensors": for each its shape, and where it begins among
        the numbers ("offset") or what fills it ("fill").
    Raises:
        ChoiceError: there is no such precision.
    """
    if precision not in PRECISIONS:
        raise ChoiceError("precision", precision, PRECISIONS)
    places: dict[str, dict[str, Any]] = {}
    parts: list[Tensor] = []
    offset = 0
    for name, tensor in tensors.items():
        numbers = tensor.detach().cpu()
        place: dict[str, Any] = {"shape": list(numbers.shape)}
        if numbers.numel() and bool((numbers == numbers.flatten()[0]).all()):
            place["fill"] = float(numbers.flatten()[0])
        else:
            place["offset"] = offset
            offset += numbers.numel()
            parts.append(numbers.to(PRECISIONS[precision]).flatten())
        places[name] = place
    joined = torch.cat(parts) if parts else torch.empty(0, dtype=PRECISIONS[precision])
    data = base64.b64encode(joined.numpy().tobytes()).decode("ascii")
    return {"precision": precision, "data": data, "tensors": places}


def in_half(model: ModelT) -> ModelT | None:
    """A copy of a model whose parameters are rounded to half precision.

    Returns:
        the copy, in the dtype of the model; None where a number is too large for half precision.
    """
    rounded = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in (*rounded.parameters(), *rounded.buffers()):
            if not tensor.is_floating_point():
                continue
            tensor.copy_(tensor.half())
            if not bool(tensor.isfinite().all()):
                return None
    return rounded
