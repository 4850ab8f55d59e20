"""Direct calls of the operators: reads and writes past a buffer are errors."""

from __future__ import annotations

import pytest
import torch
from _cases import MEMORIES, STRUCTURES, make_case, make_state
from tests.sweep import diagonal
from torch import Tensor

from unbounded.errors import UnboundedError
from unbounded.kernels import kernel_of, structure_of

OPERATORS = torch.ops.unbounded


def recurrence_call(memory, controller="lstm"):
    """Arguments of `recurrence`, by position and by name."""
    case = make_case(memory, controller, lengths=[7, 0, 3], grad=False)
    weights = list(case.weights)
    weights[3] = torch.zeros_like(weights[2])
    structure, activations, *_ = case.arguments()
    call = [
        structure.name, structure.options, activations, controller, case.x, case.lengths, weights,
        list(case.initial),
    ]  # fmt: skip
    return call, {"saves": True}


def recurrence_backward_call(memory, controller="lstm"):
    call, by_name = recurrence_call(memory, controller)
    results, kept = OPERATORS.recurrence(*call, **by_name)
    grads = [torch.randn_like(result) for result in results]
    return call, {"results": results, "kept": kept, "grads": grads, "needs": [True, True, True]}


def unroll_call(memory):
    memory, random = MEMORIES[memory], torch.Generator().manual_seed(0)
    instruction = [torch.rand(2, 5, *head.shape) for head in memory.heads]
    state = make_state(memory, 2, 2, random, torch.float32, grad=False)
    structure = kernel_of(memory)
    return [structure.name, structure.options, instruction, list(state)], {}


def unroll_backward_call(memory):
    call, _ = unroll_call(memory)
    results, kept = OPERATORS.unroll(*call)
    grads = [torch.randn_like(result) for result in results]
    return call, {"results": results, "kept": kept, "grads": grads}


