"""The weights in a page: one base64 string, in the smallest precision that keeps all outputs."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unbounded.checks import check_choice
from unbounded.explorer.model_data import model_tensors
from unbounded.models.memory_model import MemoryModel
from unbounded.rnn.room import drops_are_meant
from unbounded.tasks import LengthRange, Task
from unbounded.training.objective import OBJECTIVES

#: Little-endian types by their names in a page. With int8, tensors other than matrices are float16.
PRECISIONS: Final[dict[str, torch.dtype]] = {
    "int8": torch.int8,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}
_LARGEST: Final = 127
_LARGEST_HALF: Final = torch.finfo(torch.float16).max
#: Names of the linear maps in `model_tensors`, which hold nearly all numbers.
_MAPS: Final = ("embedding", "weight", "weight_ih", "weight_hh")


def packed_weights(tensors: Mapping[str, Tensor], precision: str) -> dict[str, Any]:
    """Convert tensors by name to plain data.

    A constant tensor is stored as its single number, in any precision.

    Args:
        tensors: tensors of any shapes.
        precision: one of PRECISIONS. In int8 a linear map has a scale per row, and other tensors
            are float16; tensors too large for float16 are float32.
    Returns:
        "precision", "data" (base64) and "tensors". Each tensor has its "shape", its "offset" among
        the numbers or its constant "fill", and with int8 its "scales". "rest" has the tensors of
        another precision, in the same form.
    Raises:
        ChoiceError: unknown precision.
    """
    check_choice("precision", precision, PRECISIONS)
    own = {name: tensor for name, tensor in tensors.items() if _fits(name, tensor, precision)}
    places: dict[str, dict[str, Any]] = {}
    parts: list[Tensor] = []
    offset = 0
    for name, tensor in own.items():
        numbers = tensor.detach().cpu()
        place: dict[str, Any] = {"shape": list(numbers.shape)}
        if numbers.numel() and bool((numbers == numbers.flatten()[0]).all()):
            place["fill"] = float(numbers.flatten()[0])
        else:
            if precision == "int8":
                numbers, scales = in_steps(numbers)
                place["scales"] = [float(f"{scale:.6g}") for scale in scales.tolist()]
            place["offset"] = offset
            offset += numbers.numel()
            parts.append(numbers.to(PRECISIONS[precision]).flatten())
        places[name] = place
    joined = torch.cat(parts) if parts else torch.empty(0, dtype=PRECISIONS[precision])
    data = base64.b64encode(joined.numpy().tobytes()).decode("ascii")
    weights = {"precision": precision, "data": data, "tensors": places}
    if rest := {name: tensor for name, tensor in tensors.items() if name not in own}:
        weights["rest"] = packed_weights(rest, "float16" if precision == "int8" else "float32")
    return weights


def _fits(name: str, tensor: Tensor, precision: str) -> bool:
    """Whether a tensor can be stored in a precision."""
    if precision == "int8":
        return is_map(name)
    return precision != "float16" or bool((tensor.abs() <= _LARGEST_HALF).all())


def is_map(name: str) -> bool:
    """Whether a tensor is a linear map, which can be stored in int8."""
    return name.rpartition(".")[2] in _MAPS


def in_steps(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise a matrix to integers from -127 to 127 with a scale per row.

    Args:
        matrix: [R, C].
    Returns:
        Integers [R, C] and scales [R]; a row of zeros has scale 1.
    """
    scales = matrix.abs().amax(dim=1).double() / _LARGEST
    scales = torch.where(scales == 0, torch.ones_like(scales), scales)
    steps = (matrix.double() / scales[:, None]).round().clamp(-_LARGEST, _LARGEST)
    return steps, scales


def unpacked_weights(weights: Mapping[str, Any]) -> dict[str, Tensor]:
    """Unpack the tensors from `packed_weights` to float64, as the page does."""
    kinds = {"int8": "<i1", "float16": "<f2", "float32": "<f4", "float64": "<f8"}
    raw = base64.b64decode(weights["data"])
    numbers = torch.from_numpy(
        np.frombuffer(raw, dtype=kinds[weights["precision"]]).astype("float64")
    )
    tensors: dict[str, Tensor] = {}
    for name, place in weights["tensors"].items():
        shape = place["shape"]
        if "fill" in place:
            tensors[name] = torch.full(shape, place["fill"], dtype=torch.float64)
            continue
        size = int(np.prod(shape))
        tensor = numbers[place["offset"] : place["offset"] + size].reshape(shape)
        if "scales" in place:
            tensor = tensor * torch.tensor(place["scales"], dtype=torch.float64)[:, None]
        tensors[name] = tensor
    return tensors | (unpacked_weights(weights["rest"]) if "rest" in weights else {})


