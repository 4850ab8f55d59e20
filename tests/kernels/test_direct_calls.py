"""The operators called by themselves: what would read or write past a buffer is an error."""

from __future__ import annotations

import pytest
import torch
from _cases import make_case
from torch import Tensor

from unbounded.errors import UnboundedError

OPERATORS = torch.ops.unbounded


def recurrence_arguments(structure="deque", controller="lstm"):
    case = make_case(structure, controller, lengths=[7, 0, 3], grad=False)
    bias_hh = torch.zeros_like(case.weights.bias_ih)
    weights = case.weights._replace(bias_hh=bias_hh)
    return [
        structure, controller, case.x, case.lengths, *weights, case.head_weight, case.head_bias,
        *case.initial, True,
    ]  # fmt: skip


def backward_arguments():
    _, _, x, lengths, *tensors, _ = arguments = recurrence_arguments()
    results = OPERATORS.recurrence(*arguments)
    weight_ih, weight_hh, _, _, head_weight, _, *initial = tensors
    grads = [torch.randn_like(result) for result in results[:6]]
    inputs = [x, weight_ih, head_weight, *initial]
    return ["deque", "lstm", inputs, lengths, weight_hh, results, grads, True, True]


def unroll_arguments():
    return ["stack", torch.randn(2, 7, 3), torch.rand(2, 5, 2), torch.rand(2, 2)]


def unroll_backward_arguments():
    arguments = unroll_arguments()
    readings, strengths, *kept = OPERATORS.unroll(*arguments)
    return [*arguments, strengths, kept, torch.randn_like(readings), torch.randn_like(strengths)]


def superposition_arguments():
    random = torch.Generator().manual_seed(0)
    count, depth, hidden, inputs, batch = 3, 2, 5, 4, 2

    def normal(*shape):
        return torch.randn(*shape, generator=random)

    blocks = 4 * hidden
    return [
        "superposition_stack", "lstm", normal(6, batch, inputs), torch.tensor([6, 2]),
        normal(blocks, inputs + count * depth), normal(blocks, hidden), normal(blocks),
        normal(blocks), normal(3 * count, hidden), normal(3 * count), normal(batch, hidden),
        normal(batch, hidden), normal(batch, count * depth), normal(batch, count, 4), 0, False,
        True,
    ]  # fmt: skip


def superposition_backward_arguments():
    arguments = superposition_arguments()
    _, _, x, lengths, weight_ih, weight_hh, _, _, head_weight, _, *initial = arguments[:14]
    results = OPERATORS.superposition(*arguments)
    grads = [torch.randn_like(result) for result in results[:5]]
    inputs = [x, weight_ih, head_weight, *initial]
    return [
        "superposition_stack", "lstm", inputs, lengths, weight_hh, results, grads, 0, True, True,
        True,
    ]  # fmt: skip


def superposition_unroll_arguments():
    return ["superposition_list", torch.rand(2, 5, 12), torch.randn(2, 3, 5), 2, 0, False]


def superposition_unroll_backward_arguments():
    structure, instructions, memory0, depth, capacity, _ = superposition_unroll_arguments()
    readings, final, *kept = OPERATORS.superposition_unroll(
        structure, instructions, memory0, depth, capacity, False
    )
    grads = torch.randn_like(readings), torch.randn_like(final)
    return [structure, instructions, memory0, kept, *grads, depth, capacity]


CALLS = {
    "recurrence": recurrence_arguments,
    "recurrence_backward": backward_arguments,
    "unroll": unroll_arguments,
    "unroll_backward": unroll_backward_arguments,
    "superposition": superposition_arguments,
    "superposition_backward": superposition_backward_arguments,
    "superposition_unroll": superposition_unroll_arguments,
    "superposition_unroll_backward": superposition_unroll_backward_arguments,
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


#: What only makes another call that is right: a memory of fewer columns or cells.
RIGHT = {
    ("unroll", narrower, 1),
    ("superposition", narrower, 13),
    ("superposition_unroll", narrower, 2),
}
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


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_tensor_that_does_not_fit_is_an_error(name, fault):
    operator = getattr(OPERATORS, name)
    arguments = CALLS[name]()
    operator(*arguments)
    for i, j in places(arguments):
        right = arguments[i] if j is None else arguments[i][j]
        if (name, fault, i) in RIGHT:
            continue
        if right.numel() == 0:
            continue
        wrong = list(arguments)
        wrong[i] = fault(right) if j is None else with_tensor(arguments[i], j, fault(right))
        # Sizes are read off some tensors: then the others do not fit, and are named.
        with pytest.raises((UnboundedError, RuntimeError), match=r"expected|lengths"):
            operator(*wrong)


def with_tensor(tensors, place, replacement):
    return [*tensors[:place], replacement, *tensors[place + 1 :]]


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_name_is_an_error(name):
    operator = getattr(OPERATORS, name)
    arguments = CALLS[name]()
    with pytest.raises(UnboundedError, match="heap"):
        operator("heap", *arguments[1:])
