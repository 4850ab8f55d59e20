"""The operators called by themselves: what would read or write past a buffer is an error."""

from __future__ import annotations

import pytest
import torch
from _cases import MEMORIES, STRUCTURES, make_case, make_state
from torch import Tensor

from unbounded.errors import UnboundedError

OPERATORS = torch.ops.unbounded


def recurrence_arguments(memory, controller="lstm"):
    case = make_case(memory, controller, lengths=[7, 0, 3], grad=False)
    weights = list(case.weights)
    weights[3] = torch.zeros_like(weights[2])
    structure, activations, *_ = case.arguments()
    return [
        structure.name, structure.options, activations, controller, case.x, case.lengths, weights,
        list(case.initial), True,
    ]  # fmt: skip


def backward_arguments(memory):
    *arguments, _ = recurrence_arguments(memory)
    results = OPERATORS.recurrence(*arguments, True)
    grads = [torch.randn_like(result) for result in results[: 1 + len(arguments[-1])]]
    return [*arguments, results, grads, [True, True, True]]


def unroll_arguments(memory):
    memory, random = MEMORIES[memory], torch.Generator().manual_seed(0)
    instruction = [torch.rand(2, 5, *head.shape) for head in memory.heads]
    state = make_state(memory, 2, 2, random, torch.float32, grad=False)
    return [memory.kernel.name, memory.kernel.options, instruction, list(state)]


def unroll_backward_arguments(memory):
    arguments = unroll_arguments(memory)
    results = OPERATORS.unroll(*arguments)
    grads = [torch.randn_like(result) for result in results[: 1 + len(arguments[-1])]]
    return [*arguments, results, grads]


CALLS = {
    "recurrence": recurrence_arguments,
    "recurrence_backward": backward_arguments,
    "unroll": unroll_arguments,
    "unroll_backward": unroll_backward_arguments,
}


def one_axis_too_many(tensor: Tensor) -> Tensor:
    return tensor.unsqueeze(0)


def shorter(tensor: Tensor) -> Tensor:
    return tensor[: len(tensor) - 1].contiguous()


def narrower(tensor: Tensor) -> Tensor:
    return tensor[..., :-1].contiguous()


def other_dtype(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float16 if tensor.is_floating_point() else torch.int16)


def spread_out(tensor: Tensor) -> Tensor:
    return torch.stack((tensor, tensor), -1)[..., 0]


#: What only makes another call that is right: fewer cells, or an input less.
RIGHT = (("superposition_stack", "cells"),)
FAULTS = (one_axis_too_many, shorter, narrower, other_dtype, spread_out)


def places(arguments):
    """Every tensor of a call, as (argument, place in a list or None)."""
    for i, argument in enumerate(arguments):
        if isinstance(argument, Tensor):
            yield i, None
        elif isinstance(argument, list):
            for j, tensor in enumerate(argument):
                if isinstance(tensor, Tensor):
                    yield i, j


@pytest.mark.parametrize("memory", STRUCTURES)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_tensor_that_does_not_fit_is_an_error(name, memory, fault):
    operator = getattr(OPERATORS, name)
    arguments = CALLS[name](memory)
    operator(*arguments)
    for i, j in places(arguments):
        right = arguments[i] if j is None else arguments[i][j]
        is_cells = memory == "superposition_stack" and fault is narrower and right.dim() == 3
        if right.numel() == 0 or (is_cells and "backward" not in name and j is not None):
            continue  # fewer cells are another call, which is right
        wrong = list(arguments)
        wrong[i] = fault(right) if j is None else with_tensor(arguments[i], j, fault(right))
        # Sizes are read off some tensors: then the others do not fit, and are named.
        with pytest.raises((UnboundedError, RuntimeError), match=r"expected|lengths"):
            operator(*wrong)


def with_tensor(tensors, place, replacement):
    return [*tensors[:place], replacement, *tensors[place + 1 :]]


@pytest.mark.parametrize("name", CALLS)
def test_unknown_names_and_options_are_errors(name):
    operator, arguments = getattr(OPERATORS, name), CALLS[name]("deque")
    with pytest.raises(UnboundedError, match="heap"):
        operator("heap", *arguments[1:])
    for options in ([], [3, 4], [0]):
        with pytest.raises(UnboundedError, match=r"options|width"):
            operator("deque", options, *arguments[2:])
    if "recurrence" in name:
        with pytest.raises(UnboundedError, match="activation"):
            operator(*arguments[:2], ["tanh"], *arguments[3:])
        with pytest.raises(UnboundedError, match="cubed"):
            operator(*arguments[:2], ["cubed"] * 6, *arguments[3:])


def test_lengths_out_of_range_are_an_error():
    arguments = recurrence_arguments("stack")
    for lengths in ([8, 0, 3], [-1, 0, 3]):
        with pytest.raises(UnboundedError, match="lengths"):
            OPERATORS.recurrence(*arguments[:5], torch.tensor(lengths), *arguments[6:])