def as_in_page(model: MemoryModel, precision: str) -> MemoryModel:
    """Return a copy of a model, in its own dtype, with the weights of its page.

    Args:
        model: a model on the CPU.
        precision: one of PRECISIONS.
    """
    rounded = copy.deepcopy(model)
    maps = {name: tensor for name, tensor in model_tensors(rounded).items() if is_map(name)}
    before = {name: tensor.clone() for name, tensor in maps.items()}
    halves = PRECISIONS["float16" if precision == "int8" else precision]
    with torch.no_grad():
        for tensor in (*rounded.parameters(), *rounded.buffers()):
            if tensor.is_floating_point() and bool(tensor.to(halves).isfinite().all()):
                tensor.copy_(tensor.to(halves))
        if precision == "int8":
            # `maps` shares its memory with the parameters of the copy.
            stored = unpacked_weights(packed_weights(before, "int8"))
            for name, tensor in maps.items():
                tensor.copy_(stored[name])
    return rounded


#: Number of test strings on which the outputs are compared.
WORDS: Final = 32
#: Choices, and the precisions to try for each; the last one is not checked.
CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "int8": ("int8", "float16", "float32"),
    "half": ("float16", "float32"),
    "float32": ("float32",),
    "float64": ("float64",),
}
_WORDS: Final = {
    "int8": "8 bits", "float16": "half precision", "float32": "float32", "float64": "float64",
}  # fmt: skip


class Agreement(NamedTuple):
    """Agreement of a model's outputs with those under the page's weights.

    Fields:
        precision: precision of the page's weights.
        words: number of test strings.
        differing: number of strings with different outputs.
    """

    precision: str
    words: int
    differing: int

    @property
    def error(self) -> str:
        """A sentence on the differing outputs."""
        return (
            f"in {_WORDS[self.precision]} {self.differing} of {self.words} test "
            "strings have other outputs"
        )


def agreement(
    model: MemoryModel,
    task: Task,
    seed: int,
    lengths: LengthRange,
    precision: str = "float16",
) -> Agreement:
    """Compare outputs on test strings under the model's weights and the page's weights.

    Two outputs agree if they are equal at each scored step, or at each step if none is scored, as
    for a model without a task.
    """
    rounded = as_in_page(model, precision)
    batch = task.batch(seed, "test", 0, WORDS, lengths)
    predict = OBJECTIVES[task.objective].predict
    with torch.no_grad(), drops_are_meant():
        outputs, rounded_outputs = (predict(net(batch.inputs)[0]) for net in (model, rounded))
    steps = torch.arange(batch.inputs.shape[1]) < batch.lengths[:, None]
    counts = batch.mask if bool(batch.mask.any()) else steps
    differing = ((outputs != rounded_outputs) & counts).any(dim=1)
    return Agreement(precision, WORDS, int(differing.sum()))


def weights_data(
    model: MemoryModel, task: Task, seed: int, lengths: LengthRange, choice: str
) -> tuple[dict[str, Any], str]:
    """The weights of a page as plain data, and a sentence about them for the page's reader.

    Args:
        model: a model on the CPU.
        task, seed, lengths: those of the test strings.
        choice: "int8", "half", "float32" or "float64". If one of the first two changes an output,
            the next larger precision is used.
    Raises:
        ChoiceError: unknown choice.
    """
    check_choice("weights", choice, CHOICES)
    *tried, last = CHOICES[choice]
    chosen = last
    reasons: list[str] = []
    for precision in tried:
        answers = agreement(model, task, seed, lengths, precision)
        if answers.differing == 0:
            same = f"{WORDS} of {WORDS} test strings have the same outputs as in float32"
            chosen, reasons = precision, [same, *reasons]
            break
        reasons.append(answers.error)
    note = f"Weights in {_WORDS[chosen]}{': ' if reasons else ''}{'; '.join(reasons)}."
    return packed_weights(model_tensors(model), chosen), note