CALLS = {
    "recurrence": recurrence_call,
    "recurrence_backward": recurrence_backward_call,
    "unroll": unroll_call,
    "unroll_backward": unroll_backward_call,
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


#: Changes that give another valid call: fewer cells, or fewer inputs.
RIGHT = (("superposition_stack", "cells"),)
ERRORS = (one_axis_too_many, shorter, narrower, other_dtype, spread_out)


def places(arguments):
    """Every tensor of a call, as (argument's position or name, index in a list or None)."""
    for key, argument in arguments.items():
        if isinstance(argument, Tensor):
            yield key, None
        elif isinstance(argument, list):
            for j, tensor in enumerate(argument):
                if isinstance(tensor, Tensor):
                    yield key, j


def run(operator, arguments):
    """Call an operator with arguments by position and by name."""
    by_place = [argument for key, argument in arguments.items() if isinstance(key, int)]
    by_name = {key: argument for key, argument in arguments.items() if isinstance(key, str)}
    return operator(*by_place, **by_name)


@pytest.mark.parametrize(("name", "memory", "error"), diagonal(CALLS, STRUCTURES, ERRORS, share=3))
def test_a_tensor_that_does_not_fit_is_an_error(name, memory, error):
    operator = getattr(OPERATORS, name)
    by_place, by_name = CALLS[name](memory)
    arguments = dict(enumerate(by_place)) | by_name
    run(operator, arguments)
    for key, j in places(arguments):
        correct = arguments[key] if j is None else arguments[key][j]
        is_cells = memory == "superposition_stack" and error is narrower and correct.dim() == 3
        if correct.numel() == 0 or (is_cells and "backward" not in name and j is not None):
            continue  # fewer cells are another valid call
        wrong = error(correct) if j is None else with_tensor(arguments[key], j, error(correct))
        # Some tensors determine the sizes; then the error names other tensors.
        with pytest.raises((UnboundedError, RuntimeError), match=r"expected|lengths"):
            run(operator, arguments | {key: wrong})


@pytest.mark.parametrize("memory", STRUCTURES)
@pytest.mark.parametrize("name", ["recurrence_backward", "unroll_backward"])
@pytest.mark.parametrize("which", ["results", "kept", "grads"])
def test_a_wrong_number_of_tensors_is_an_error(name, memory, which):
    operator = getattr(OPERATORS, name)
    by_place, by_name = CALLS[name](memory)
    for wrong in (by_name[which][:-1], [*by_name[which], by_name[which][-1]]):
        with pytest.raises(UnboundedError, match=f"{which}: expected .* tensors, got {len(wrong)}"):
            operator(*by_place, **by_name | {which: wrong})


def with_tensor(tensors, place, replacement):
    return [*tensors[:place], replacement, *tensors[place + 1 :]]


@pytest.mark.parametrize("name", CALLS)
def test_unknown_names_and_options_are_errors(name):
    operator = getattr(OPERATORS, name)
    arguments, by_name = CALLS[name]("deque")
    with pytest.raises(UnboundedError, match="heap"):
        operator("heap", *arguments[1:], **by_name)
    for options in ([], [3, 4], [0]):
        with pytest.raises(UnboundedError, match=r"options|width"):
            operator("deque", options, *arguments[2:], **by_name)
    if "recurrence" in name:
        with pytest.raises(UnboundedError, match="activation"):
            operator(*arguments[:2], ["tanh"], *arguments[3:], **by_name)
        with pytest.raises(UnboundedError, match="cubed"):
            operator(*arguments[:2], ["cubed"] * 6, *arguments[3:], **by_name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("queue", (0,), "width"),
        ("turing_tape", (5, 3, 1, 1, 1, 1, 0, 10), "floor_digits: expected one of .*, got 10"),
        ("turing_tape", (5, 3, 1, 1, 6, 1, 0, 15), "shift_range"),
        ("superposition_stack", (2, 2, 2, 0, 1, 0, 0), "width: expected an integer >= 1, got 0"),
        ("superposition_stack", (2, 2, 2, 0, 1, 1, -1), "empty: expected a finite number, got nan"),
        ("superposition_stack", (2, 2, 3, 2, 1, 1, 0), "capacity"),
        ("superposition_list", (2, 2, 2, 0, 1, 1, 0), "has 3, or 4 with NO-OP, got 2"),
        ("lie_access", (3, 17, 4, 0, 0, 1, 1, 0, 1, 1, 1), "at most 16 coordinates, got 17"),
        ("lie_access", (3, 2, 9, 0, 0, 1, 1, 0, 1, 1, 1), "group: expected a place in .*, got 9"),
        ("lie_access", (3, 2, 0, 0, -1, 1, 1, 0, 1, 1, 1), "step: expected a place in .*, got -1"),
        ("lie_access", (3, 2, 3, 0, 0, 1, 1, 0, 1, 1, 1), "key_size: expected 3"),
        ("lie_access", (3, 2, 0, 0, 0, 1, 1, 4, 5, 1, 1), "drop"),
        ("lie_access", (3, 2, 0, 0, 0, 1, 1, 0, 1, 0, 1), "read_heads: expected an integer >= 1"),
        ("lie_access", (3, 5, 2, 0, 0, 1, 1, 0, 1, 1, 1), "key_size: expected 2"),
        ("random_access", (3, 0, 1, 0), "key_size: expected an integer >= 1, got 0"),
    ],
)
def test_options_out_of_range_are_an_error(name, options, message):
    with pytest.raises(UnboundedError, match=message):
        structure_of(name, options)


def test_lengths_out_of_range_are_an_error():
    arguments, by_name = recurrence_call("stack")
    for lengths in ([8, 0, 3], [-1, 0, 3]):
        with pytest.raises(UnboundedError, match="lengths"):
            OPERATORS.recurrence(*arguments[:5], torch.tensor(lengths), *arguments[6:], **by_name)
